"""Who embeds which texts now, among all machines that share an object store: no text is sent by two of them at once.

All claims on one table lie in one object, which whoever claims puts again on condition that nobody else did meanwhile.
That is one request a batch for who is alone. An owner holds a lock of the store; where that falls silent, its claims
are void. Where the store cannot be reached, nobody is seen, and some texts may be paid for twice.
"""

import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from rag_assets.embedding.claiming import Claimed, Known
from rag_assets.errors import StoreError
from rag_assets.storing.leases import BEAT_SECONDS, forget, is_held, lease
from rag_assets.storing.objects import Objects
from rag_assets.storing.shared_values import SharedValue

_T = TypeVar("_T")

# Two texts whose hashes begin alike are sent one after the other, which harms nobody.
_KEY_LETTERS = 16


@dataclass
class _Book:
    """Who has claimed what: owner → beginnings of keys. `starts` counts the owners there ever were."""

    starts: int
    claims: dict[str, set[str]]

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> "_Book":
        """The book that `value` holds; an empty one where that is damaged."""
        try:
            return cls(int(value["starts"]), {str(owner): set(keys) for owner, keys in value["claims"].items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls(0, {})

    def write(self, value: dict[str, Any]) -> None:
        """Put the book into `value`."""
        value["starts"] = self.starts
        value["claims"] = {owner: sorted(keys) for owner, keys in self.claims.items()}


class StoreClaims:
    """Claims on the texts of the table `name` in the store `objects`. `known(keys)` tells which have a vector by now.

    with StoreClaims(objects, name, known) as claims: ...
    """

    poll_seconds = 1.0

    def __init__(self, objects: Objects, name: str, known: Known) -> None:
        self._objects = objects
        self._name = name
        self._book = SharedValue(objects, f"claims/{name}.json")
        self._known = known
        self._owner = uuid.uuid4().hex
        self._held = ExitStack()
        self._ours: set[str] = set()
        self._starts = 0
        # Whether anybody else was there since we began, and until when the others were last seen alive.
        self._with_others = False
        self._alive: dict[str, float] = {}

    def __enter__(self) -> Self:
        with suppress(StoreError):
            self._begin()
        return self

    def _begin(self) -> None:
        """Become an owner: hold a lock, and stand in the book."""
        self._held.close()
        self._owner = uuid.uuid4().hex
        self._held.enter_context(lease(self._objects, self._lock(self._owner)))

        def enter(book: _Book) -> None:
            book.starts += 1
            self._starts = book.starts
            self._with_others |= self._drop_the_dead(book)
            book.claims[self._owner] = self._ours - self._taken(book)

        self._change(enter)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(StoreError):
            self._change(lambda book: book.claims.pop(self._owner, None))
        self._held.close()
        with suppress(StoreError):
            forget(self._objects, self._lock(self._owner))

    def claim(self, keys: Collection[str]) -> Claimed:
        """Claim those of `keys` that nobody else has claimed. A key that is ours already stays so, unless others took us for
        dead and claimed it."""
        wanted = {key[:_KEY_LETTERS] for key in keys}

        def take(book: _Book) -> set[str] | None:
            if self._owner not in book.claims:
                return None
            others = self._drop_the_dead(book)
            self._with_others |= others or book.starts != self._starts
            book.claims[self._owner] = (self._ours | wanted) - self._taken(book)
            return book.claims[self._owner]

        try:
            ours = self._change(take)
            if ours is None:
                # Others took us for dead, or we could not begin. Who came and went meanwhile may have embedded our texts.
                self._with_others = True
                self._begin()
                ours = self._change(take) or set()
        except StoreError:
            return Claimed(mine=frozenset(keys), known=frozenset())
        self._ours = ours
        mine = {key for key in keys if key[:_KEY_LETTERS] in ours}
        known: Collection[str] = ()
        if self._with_others:
            known = self._known(keys)
            self.release(mine.intersection(known))
        return Claimed(mine=frozenset(mine.difference(known)), known=frozenset(known))

    def release(self, keys: Collection[str]) -> None:
        """Give up claims: the texts have their vectors, or were refused. Others learn of it with our next claim."""
        self._ours -= {key[:_KEY_LETTERS] for key in keys}

    def _change(self, change: Callable[[_Book], _T]) -> _T:
        """Apply `change` to the latest book and put it. Raises `StoreError` where that does not succeed."""

        def changed(value: dict[str, Any]) -> _T:
            book = _Book.read(value)
            result = change(book)
            book.write(value)
            return result

        return self._book.change(changed)

    def _drop_the_dead(self, book: _Book) -> bool:
        """Make the claims of owners void that are dead, and return whether another lives."""
        for owner in [owner for owner in book.claims if owner != self._owner]:
            if time.monotonic() < self._alive.get(owner, 0.0):
                continue
            if is_held(self._objects, self._lock(owner)):
                self._alive[owner] = time.monotonic() + BEAT_SECONDS
            else:
                del book.claims[owner]
                forget(self._objects, self._lock(owner))
        return any(owner != self._owner for owner in book.claims)

    def _taken(self, book: _Book) -> set[str]:
        """What the others have claimed."""
        return set().union(*(theirs for owner, theirs in book.claims.items() if owner != self._owner))

    def _lock(self, owner: str) -> str:
        return f"claims.{self._name}.{owner}"
