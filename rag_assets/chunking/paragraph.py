"""One paragraph a chunk: for text whose paragraphs stand on their own, such as FAQs and notes."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import line_starts, pack, seams, sentence_starts
from rag_assets.chunking.sections import to_sections
from rag_assets.reading.blocks import Block, read_outline
from rag_assets.records import Span

VERSION = 2

_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)*\n")


def split_paragraphs(text: str, limits: Limits) -> Sequence[Span]:
    """What stands between blank lines, and a fenced block whole with the lines that touch it. A heading is no paragraph:
    it goes with the one below it, if that leaves it whole.

    A paragraph over the limit is cut at sentences, then lines, then words. There is no overlap.
    """
    outline = read_outline(text)
    sections = to_sections(outline.blocks, len(text))
    starts = [section.start for section in sections]
    spans = []
    for start, body, end in _with_headings(_paragraphs(text, outline.fences), text, outline.blocks):
        path = sections[bisect_right(starts, body) - 1].path
        parts = list(seams(limits, start, end, rank=0, splitters=((1, sentence_starts), (2, line_starts))))
        spans += [Span(piece.start, piece.end, path) for piece in pack(limits, end, at=parts, overlap_tokens=0)]
    return spans


def _with_headings(
    paragraphs: Iterator[tuple[int, int]], text: str, blocks: Sequence[Block]
) -> Iterator[tuple[int, int, int]]:
    """`paragraphs`, with those that are headings only joined to the next: (start, where its headings end, end)."""
    headings = {block.start: block.end for block in blocks if block.kind == "heading"}
    begin: int | None = None
    for start, end in paragraphs:
        begin = start if begin is None else begin
        at = start
        while at < end and at in headings:
            at = headings[at]
        if at == start or text[at:end].strip():
            yield begin, at, end
            begin = None
    if begin is not None:
        yield begin, begin, len(text)


def _paragraphs(text: str, fences: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    fence_starts = [start for start, _ in fences]
    begin = 0
    for blank in _BLANK_LINES.finditer(text):
        fence = bisect_right(fence_starts, blank.start()) - 1
        if fence >= 0 and blank.end() < fences[fence][1]:
            continue
        yield begin, blank.end()
        begin = blank.end()
    yield begin, len(text)
