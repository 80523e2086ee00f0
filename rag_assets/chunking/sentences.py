"""Where sentences start, for strategies that are made of them.

`packing.sentence_starts` takes every full stop with a blank after it for an end, which does no harm where a long text
must be cut somewhere. Here an abbreviation, an initial or a word that goes on in lower case keeps the sentence open.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Seam, Splitter, line_starts, seams, sentence_starts

_LAST_WORD_CHARACTERS = 24
_LAST_WORD = re.compile(r"([^\s(\[{\"'“‘«]+)\.[\"'”’»)\]]*\s*$")
_INITIAL = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_NEVER_LAST = "mr mrs ms dr prof st no nr fig eq sec vs cf e.g i.e eg ie z.b d.h u.a bzw vol pp"
_ABBREVIATIONS = frozenset(_NEVER_LAST.split())


def full_sentence_starts(limits: Limits, start: int, end: int) -> Iterator[int]:
    """Where sentences start inside a range."""
    return (position for position in sentence_starts(limits, start, end) if not _goes_on(limits.text, position))


def sentence_seams(limits: Limits, start: int, end: int, *, rank: int) -> Iterator[Seam]:
    """The sentences of a range as seams, the first of `rank`, the others worse. One that does not fit has its lines as
    seams, worse still."""
    starts = [start, *full_sentence_starts(limits, start, end)]
    for first, last in pairwise([*starts, end]):
        lines: Splitter = (rank + 2, line_starts)
        yield from seams(limits, first, last, rank=rank if first == start else rank + 1, splitters=(lines,))


def _goes_on(text: str, position: int) -> bool:
    if text[position].islower():
        return True
    before = _LAST_WORD.search(text[max(0, position - _LAST_WORD_CHARACTERS) : position])
    if before is None:
        return False
    word = before[1].lower()
    return word in _ABBREVIATIONS or (word != "i" and _INITIAL.fullmatch(word) is not None)
