"""How much is sent to a provider at once and a minute, by all processes of this machine together.

State lies in the user's cache: a small SQLite file for what is spent of a minute, and a lock file a request in flight,
which the system frees when a process dies. Where the folder cannot be written to, each process keeps to the limits on
its own. docs/decisions/0013-shared-limits.md says why this is ours.
"""

import contextlib
import functools
import hashlib
import math
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from rag_assets.caching import cache_folder

_MINUTE = 60.0
_SUSTAINED = 0.9
"""The share of a limit that is spent evenly. The rest may be spent at once, so that no minute ever holds more."""
_BURST_SECONDS = _MINUTE * (1 / _SUSTAINED - 1)
_LONGEST_SLEEP = 0.5
_SLOT_POLL_SECONDS = 0.01
_STALE_SECONDS = 3600.0
"""A wait of more than this comes from a clock that was set back."""
_DURATION = re.compile(r"([\d.]+)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Limits:
    """What one server, key and model allow. None: as much as fits, until the server says otherwise."""

    concurrency: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class Limiter:
    """Hands out requests. Safe to use from many threads, and from many processes with the same `key`."""

    def __init__(self, key: str, limits: Limits, *, folder: Path | None = None) -> None:
        self._limits = limits
        self._base = (folder or cache_folder("limits")) / hashlib.sha256(key.encode()).hexdigest()[:24]
        self._guard = threading.Lock()
        self._own_slots = threading.BoundedSemaphore(limits.concurrency)

    @contextlib.contextmanager
    def request(self, tokens: int) -> Iterator[None]:
        """Wait until a request of `tokens` may be sent, and hold one of the places in flight until the block ends."""
        with self._slot():
            while (seconds := self._claim(tokens)) > 0:
                time.sleep(min(seconds, _LONGEST_SLEEP))
            yield

    def pause(self, seconds: float) -> None:
        """Let nobody send anything for `seconds`."""
        with self._state() as state:
            state.postpone("pause", time.time() + seconds)

    def learn(self, headers: Mapping[str, str], *, tokens: int) -> None:
        """Take over the limits a minute that a reply tells (`x-ratelimit-*`), where none are configured; and wait when
        it says that another request of `tokens` would be too much."""
        for name, cost in (("requests", 1), ("tokens", tokens)):
            limit, left = (_number(headers.get(f"x-ratelimit-{what}-{name}")) for what in ("limit", "remaining"))
            resets = duration(headers.get(f"x-ratelimit-reset-{name}"))
            if limit is None and left is None:
                continue
            with self._state() as state:
                if limit:
                    state.learn(name, limit)
                if left is not None and left < cost and resets:
                    missing = (cost - left) / (limit - left) if limit and limit > left else 1.0
                    state.postpone("pause", time.time() + min(resets * min(missing, 1.0), _MINUTE))

    def _claim(self, tokens: int) -> float:
        """Book a request of `tokens` and return 0, or return the seconds until it may be tried again."""
        now = time.time()
        with self._state() as state:
            entries = state.entries(now)
            configured = {"requests": self._limits.requests_per_minute, "tokens": self._limits.tokens_per_minute}
            earliest = entries.get("pause", (0.0, None))[0]
            booked = {}
            for name, cost in (("requests", 1), ("tokens", tokens)):
                free_at, learned = entries.get(name, (0.0, None))
                limit = configured[name] or learned
                if limit:
                    took = min(cost, limit) * _MINUTE / (_SUSTAINED * limit)
                    earliest = max(earliest, free_at + took - _BURST_SECONDS)
                    booked[name] = max(free_at, now) + took
            if earliest <= now:
                for name, until in booked.items():
                    state.postpone(name, until)
                return 0.0
        return earliest - now

    @contextlib.contextmanager
    def _slot(self) -> Iterator[None]:
        with self._own_slots:
            held = None
            while held is None and self._is_shared:
                held = next(filter(None, map(self._try_slot, range(self._limits.concurrency))), None)
                if held is None:
                    time.sleep(_SLOT_POLL_SECONDS)
            try:
                yield
            finally:
                if held:
                    held.release()

    def _try_slot(self, number: int) -> FileLock | None:
        lock = FileLock(f"{self._base}.{number}.lock", thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock

    @functools.cached_property
    def _is_shared(self) -> bool:
        """Whether the folder can be written to, and so be shared with other processes."""
        try:
            self._base.parent.mkdir(parents=True, exist_ok=True)
            held = self._try_slot(0)
        except OSError:
            return False
        if held:
            held.release()
        return True

    @contextlib.contextmanager
    def _state(self) -> Iterator["_State"]:
        """The state that all share, in one transaction. Where the disk refuses it, this process goes on alone: a limit
        that is passed costs a 429, which is dealt with."""
        with self._guard:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                self._connection = _connect(":memory:")
                self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield _State(self._connection)
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("COMMIT")

    @functools.cached_property
    def _connection(self) -> sqlite3.Connection:
        try:
            return _connect(f"{self._base}.sqlite" if self._is_shared else ":memory:")
        except sqlite3.Error:
            return _connect(":memory:")


def _connect(file: str) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS limits (name TEXT PRIMARY KEY, free_at REAL NOT NULL DEFAULT 0, learned REAL)"
    )
    connection.execute("COMMIT")
    return connection


@dataclass(frozen=True)
class _State:
    """`free_at` is the time at which what was spent of a limit is paid back; `learned` the limit that a server told."""

    connection: sqlite3.Connection

    def entries(self, now: float) -> dict[str, tuple[float, float | None]]:
        rows = self.connection.execute("SELECT name, free_at, learned FROM limits").fetchall()
        return {name: (free_at if free_at - now < _STALE_SECONDS else 0.0, learned) for name, free_at, learned in rows}

    def postpone(self, name: str, until: float) -> None:
        self.connection.execute(
            "INSERT INTO limits (name, free_at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET free_at ="
            " CASE WHEN free_at - ? < ? THEN max(free_at, excluded.free_at) ELSE excluded.free_at END",
            (name, until, time.time(), _STALE_SECONDS),
        )

    def learn(self, name: str, limit: float) -> None:
        self.connection.execute(
            "INSERT INTO limits (name, learned) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET learned = excluded.learned",
            (name, limit),
        )


def duration(text: str | None) -> float | None:
    """Seconds of a time as rate-limit headers write it: `1s`, `6m0s`, `20ms`, `1h2m`, or a number of seconds."""
    if not text:
        return None
    parts = _DURATION.findall(text)
    if parts:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return _number(text)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
