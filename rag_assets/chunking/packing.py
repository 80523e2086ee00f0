"""Cutting a range into pieces that fit, so that an edit changes only the pieces it touches.

A packer that fills every piece to the brim moves all later cuts when a word is added; semantic-text-splitter works so,
which is why it is not used. Here a cut is chosen by content: among the places in the upper half of what fits, the best
kind of place, and among equals the one whose following text has the least checksum. Two packings that start at
different places meet at the first such place that both see, a few pieces after an edit. Pieces are three quarters full
on average. (The idea is content-defined chunking, as backup tools do it with bytes.)
"""

import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from rag_assets.chunking.limits import Limits

T = TypeVar("T")

_CHECKSUM_CHARACTERS = 48
_SENTENCE_END_CHARACTERS = 8
_WORD = re.compile(r"(?<=\s)\S")
_LINE = re.compile(r"(?<=\n)(?=[^\w\n]*\w)")
_SENTENCE = re.compile(r"""(?:[.!?…]["'”’»)\]]*+\s++|[。！？｡]["'”’」』）]*+\s*+)(?=\S)""")

Splitter = tuple[int, Callable[[Limits, int, int], Iterator[int]]]
"""How bad it is to cut there, and the places inside a range."""


@dataclass(frozen=True, slots=True)
class Seam:
    """A place to cut before. The lower the rank, the better the place. The text up to the next seam stays `whole`."""

    position: int
    rank: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """`start:end` without the white space around it; `text[overlap_start:start]` repeats what stands before it."""

    overlap_start: int
    start: int
    end: int


def line_starts(limits: Limits, start: int, end: int) -> Iterator[int]:
    """Where lines start inside a range. One without a word, such as a closing fence, goes with the line before it."""
    return (found.start() for found in _LINE.finditer(limits.text, start + 1, end))


def sentence_starts(limits: Limits, start: int, end: int) -> Iterator[int]:
    """Where sentences start inside a range."""
    found = (match.end() for match in _SENTENCE.finditer(limits.text, start, end))
    return (position for position in found if start < position < end and limits.breaks(position))


def word_starts(limits: Limits, start: int, end: int) -> Iterator[int]:
    """Where words start inside a range, after white space."""
    found = (match.start() for match in _WORD.finditer(limits.text, start + 1, end))
    return (position for position in found if limits.breaks(position))


def seams(limits: Limits, start: int, end: int, *, rank: int, splitters: Sequence[Splitter]) -> Iterator[Seam]:
    """The range as seams: one if it fits whole, else those of the first splitter's parts, each split further if need be."""
    if limits.fits(start, end) or not splitters:
        yield Seam(start, rank, whole=limits.fits(start, end))
        return
    inner_rank, split = splitters[0]
    for part_start, part_end in pairwise([start, *split(limits, start, end), end]):
        part_rank = rank if part_start == start else inner_rank
        yield from seams(limits, part_start, part_end, rank=part_rank, splitters=splitters[1:])


def pack(
    limits: Limits,
    end: int,
    *,
    at: Sequence[Seam],
    overlap_tokens: int,
    openings: Sequence[Callable[[Limits, int, int], Iterator[int]]] = (word_starts,),
) -> Iterator[Piece]:
    """Pieces of the text from the first seam to `end`, in order, each within `max_tokens` with its overlap.

    Text that is not whole is cut at words, and at grapheme clusters where there is no word. An overlap starts at the
    earliest place that the first of `openings` finds in reach, else the next. Only a cluster that is larger than the
    limit makes a larger piece.
    """
    positions = [seam.position for seam in at]
    begin = limits.skip_blank(positions[0], end)
    first = previous = begin
    while begin < end:
        wanted = overlap_tokens if begin > first else 0
        excess = 0
        while True:
            ceiling = max(0, limits.max_tokens - excess)
            allowance = max(0, ceiling - wanted)
            stop = _stop(limits, begin, end, at, positions, allowance=allowance, ceiling=ceiling)
            trimmed = limits.trim_end(begin, stop)
            opening = _opening(limits, previous, begin, trimmed, overlap_tokens=wanted, openings=openings)
            over = limits.count(opening, trimmed) - limits.max_tokens
            if over <= 0 or limits.cluster_end(begin) >= trimmed:
                break
            excess += over
        yield Piece(opening, begin, trimmed)
        previous, begin = opening, limits.skip_blank(stop, end)


def _stop(
    limits: Limits,
    begin: int,
    end: int,
    at: Sequence[Seam],
    positions: Sequence[int],
    *,
    allowance: int,
    ceiling: int,
) -> int:
    """Where the piece that begins at `begin` ends: at most `ceiling` tokens on, and `allowance` if there is a choice."""
    if limits.estimate(begin, end) <= (ceiling if at[-1].whole else allowance):
        return end
    low, high = (max(begin, limits.reach(begin, tokens)) for tokens in (allowance // 2, allowance))
    first, beyond = bisect_right(positions, begin), bisect_right(positions, high)
    good = [index for index in range(first, beyond) if positions[index] >= low]
    if good:
        choice = _without_scraps(limits, good, positions, end, scrap=limits.max_tokens // 4)
        return positions[min(choice, key=lambda i: (at[i].rank, _checksum(limits.text, positions[i]), -i))]
    if not at[beyond - 1].whole:
        return _stop_inside(limits, begin, low, high)
    following = positions[beyond] if beyond < len(positions) else end
    if limits.estimate(begin, following) <= ceiling:
        return following
    if beyond > first:
        return positions[beyond - 1]
    return _stop_inside(limits, begin, low, high)


def _without_scraps(
    limits: Limits, good: Sequence[int], positions: Sequence[int], end: int, *, scrap: int
) -> Sequence[int]:
    """`good` without the cuts that would leave next to nothing for the last piece, if others are left."""
    return [index for index in good if limits.estimate(positions[index], end) >= scrap] or good


def _stop_inside(limits: Limits, begin: int, low: int, high: int) -> int:
    words = [word for word in word_starts(limits, begin, high + 1) if word >= low]
    if words:
        return _least(limits, words)
    clusters = limits.token_cuts(begin, max(low, begin + 1), high) or limits.cluster_ends(begin, high)[-1:]
    return _least(limits, clusters) if clusters else limits.cluster_end(begin)


def _least(limits: Limits, places: Sequence[int]) -> int:
    return min(places, key=lambda position: (_checksum(limits.text, position), -position))


def _checksum(text: str, position: int) -> int:
    return zlib.crc32(text[position : position + _CHECKSUM_CHARACTERS].encode())


def _opening(
    limits: Limits,
    previous: int,
    begin: int,
    end: int,
    *,
    overlap_tokens: int,
    openings: Sequence[Callable[[Limits, int, int], Iterator[int]]],
) -> int:
    """Where a piece starts with its overlap: after `previous`, where the last one starts; `begin` if none fits."""
    room = min(overlap_tokens, limits.max_tokens - limits.estimate(begin, end))
    if room <= 0:
        return begin
    low = max(limits.reach_back(begin, room), previous)
    for places in (*openings, _clusters_from(previous)):
        for place in places(limits, max(previous, low - _SENTENCE_END_CHARACTERS), begin):
            if low <= place != previous and limits.count(place, end) <= limits.max_tokens:
                repeated = limits.trim_end(place, begin)
                if limits.count(place, repeated) <= overlap_tokens:
                    return place
    return begin


def _clusters_from(start: int) -> Callable[[Limits, int, int], Iterator[int]]:
    def places(limits: Limits, low: int, end: int) -> Iterator[int]:
        cuts = limits.token_cuts(start, low, end - 1)
        return (place for place in cuts if not limits.text[place].isspace())

    return places


def grouped(units: Iterable[T], belong: Callable[[T, T], bool]) -> Iterator[list[T]]:
    """`units` in runs of neighbours, each of which belongs to the one before it."""
    run: list[T] = []
    for unit in units:
        if run and not belong(run[-1], unit):
            yield run
            run = []
        run.append(unit)
    if run:
        yield run
