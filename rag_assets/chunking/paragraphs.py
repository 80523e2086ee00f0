"""The paragraphs of a document: what stands between blank lines. Strategies for prose are made from them."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rag_assets.chunking.kinds import kind_of
from rag_assets.chunking.sections import to_sections
from rag_assets.reading.blocks import Block, Outline, read_outline
from rag_assets.records import Document

_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)*\n")


@dataclass(frozen=True)
class Paragraph:
    """`start:end` with the headings that go with it, the last of which ends at `body`. `path` is the headings above.

    `code` is true when a fenced block is in it.
    """

    start: int
    body: int
    end: int
    path: tuple[str, ...]
    code: bool = False


def outline_of(document: Document) -> Outline:
    """The blocks of a document, none where it is not written in Markdown: a `#` in plain text is no heading."""
    return read_outline(document.text) if kind_of(document) == "markdown" else Outline((), ())


def paragraphs_of(text: str, outline: Outline) -> Iterator[Paragraph]:
    """Paragraphs that cover `text`. A fenced block is whole with the lines that touch it. A heading is no paragraph: it
    goes with the one below it."""
    sections = to_sections(outline.blocks, len(text))
    starts = [section.start for section in sections]
    fences = [start for start, _ in outline.fences]
    for start, body, end in _with_headings(_between_blank_lines(text, outline.fences), text, outline.blocks):
        path = sections[bisect_right(starts, body) - 1].path
        yield Paragraph(start, body, end, path, code=bisect_right(fences, start - 1) < bisect_right(fences, end - 1))


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


def _between_blank_lines(text: str, fences: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    fence_starts = [start for start, _ in fences]
    begin = 0
    for blank in _BLANK_LINES.finditer(text):
        fence = bisect_right(fence_starts, blank.start()) - 1
        if fence >= 0 and blank.end() < fences[fence][1]:
            continue
        yield begin, blank.end()
        begin = blank.end()
    yield begin, len(text)
