"""Small chunks to find, wide ones to read: a child is searched, and the answer reads its parent in its place."""

import re
from collections.abc import Iterator

from rag_assets.chunking import auto
from rag_assets.chunking.kinds import kind_of
from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Splitter, line_starts, pack, seams
from rag_assets.chunking.sentences import full_sentence_starts
from rag_assets.records import Document, Span

VERSION = f"1.{auto.VERSION}"

_AFTER_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*(?=\S)")


def split_parents_and_children(document: Document, limits: Limits) -> Iterator[Span]:
    """Parents as `auto` cuts them, without overlap; children of at most `child_tokens`, cut at paragraphs, sentences and
    lines of their parent."""
    small = limits.narrowed(max_tokens=limits.settings.child_limit, overlap_tokens=0)
    prose: tuple[Splitter, ...] = ((2, full_sentence_starts),) if kind_of(document) in ("markdown", "prose") else ()
    splitters: tuple[Splitter, ...] = ((1, _paragraph_starts), *prose, (3, line_starts))
    wide = limits.narrowed(max_tokens=limits.max_tokens, overlap_tokens=0)
    for parent in auto.split_by_format(document, wide):
        at = list(seams(small, parent.start, parent.end, rank=0, splitters=splitters))
        for child in pack(small, parent.end, at=at, overlap_tokens=0):
            yield Span(child.start, child.end, parent.heading_path, parent=(parent.start, parent.end))


def _paragraph_starts(limits: Limits, start: int, end: int) -> Iterator[int]:
    found = (match.end() for match in _AFTER_BLANK_LINES.finditer(limits.text, start, end))
    return (position for position in found if start < position < end and limits.breaks(position))
