"""Locks between machines: an object that its holder writes again every few seconds.

No clocks are compared. Whoever waits takes a lock over once it has seen the same content for `EXPIRES_SECONDS` on its own
clock: the holder is dead, or cut off. A holder that was only slow learns at its next beat that it lost the lock. So a
lock spares work and confusion, and no more: that nothing is lost is the business of conditional commits.
"""

import json
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rag_assets.errors import StoreError
from rag_assets.storing.objects import Mark, Objects

BEAT_SECONDS = 4.0
EXPIRES_SECONDS = 20.0
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Silence:
    """For how long objects have not changed, as this process saw it. Remembered between two looks, however far apart."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bytes | None, float]] = {}

    def seconds(self, name: str, content: bytes | None) -> float:
        """For how long `name` has had `content` whenever this was asked."""
        now = time.monotonic()
        before, since = self._seen.get(name, (None, now))
        if name not in self._seen or before != content:
            self._seen[name] = (content, now)
            return 0.0
        return now - since

    def forget(self, name: str) -> None:
        """Nobody looks at `name` any more."""
        self._seen.pop(name, None)


_silence = Silence()


@contextmanager
def lease(objects: Objects, name: str, *, timeout_seconds: float = -1) -> Iterator[None]:
    """Hold the lock `name` against all processes that use the store, on whatever machine.

    Raises `TimeoutError` when another process holds it for longer than `timeout_seconds` (negative: wait for ever). Where
    the holder was killed, that is known `EXPIRES_SECONDS` after the first look at it.
    """
    path = _path(name)
    owner = uuid.uuid4().hex
    held = _Held(objects, path, owner, _acquire(objects, path, owner, timeout_seconds=timeout_seconds))
    try:
        yield
    finally:
        held.release()


def is_held(objects: Objects, name: str) -> bool:
    """Whether a process holds the lock `name`. That one was killed is known `EXPIRES_SECONDS` after the first look."""
    path = _path(name)
    found = objects.get(path)
    return found is not None and _holder(found.data) is not None and not _is_silent(objects, path, found.data)


def forget(objects: Objects, name: str) -> None:
    """Delete the lock `name`, which nobody will ask for again."""
    objects.delete(_path(name))
    _silence.forget(f"{objects.uri}/{_path(name)}")


def _acquire(objects: Objects, path: str, owner: str, *, timeout_seconds: float) -> Mark:
    deadline = None if timeout_seconds < 0 else time.monotonic() + timeout_seconds
    wait = _FIRST_WAIT_SECONDS
    while True:
        found = objects.get(path)
        mark: Mark | None = None
        if found is None:
            mark = objects.create(path, _content(_myself(), owner))
        elif _holder(found.data) is None or _is_silent(objects, path, found.data):
            mark = objects.update(path, _content(_myself(), owner), found.mark)
        if mark is not None:
            _silence.forget(f"{objects.uri}/{path}")
            return mark
        if deadline is not None and time.monotonic() >= deadline:
            holder = _holder(found.data) if found else None
            raise TimeoutError(f"another process{f' ({holder})' if holder else ''} holds {objects.uri}/{path}")
        time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - spreads those who wait
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)


def _is_silent(objects: Objects, path: str, content: bytes) -> bool:
    return _silence.seconds(f"{objects.uri}/{path}", content) > EXPIRES_SECONDS


class _Held:
    """A lock that this process holds; a thread of its own writes it again until `release`."""

    def __init__(self, objects: Objects, path: str, owner: str, mark: Mark) -> None:
        self._objects = objects
        self._path = path
        self._owner = owner
        self._mark: Mark | None = mark
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lock {path}", daemon=True)
        self._thread.start()

    def release(self) -> None:
        self._end.set()
        self._thread.join()
        if self._mark is not None:
            with suppress(StoreError):
                self._mark = self._put(None, self._mark)

    def _beat(self) -> None:
        while self._mark is not None and not self._end.wait(BEAT_SECONDS):
            # While the store cannot be reached, the next beat tries again.
            with suppress(StoreError):
                self._mark = self._put(_myself(), self._mark)

    def _put(self, holder: str | None, mark: Mark) -> Mark | None:
        """Put the lock again; the new mark, or None where another process has it by now."""
        after = self._objects.update(self._path, _content(holder, self._owner), mark)
        if after is None:
            # The answer to an earlier put may have been lost.
            there = self._objects.get(self._path)
            if there is not None and _field(there.data, "owner") == self._owner:
                after = self._objects.update(self._path, _content(holder, self._owner), there.mark)
        if after is None:
            _log.warning(
                "the lock %s/%s is lost: this process was silent for %g seconds. What it committed stands, and is verified"
                " by the next publication",
                self._objects.uri,
                self._path,
                EXPIRES_SECONDS,
            )
        return after


def _path(name: str) -> str:
    return f"locks/{name}.json"


def _content(holder: str | None, owner: str) -> bytes:
    """What is put, never twice the same: the mark of some stores is a hash of the content."""
    return json.dumps({"holder": holder, "owner": owner, "nonce": uuid.uuid4().hex}).encode()


def _holder(data: bytes) -> str | None:
    """Who holds a lock, None where nobody does. A content that is none of ours counts as held until it is silent."""
    held = _field(data, "holder", otherwise="unknown")
    return None if held is None else str(held)


def _field(data: bytes, name: str, *, otherwise: object = None) -> object:
    try:
        value: object = json.loads(data)[name]
    except (ValueError, KeyError, TypeError):
        return otherwise
    return value


def _myself() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
