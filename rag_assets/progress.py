"""Who watches the work: the command line draws a bar, a run writes log lines. Stages only report."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener(stage, done, total)` at every step of the work that this process does meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(stage: str, done: int, total: int) -> None:
    """Tell all listeners how far `stage` is."""
    for listener in _listeners:
        listener(stage, done, total)


def reporting(heartbeat: "Heartbeat") -> Listener:
    """A `Progress` for a stage that tells all listeners, and `heartbeat`."""

    def tell(stage: str, done: int, total: int) -> None:
        report(stage, done, total)
        heartbeat(stage, done, total)

    return tell


class Heartbeat:
    """Writes a line with done/total, rate and time left, at most every `seconds`, for those who watch a log."""

    def __init__(self, write: Callable[[str], None], *, seconds: float = 15.0) -> None:
        self._write = write
        self._seconds = seconds
        self._started = self._last = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """A `Listener`."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return
        self._last = now
        if done == 0:
            self._write(f"{stage}: none of {total:,} yet, after {now - self._started:,.0f} s")
            return
        rate = done / (now - self._started)
        self._write(f"{stage}: {done:,} of {total:,}, {rate:.1f} a second, about {(total - done) / rate:,.0f} s left")
