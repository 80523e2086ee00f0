"""Blocks with a name, packed into chunks: what code, data and topics have in common.

A strategy opens the blocks of a document as far as it must and hands them over as units, in order. Here they become
spans:

* A unit that fits is a chunk, and one that does not is cut at its seams.
* A small unit without a name, such as the imports of a module, goes with the unit after it, if both fit.
* Neighbours that are both tiny (a quarter of the limit) share a chunk, unless the second is on a higher level. Its
  heading path is what their paths have in common.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Seam, grouped, line_starts, pack, seams, sentence_starts
from rag_assets.records import Span


@dataclass(frozen=True, slots=True)
class Unit:
    """What stands from `start` to the next unit.

    `path` names what it is part of and, if it is `named`, itself. `level` counts the blocks that were opened around it.
    `seams` are where to cut it, the first of them at `start`; without them it is cut at lines.
    """

    start: int
    path: tuple[str, ...] = ()
    level: int = 0
    named: bool = True
    seams: Sequence[Seam] = ()


@dataclass(frozen=True, slots=True)
class _Bounded:
    unit: Unit
    start: int
    end: int


def pack_units(limits: Limits, units: Sequence[Unit], end: int) -> Iterator[Span]:
    """Spans that cover the text from the first unit to `end`."""
    for run in grouped(_joined(limits, _bounded(units, end)), partial(_may_share, limits)):
        if len(run) == 1:
            yield from _split(limits, run[0])
        else:
            yield from _share(limits, run)


def _bounded(units: Sequence[Unit], end: int) -> Iterator[_Bounded]:
    for unit, following in pairwise([*units, Unit(end)]):
        if following.start > unit.start:
            yield _Bounded(unit, unit.start, following.start)


def _joined(limits: Limits, units: Iterator[_Bounded]) -> Sequence[_Bounded]:
    joined: list[_Bounded] = []
    for unit in reversed(list(units)):
        if joined and _introduces(limits, unit, joined[-1]):
            joined[-1] = replace(joined[-1], start=unit.start)
        else:
            joined.append(unit)
    return joined[::-1]


def _introduces(limits: Limits, unit: _Bounded, following: _Bounded) -> bool:
    if unit.unit.named or not limits.is_tiny(unit.start, unit.end) or not _goes_on(unit, following):
        return False
    if (
        following.unit.level == unit.unit.level
        and not following.unit.named
        and limits.is_tiny(following.start, following.end)
    ):
        return False  # two of a kind: they may share a chunk with more of them
    return limits.fits(unit.start, following.end)


def _may_share(limits: Limits, unit: _Bounded, following: _Bounded) -> bool:
    """Neighbours share a chunk when both are tiny, and the second is not on a higher level."""
    tiny = limits.is_tiny(unit.start, unit.end) and limits.is_tiny(following.start, following.end)
    return tiny and _goes_on(unit, following)


def _goes_on(unit: _Bounded, following: _Bounded) -> bool:
    return following.unit.level >= unit.unit.level


def _split(limits: Limits, bounded: _Bounded) -> Iterator[Span]:
    start, end = bounded.start, bounded.end
    if limits.fits(start, end):
        at = [Seam(start, 0, whole=True)]
    elif bounded.unit.seams:
        at = [*bounded.unit.seams]
    else:
        at = [*seams(limits, start, end, rank=0, splitters=((1, line_starts), (2, sentence_starts)))]
    for piece in pack(limits, end, at=at, overlap_tokens=0):
        yield Span(piece.start, piece.end, bounded.unit.path)


def _share(limits: Limits, run: Sequence[_Bounded]) -> Iterator[Span]:
    starts = [bounded.start for bounded in run]
    at = [Seam(start, 0, whole=True) for start in starts]
    for piece in pack(limits, run[-1].end, at=at, overlap_tokens=0):
        shared = run[bisect_right(starts, piece.start) - 1 : bisect_left(starts, piece.end)]
        yield Span(piece.start, piece.end, _common([bounded.unit.path for bounded in shared]))


def _common(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    if len(paths) == 1:
        return paths[0]
    return tuple(first for first, *others in zip(*paths, strict=False) if all(other == first for other in others))
