"""A small value that the processes of all machines change together: one object, put again on condition that nobody else
did meanwhile."""

import copy
import json
import random
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from rag_assets.errors import StoreError
from rag_assets.storing.objects import Objects, Stored

_T = TypeVar("_T")

_ATTEMPTS = 100
_FIRST_WAIT_SECONDS = 0.02
_LONGEST_WAIT_SECONDS = 0.5


class SharedValue:
    """The JSON object at `path`. Who is alone changes it with one request. Not to be used by two threads at once."""

    def __init__(self, objects: Objects, path: str) -> None:
        self._objects = objects
        self._path = path
        self._last: Stored | None = None

    def change(self, change: Callable[[dict[str, Any]], _T]) -> _T:
        """Let `change` modify the latest value in place, put that, and return what `change` returned. It is called again
        where another process was faster. A value that is missing, or damaged, is empty.

        Raises `StoreError` where others are faster again and again, or the store cannot be reached.
        """
        for attempt in range(_ATTEMPTS):
            before = _read(self._last)
            value = copy.deepcopy(before)
            result = change(value)
            if value == before:
                if self._is_latest():
                    return result
                continue
            # Never twice the same: the mark of some stores is a hash of the content.
            data = json.dumps({**value, "nonce": uuid.uuid4().hex}).encode()
            if self._last is None:
                mark = self._objects.create(self._path, data)
            else:
                mark = self._objects.update(self._path, data, self._last.mark)
            if mark is not None:
                self._last = Stored(data, mark)
                return result
            if attempt:
                longest = min(_FIRST_WAIT_SECONDS * 2**attempt, _LONGEST_WAIT_SECONDS)
                time.sleep(random.uniform(0, longest))  # noqa: S311 - spreads those who wait
            self._is_latest()
        raise StoreError(f"{self._objects.uri}/{self._path} was changed by others {_ATTEMPTS} times in a row")

    def _is_latest(self) -> bool:
        """Look whether the value is still the one that we know, and know the latest from then on."""
        known, self._last = self._last, self._objects.get(self._path)
        return (known and known.data) == (self._last and self._last.data)


def _read(stored: Stored | None) -> dict[str, Any]:
    try:
        value = json.loads(stored.data) if stored is not None else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
