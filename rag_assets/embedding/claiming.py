"""Who embeds which texts now, among the processes of this machine: no text is sent by two of them at once.

Claims lie in a SQLite file of the user's cache, named after the table that the vectors go to. Whoever claims holds a lock
file, which the system frees when the process dies; its claims are then void. Where the cache cannot be written to, nobody
is seen: two processes that embed the same texts at once then pay for some of them twice, and nothing else happens.
`store_claiming.py` does the same between machines.
"""

import contextlib
import hashlib
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from filelock import FileLock, Timeout

from rag_assets.caching import cache_folder

Known = Callable[[Collection[str]], Collection[str]]


@dataclass(frozen=True)
class Claimed:
    """Of the keys that were asked for: those that are ours to send, and those that have a vector by now. Somebody else is
    sending the others."""

    mine: frozenset[str]
    known: frozenset[str]


class Claims(Protocol):
    """The claims of one run on texts, by their keys."""

    @property
    def poll_seconds(self) -> float:
        """How long to wait before asking again for texts that others claim."""
        ...

    def claim(self, keys: Collection[str]) -> Claimed:
        """Claim those of `keys` that nobody else has claimed. A key that is ours already stays so."""
        ...

    def release(self, keys: Collection[str]) -> None:
        """Give up claims: the texts have their vectors, or were refused."""
        ...


class MachineClaims:
    """Claims on the texts of the table `name`, among the processes of this machine. `known(keys)` tells which of them have
    a vector by now.

    with MachineClaims(uri, known) as claims: ...
    """

    poll_seconds = 0.1

    def __init__(self, name: str, known: Known, *, folder: Path | None = None) -> None:
        self._base = (folder or cache_folder("claims")) / hashlib.sha256(name.encode()).hexdigest()[:24]
        self._known = known
        self._owner = uuid.uuid4().hex
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None
        # Whether anybody else was there since we began; and how many had begun by then, to see who came and went unseen.
        self._with_others = False
        self._starts = 0

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError, sqlite3.Error):
            self._base.parent.mkdir(parents=True, exist_ok=True)
            self._lock = self._lock_of(self._owner)
            self._lock.acquire(blocking=False)
            connection = sqlite3.connect(f"{self._base}.sqlite", timeout=30, isolation_level=None)
            connection.execute("PRAGMA synchronous = OFF")
            with _transaction(connection):
                connection.execute("CREATE TABLE IF NOT EXISTS owners (owner TEXT PRIMARY KEY)")
                connection.execute("CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL)")
                connection.execute("CREATE TABLE IF NOT EXISTS starts (count INTEGER NOT NULL)")
                connection.execute("INSERT INTO starts SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM starts)")
                connection.execute("UPDATE starts SET count = count + 1")
                connection.execute("INSERT INTO owners VALUES (?)", (self._owner,))
                self._starts = self._count_starts(connection)
                self._with_others = self._others(connection)
            self._connection = connection
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error), _transaction(self._connection):
                self._forget(self._connection, self._owner)
            self._connection.close()
        if self._lock is not None:
            self._lock.release()
            Path(self._lock.lock_file).unlink(missing_ok=True)

    def claim(self, keys: Collection[str]) -> Claimed:
        """Claim those of `keys` that nobody else has claimed. A key that is ours already stays so."""
        connection = self._connection
        if connection is None:
            return Claimed(mine=frozenset(keys), known=frozenset())
        try:
            with _transaction(connection):
                others = self._others(connection)
                connection.executemany(
                    "INSERT OR IGNORE INTO claims VALUES (?, ?)", [(key, self._owner) for key in keys]
                )
                mine = {
                    key
                    for key in keys
                    if connection.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()[0] == self._owner
                }
                starts = self._count_starts(connection)
        except sqlite3.Error:
            return Claimed(mine=frozenset(keys), known=frozenset())
        known: Collection[str] = ()
        self._with_others |= others or starts != self._starts
        if self._with_others:
            known = self._known(keys)
            self.release(mine.intersection(known))
        return Claimed(mine=frozenset(mine.difference(known)), known=frozenset(known))

    def release(self, keys: Collection[str]) -> None:
        """Give up claims: the texts have their vectors, or were refused."""
        if self._connection is not None and keys:
            with contextlib.suppress(sqlite3.Error), _transaction(self._connection):
                self._connection.executemany(
                    "DELETE FROM claims WHERE key = ? AND owner = ?", [(key, self._owner) for key in keys]
                )

    def _others(self, connection: sqlite3.Connection) -> bool:
        """Whether anybody else claims now. Claims of the dead are void."""
        alive = False
        for (owner,) in connection.execute("SELECT owner FROM owners WHERE owner != ?", (self._owner,)).fetchall():
            lock = self._lock_of(owner)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                alive = True
                continue
            self._forget(connection, owner)
            lock.release()
            Path(lock.lock_file).unlink(missing_ok=True)
        return alive

    def _forget(self, connection: sqlite3.Connection, owner: str) -> None:
        connection.execute("DELETE FROM claims WHERE owner = ?", (owner,))
        connection.execute("DELETE FROM owners WHERE owner = ?", (owner,))

    def _count_starts(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("SELECT count FROM starts").fetchone()[0])

    def _lock_of(self, owner: str) -> FileLock:
        return FileLock(f"{self._base}.{owner}.lock", thread_local=False)


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
