"""Sentences packed up to the limit: for plain prose, whatever its lines and paragraphs look like."""

from bisect import bisect_right
from collections.abc import Iterator

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Seam, line_starts, pack, seams, word_starts
from rag_assets.chunking.paragraphs import Paragraph, outline_of, paragraphs_of
from rag_assets.chunking.sentences import full_sentence_starts, sentence_seams
from rag_assets.records import Document, Span

VERSION = 1

_SECTION, _PARAGRAPH = range(2)


def split_sentences(document: Document, limits: Limits) -> Iterator[Span]:
    """Whole sentences, as many as fit; a chunk ends where a paragraph does if one ends in reach.

    A chunk begins with the last sentences of the one before it, as many as `overlap_tokens` hold, else with its last
    words. Blocks with code are cut between lines. In Markdown a chunk may hold more than one section; its heading path is
    that of its first paragraph.
    """
    paragraphs = list(paragraphs_of(document.text, outline_of(document)))
    starts = [paragraph.start for paragraph in paragraphs]
    pieces = pack(
        limits,
        len(document.text),
        at=[seam for paragraph in paragraphs for seam in _seams(limits, paragraph)],
        overlap_tokens=limits.overlap_tokens,
        openings=(full_sentence_starts, line_starts, word_starts),
    )
    for piece in pieces:
        yield Span(piece.overlap_start, piece.end, paragraphs[bisect_right(starts, piece.start) - 1].path)


def _seams(limits: Limits, paragraph: Paragraph) -> Iterator[Seam]:
    start, end = paragraph.start, paragraph.end
    rank = _SECTION if paragraph.body > start else _PARAGRAPH
    if paragraph.code:
        yield from seams(limits, start, end, rank=rank, splitters=((_PARAGRAPH + 2, line_starts),))
    else:
        yield from sentence_seams(limits, start, end, rank=rank)
