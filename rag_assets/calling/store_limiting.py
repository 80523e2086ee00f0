"""How much is sent to a provider a minute, by all machines that share an object store together.

What is spent lies in one object. A process books what a limit gives in two seconds at once, and hands that out by itself,
so that many requests cost one of the store. Requests in flight are counted by machine. Where the store cannot be
reached, each machine keeps to the limits alone.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rag_assets.calling.limiting import Limiter, Limits, State, is_stale
from rag_assets.config import store_address
from rag_assets.errors import StoreError
from rag_assets.fingerprints import hash_text
from rag_assets.storing.objects import Objects, objects_at, seconds_behind
from rag_assets.storing.shared_values import SharedValue

_T = TypeVar("_T")

_BOOKED_SECONDS = 2.0
# After the store did not answer. To ask takes seconds, in which nobody sends anything.
_ALONE_SECONDS = 60.0


def limiter_of(key: str, limits: Limits) -> Limiter:
    """What keeps to `limits` together with all who use the same home and `key`."""
    address = store_address()
    return Limiter(key, limits) if address is None else StoreLimiter(key, limits, objects_at(address))


@dataclass
class _Purse:
    """What is booked and not yet sent, by limit; without a limit there is no entry. It is void from `until` on."""

    until: float = 0.0
    left: dict[str, int] = field(default_factory=dict)

    def takes(self, costs: Mapping[str, int], now: float) -> bool:
        """Take `costs` out of it, where they are in it."""
        if now >= self.until or any(left < costs[name] for name, left in self.left.items()):
            return False
        self.left = {name: left - costs[name] for name, left in self.left.items()}
        return True


class StoreLimiter(Limiter):
    """A limiter whose limits a minute hold for all processes that use `objects` and the same `key`."""

    sustained: ClassVar[float] = 0.85
    delay_seconds: ClassVar[float] = 5.0

    def __init__(self, key: str, limits: Limits, objects: Objects, *, folder: Path | None = None) -> None:
        super().__init__(key, limits, folder=folder)
        self._objects = objects
        self._value = SharedValue(objects, f"limits/{hash_text(key)[:24]}.json")
        self._purse = _Purse()
        self._not_before = 0.0
        self._alone_until = 0.0
        self._told: dict[str, float | None] = {}

    def pause(self, seconds: float) -> None:
        """Let nobody send anything for `seconds`; other machines may still send what they have booked."""
        with self._guard:
            self._purse = _Purse()
            super().pause(seconds)

    def _claim(self, tokens: int) -> float:
        costs = {"requests": 1, "tokens": tokens}
        with self._guard:
            now = time.monotonic()
            if self._purse.takes(costs, now):
                return 0.0
            if now < self._not_before:
                return self._not_before - now
            booked = self._book(costs, seconds=_BOOKED_SECONDS)
            if booked.wait:
                self._not_before = now + booked.wait
                return booked.wait
            # Without limits there is nothing to book; whether others pause is looked at now and then.
            lasts = self.delay_seconds if booked.amounts else _BOOKED_SECONDS
            self._purse = _Purse(now + lasts, {name: amount - costs[name] for name, amount in booked.amounts.items()})
            return 0.0

    def _learn(self, name: str, limit: float | None, *, pause: float) -> None:
        """As always; what was told before is not put again with each reply."""
        with self._guard:
            if pause or limit != self._told.get(name):
                self._told[name] = limit
                super()._learn(name, limit, pause=pause)

    def _change(self, change: Callable[[State], _T]) -> _T:
        with self._guard:
            if time.monotonic() >= self._alone_until:
                try:
                    return self._value.change(lambda value: change(_State(value)))
                except StoreError:
                    self._alone_until = time.monotonic() + _ALONE_SECONDS
            return super()._change(change)

    def _now(self) -> float:
        """The time by the clock of the store, which is the same for all."""
        with self._guard:
            if time.monotonic() >= self._alone_until:
                try:
                    return super()._now() + seconds_behind(self._objects)
                except StoreError:
                    self._alone_until = time.monotonic() + _ALONE_SECONDS
            return super()._now()


@dataclass(frozen=True)
class _State:
    """See `State`: an entry of `value` is `{"free_at": …, "learned": …}`."""

    value: dict[str, Any]

    def entries(self, now: float) -> dict[str, tuple[float, float | None]]:
        return {name: self._entry(name, now) for name in ("requests", "tokens", "pause")}

    def postpone(self, name: str, until: float, now: float) -> None:
        free_at, learned = self._entry(name, now)
        self.value[name] = {"free_at": max(free_at, until), "learned": learned}

    def learn(self, name: str, limit: float) -> None:
        free_at = self.value[name]["free_at"] if name in self.value else 0.0
        self.value[name] = {"free_at": free_at, "learned": limit}

    def _entry(self, name: str, now: float) -> tuple[float, float | None]:
        entry = self.value.get(name) or {"free_at": 0.0, "learned": None}
        return (0.0 if is_stale(entry["free_at"], now) else entry["free_at"]), entry["learned"]
