"""Chunks that follow the headings of a document.

A section is a heading and what stands under it up to the next heading. A chunk holds one section or part of one; parts
of a long section overlap. Two exceptions keep chunks worth finding:

* A heading without text of its own goes with the section after it.
* Neighbours that are both tiny (a quarter of the limit) share a chunk, unless the second is on a higher level. Its
  heading path is what their paths have in common.

Fenced blocks, tables and lists stay whole where they fit.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Seam, Splitter, grouped, line_starts, pack, seams, sentence_starts, word_starts
from rag_assets.chunking.sections import Section, to_sections
from rag_assets.reading.blocks import Block, read_outline
from rag_assets.records import Document, Span

VERSION = 2


_BETWEEN_BLOCKS, _AFTER_INTRODUCTION, _BETWEEN_ITEMS, _BETWEEN_SENTENCES, _BETWEEN_LINES = range(5)
_SENTENCES: Splitter = (_BETWEEN_SENTENCES, sentence_starts)
_LINES: Splitter = (_BETWEEN_LINES, line_starts)


@dataclass(frozen=True)
class _Unit:
    """A section with the bare headings before it (or after the last one)."""

    sections: tuple[Section, ...]

    @property
    def start(self) -> int:
        return self.sections[0].start

    @property
    def end(self) -> int:
        return self.sections[-1].end


def split_markdown(document: Document, limits: Limits) -> Sequence[Span]:
    """Sections, packed as the module says."""
    text = document.text
    spans: list[Span] = []
    units = _units(limits, to_sections(read_outline(text).blocks, len(text)))
    for run in grouped(units, partial(_may_share, limits)):
        if len(run) == 1:
            spans += _split_unit(limits, run[0])
        else:
            spans += _share(limits, run)
    return spans


def _units(limits: Limits, sections: Sequence[Section]) -> Iterator[_Unit]:
    waiting: list[Section] = []
    last: _Unit | None = None
    for section in sections:
        crowded = waiting and not limits.is_tiny(waiting[0].start, section.end)
        if crowded and not section.has_body:
            if last:
                yield last
            last, waiting = _Unit(tuple(waiting)), []
        waiting.append(section)
        if section.has_body:
            if last:
                yield last
            last, waiting = _Unit(tuple(waiting)), []
    if waiting and last and limits.fits(last.start, waiting[-1].end):
        yield _Unit((*last.sections, *waiting))
        return
    if last:
        yield last
    if waiting:
        yield _Unit(tuple(waiting))


def _may_share(limits: Limits, unit: _Unit, following: _Unit) -> bool:
    """Neighbours share a chunk when both are tiny, and the second is not on a higher level."""
    tiny = limits.is_tiny(unit.start, unit.end) and limits.is_tiny(following.start, following.end)
    return tiny and _goes_on(unit, following)


def _goes_on(unit: _Unit, following: _Unit) -> bool:
    """Whether `following` stands beside or under the last section of `unit`."""
    return following.sections[0].level >= unit.sections[-1].level


def _share(limits: Limits, run: Sequence[_Unit]) -> Iterator[Span]:
    at = [Seam(unit.start, _BETWEEN_BLOCKS, whole=True) for unit in run]
    starts = [unit.start for unit in run]
    for piece in pack(limits, run[-1].end, at=at, overlap_tokens=0):
        shared = run[bisect_right(starts, piece.start) - 1 : bisect_left(starts, piece.end)]
        sections = [section for unit in shared for section in unit.sections]
        yield Span(piece.start, piece.end, _path(sections))


def _split_unit(limits: Limits, unit: _Unit) -> Iterator[Span]:
    path = _path(unit.sections)
    openings = (line_starts, sentence_starts, word_starts)
    pieces = pack(
        limits, unit.end, at=list(_seams(limits, unit)), overlap_tokens=limits.overlap_tokens, openings=openings
    )
    return (Span(piece.overlap_start, piece.end, path) for piece in pieces)


def _path(sections: Sequence[Section]) -> tuple[str, ...]:
    """What the paths of the sections with text have in common."""
    paths = [section.path for section in sections if section.has_body] or [section.path for section in sections]
    common = [first for first, *others in zip(*paths, strict=False) if all(other == first for other in others)]
    return paths[0] if len(paths) == 1 else tuple(common)


def _seams(limits: Limits, unit: _Unit) -> Iterator[Seam]:
    """The places to cut a unit: between its blocks, and inside those that are too large."""
    rank = _BETWEEN_BLOCKS
    for start, block, end in _parts(unit):
        inside = list(seams(limits, start, end, rank=rank, splitters=_splitters(block)))
        under_heading = [seam for seam in inside if seam.position <= block.start]
        yield Seam(start, rank, whole=all(seam.whole for seam in under_heading))
        yield from inside[len(under_heading) :]
        rank = _AFTER_INTRODUCTION if limits.text[start:end].rstrip().endswith(":") else _BETWEEN_BLOCKS


def _parts(unit: _Unit) -> Iterator[tuple[int, Block, int]]:
    """The blocks of a unit, each with the headings before it, so that no cut leaves a heading alone: (start, block, end)."""
    blocks = [block for section in unit.sections for block in section.blocks]
    start, under_heading = unit.start, False
    for block, following in zip_longest(blocks, blocks[1:]):
        under_heading = block.kind == "heading" or (block.kind == "rule" and under_heading)
        end = following.start if following else unit.end
        if not (following and under_heading):
            yield start, block, end
            start = end


def _splitters(block: Block) -> Sequence[Splitter]:
    match block.kind:
        case "list":
            return ((_BETWEEN_ITEMS, lambda *_: iter(block.items[1:])), _LINES, _SENTENCES)
        case "paragraph":
            return (_SENTENCES, _LINES)
        case _:
            return (_LINES, _SENTENCES)
