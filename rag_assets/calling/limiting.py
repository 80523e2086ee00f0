"""How much is sent to a provider at once and a minute, by all processes of this machine together; of all machines, see
`store_limiting.py`.

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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from filelock import FileLock, Timeout

from rag_assets.caching import cache_folder

_MINUTE = 60.0
_LONGEST_SLEEP = 0.5
_SLOT_POLL_SECONDS = 0.01
_STALE_SECONDS = 3600.0
"""A wait of more than this comes from a clock that was set back."""
_TOO_LATE = "the limits on requests let nothing through in time"
_DURATION = re.compile(r"([\d.]+)(ms|h|m|s)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Limits:
    """What one server, key and model allow. None: as much as fits, until the server says otherwise."""

    concurrency: int
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


_T = TypeVar("_T")


class Limiter:
    """Hands out requests. Safe to use from many threads, and from many processes with the same `key`."""

    sustained: ClassVar[float] = 0.9
    """The share of a limit that is spent evenly. The rest may be spent at once, so that no minute ever holds more."""
    delay_seconds: ClassVar[float] = 0.0
    """For how long after it was booked a request may still be sent."""

    def __init__(self, key: str, limits: Limits, *, folder: Path | None = None) -> None:
        self._limits = limits
        self._base = (folder or cache_folder("limits")) / hashlib.sha256(key.encode()).hexdigest()[:24]
        self._guard = threading.RLock()
        self._own_slots = threading.BoundedSemaphore(limits.concurrency)

    @contextlib.contextmanager
    def request(self, tokens: int, *, until: float = math.inf) -> Iterator[None]:
        """Wait until a request of `tokens` may be sent, and hold one of the places in flight until the block ends.

        Raises `TimeoutError` where that may not be before `until`, by `time.monotonic()`. The request is not booked then,
        unless to book it took longer than was left.
        """
        with self._slot(until):
            _refuse_after(until)
            while (seconds := self._claim(tokens)) > 0:
                _sleep(min(seconds, _LONGEST_SLEEP), until)
            _refuse_after(until)
            yield

    def pause(self, seconds: float) -> None:
        """Let nobody send anything for `seconds`."""
        now = self._now()
        self._change(lambda state: state.postpone("pause", now + seconds, now))

    def learn(self, headers: Mapping[str, str], *, tokens: int) -> None:
        """Take over the limits a minute that a reply tells (`x-ratelimit-*`), where none are configured; and wait when
        it says that another request of `tokens` would be too much."""
        for name, cost in (("requests", 1), ("tokens", tokens)):
            limit, left = (_number(headers.get(f"x-ratelimit-{what}-{name}")) for what in ("limit", "remaining"))
            resets = duration(headers.get(f"x-ratelimit-reset-{name}"))
            if limit is None and left is None:
                continue
            missing = 0.0
            if left is not None and left < cost and resets:
                missing = resets * min((cost - left) / (limit - left) if limit and limit > left else 1.0, 1.0)
            self._learn(name, limit, pause=min(missing, _MINUTE))

    def _learn(self, name: str, limit: float | None, *, pause: float) -> None:
        now = self._now()

        def change(state: State) -> None:
            if limit:
                state.learn(name, limit)
            if pause:
                state.postpone("pause", now + pause, now)

        self._change(change)

    def _claim(self, tokens: int) -> float:
        """Book a request of `tokens` and return 0, or return the seconds until it may be tried again."""
        return self._book({"requests": 1, "tokens": tokens}, seconds=0.0).wait

    def _book(self, costs: Mapping[str, int], *, seconds: float) -> "Booking":
        """Book `costs` once, or as many times as the limits allow in `seconds` where that is more."""
        now = self._now()
        configured = {"requests": self._limits.requests_per_minute, "tokens": self._limits.tokens_per_minute}
        burst = _MINUTE * (1 / self.sustained - 1) - self.delay_seconds

        def book(state: State) -> Booking:
            entries = state.entries(now)
            limits = {name: configured[name] or entries.get(name, (0.0, None))[1] for name in costs}
            rates = {name: self.sustained * limit / _MINUTE for name, limit in limits.items() if limit}
            times = min((int(rate * seconds / max(costs[name], 1)) for name, rate in rates.items()), default=1)
            amounts = {name: max(times, 1) * costs[name] for name in rates}
            earliest = entries.get("pause", (0.0, None))[0]
            until: dict[str, float] = {}
            for name, rate in rates.items():
                free_at = entries.get(name, (0.0, None))[0]
                took = min(amounts[name] / rate, _MINUTE / self.sustained)
                earliest = max(earliest, free_at + took - burst)
                until[name] = max(free_at, now) + took
            if earliest > now:
                return Booking(earliest - now, {})
            for name, moment in until.items():
                state.postpone(name, moment, now)
            return Booking(0.0, amounts)

        return self._change(book)

    def _now(self) -> float:
        return time.time()

    @contextlib.contextmanager
    def _slot(self, until: float) -> Iterator[None]:
        left = None if until == math.inf else max(0.0, until - time.monotonic())
        if not self._own_slots.acquire(timeout=left):
            raise TimeoutError(_TOO_LATE)
        held = None
        try:
            while held is None and self._is_shared:
                held = next(filter(None, map(self._try_slot, range(self._limits.concurrency))), None)
                if held is None:
                    _sleep(_SLOT_POLL_SECONDS, until)
            yield
        finally:
            if held:
                held.release()
            self._own_slots.release()

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

    def _change(self, change: "Callable[[State], _T]") -> _T:
        """Read and change the state that all share, in one transaction. Where the disk refuses it, this process goes on
        alone: a limit that is passed costs a 429, which is dealt with."""
        with self._guard:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error:
                self._connection = _connect(":memory:")
                self._connection.execute("BEGIN IMMEDIATE")
            try:
                return change(_SqliteState(self._connection))
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("COMMIT")

    @functools.cached_property
    def _connection(self) -> sqlite3.Connection:
        try:
            return _connect(f"{self._base}.sqlite" if self._is_shared else ":memory:")
        except sqlite3.Error:
            return _connect(":memory:")


def _sleep(seconds: float, until: float) -> None:
    """Sleep for `seconds`. Raises `TimeoutError` when it is `until` by then."""
    time.sleep(max(0.0, min(seconds, until - time.monotonic())))
    _refuse_after(until)


def _refuse_after(until: float) -> None:
    if time.monotonic() >= until:
        raise TimeoutError(_TOO_LATE)


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
class Booking:
    """What was booked of each limit that there is; or, with nothing booked, for how many seconds to wait."""

    wait: float
    amounts: Mapping[str, int]


class State(Protocol):
    """What all that use a key share. `free_at` is the time at which what was spent of a limit is paid back; `learned` the
    limit that a server told."""

    def entries(self, now: float) -> dict[str, tuple[float, float | None]]:
        """`free_at` and `learned` by name: `requests`, `tokens`, and `pause`."""
        ...

    def postpone(self, name: str, until: float, now: float) -> None:
        """Move `free_at` to `until`, and never back."""
        ...

    def learn(self, name: str, limit: float) -> None:
        """Keep the limit that a server told."""
        ...


def is_stale(free_at: float, now: float) -> bool:
    """Whether a time is too far away to be meant."""
    return free_at - now >= _STALE_SECONDS


@dataclass(frozen=True)
class _SqliteState:
    connection: sqlite3.Connection

    def entries(self, now: float) -> dict[str, tuple[float, float | None]]:
        rows = self.connection.execute("SELECT name, free_at, learned FROM limits").fetchall()
        return {name: (0.0 if is_stale(free_at, now) else free_at, learned) for name, free_at, learned in rows}

    def postpone(self, name: str, until: float, now: float) -> None:
        self.connection.execute(
            "INSERT INTO limits (name, free_at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET free_at ="
            " CASE WHEN free_at - ? < ? THEN max(free_at, excluded.free_at) ELSE excluded.free_at END",
            (name, until, now, _STALE_SECONDS),
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
