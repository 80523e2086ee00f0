"""Functions, classes and methods: for source code.

tree-sitter reads the code, also where it has errors. A definition that fits is whole, with its decorators and the
comments directly above it. One that does not fit is opened: its methods and inner functions are definitions in turn, and
its signature is a heading of theirs. What stands between definitions, and a function too long for a chunk, is cut between
statements. Every cut is at the start of a line, unless a line does not fit.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from rag_assets.chunking.languages import ATTACHED, BODIES, body_of, definition_in, inside, members_of
from rag_assets.chunking.limits import Limits
from rag_assets.chunking.lines import line_units
from rag_assets.chunking.offsets import Offsets
from rag_assets.chunking.packing import Seam, line_starts, seams
from rag_assets.chunking.parsing import parse
from rag_assets.chunking.sql import statement_units
from rag_assets.chunking.units import Unit, pack_units
from rag_assets.records import Document, Span

VERSION = 1

_MAX_DEPTH = 20
_MAX_TITLE_CHARACTERS = 120
_BETWEEN_LINES = 1_000  # a rank worse than any statement's
_ANNOTATIONS = re.compile(r"^(?:@(?!interface\b)[\w.]+(?:\([^()]*\))?\s+)+")
_AFTER_SIGNATURE = re.compile(r"(?:\s|\{|:|=>|=|\()+$")


def split_code_functions(document: Document, limits: Limits) -> Iterator[Span]:
    """Definitions, packed as `units` says. A language without a grammar is cut at its lines."""
    text = document.text
    if document.mime == "text/x-sql":
        units = list(statement_units(text))
    else:
        root = parse(document)
        units = list(_Code(limits).units(root) if root else line_units(limits))
    return pack_units(limits, units, len(text))


@dataclass(frozen=True, slots=True)
class _Item:
    """A definition with what is attached to it, or the statements up to the next one."""

    start: int
    nodes: Sequence[Node]
    definition: Node | None = None


class _Code:
    """The units of one parsed text."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._offsets = Offsets(limits.text)

    def units(self, root: Node) -> Iterator[Unit]:
        yield Unit(0, named=False)
        yield from self._all(list(self._items(members_of(root))), len(self._limits.text), path=(), level=0)

    def _all(self, items: Sequence[_Item], end: int, *, path: tuple[str, ...], level: int) -> Iterator[Unit]:
        for item, following in pairwise([*items, _Item(end, [])]):
            yield from self._units(item, following.start, path=path, level=level)

    def _units(self, item: _Item, end: int, *, path: tuple[str, ...], level: int) -> Iterator[Unit]:
        if item.definition is None:
            yield Unit(item.start, path, level, named=False, seams=self._seams(item, end))
            return
        own = (*path, self._signature(item.definition))
        if self._limits.fits(item.start, end) or level >= _MAX_DEPTH:
            yield Unit(item.start, own, level, seams=self._seams(item, end))
            return
        inner = [inner for inner in self._items(inside(item.definition)) if inner.start > item.start]
        first = next((index for index, within in enumerate(inner) if within.definition), None)
        if first is None:
            yield Unit(item.start, own, level, seams=self._seams(item, end))
            return
        yield Unit(item.start, own, level + 1, named=False, seams=self._seams(item, inner[first].start))
        yield from self._all(inner[first:], end, path=own, level=level + 1)

    def _items(self, nodes: Iterable[Node]) -> Iterator[_Item]:
        """What stands in a block, in order. What begins in the middle of a line belongs to what is before it."""
        loose: list[Node] = []
        above: list[Node] = []
        for child in nodes:
            if above and child.start_point.row > _last_row(above[-1]) + 1:
                loose += above
                above = []
            definition = None if child.type in ATTACHED else definition_in(child)
            start = self._first_line([*above, child]) if definition else None
            if definition and start is not None:
                yield from self._statements(loose)
                yield _Item(start, [child], definition)
                loose, above = [], []
            elif child.type in ATTACHED:
                above.append(child)
            else:
                loose += [*above, child]
                above = []
        yield from self._statements([*loose, *above])

    def _statements(self, nodes: Sequence[Node]) -> Iterator[_Item]:
        start = self._first_line(nodes)
        if start is not None:
            yield _Item(start, nodes)

    def _first_line(self, nodes: Sequence[Node]) -> int | None:
        return next((line for line in map(self._offsets.line, nodes) if line is not None), None)

    def _seams(self, item: _Item, end: int) -> Sequence[Seam]:
        """Where to cut what does not fit: between statements, the deeper the worse, and between lines inside them."""
        start = item.start
        if self._limits.fits(start, end):
            return ()
        ranks = {start: 0}
        todo: list[tuple[Sequence[Node], int]] = [(item.nodes, 1)]
        while todo:
            nodes, rank = todo.pop()
            under_comment = False
            for node in nodes:
                place = self._offsets.line(node)
                if place is not None and start < place < end and not under_comment and node.type not in BODIES:
                    ranks[place] = min(rank, ranks.get(place, rank))
                if not self._limits.fits(self._offsets.start(node), self._offsets.end(node)):
                    todo.append((node.named_children, rank + 1))
                under_comment = node.type in ATTACHED
        found: list[Seam] = []
        for place, following in pairwise([*sorted(ranks), end]):
            splitters = ((_BETWEEN_LINES, line_starts),)
            found += seams(self._limits, place, following, rank=ranks[place], splitters=splitters)
        return found

    def _signature(self, definition: Node) -> str:
        """The text of a definition up to its body on one line; without a body, its first line."""
        start, end = self._offsets.start(definition), self._offsets.end(definition)
        body = body_of(definition)
        if body is not None:
            comments = (node for node in definition.children if node.type in ATTACHED)
            end = min(self._offsets.start(node) for node in (body, *comments))
        written = self._limits.text[start:end]
        words = " ".join((written if body else re.split(r"[\n{]", written, maxsplit=1)[0]).split())
        title = _AFTER_SIGNATURE.sub("", _ANNOTATIONS.sub("", words))
        return title if len(title) <= _MAX_TITLE_CHARACTERS else f"{title[: _MAX_TITLE_CHARACTERS - 1]}…"


def _last_row(node: Node) -> int:
    return node.end_point.row - (node.end_point.column == 0)
