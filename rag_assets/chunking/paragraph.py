"""One paragraph a chunk: for text whose paragraphs stand on their own, such as FAQs and notes."""

from collections.abc import Sequence

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import line_starts, pack, seams, sentence_starts
from rag_assets.chunking.paragraphs import paragraphs_of
from rag_assets.reading.blocks import read_outline
from rag_assets.records import Document, Span

VERSION = 2


def split_paragraphs(document: Document, limits: Limits) -> Sequence[Span]:
    """What stands between blank lines, and a fenced block whole with the lines that touch it. A heading is no paragraph:
    it goes with the one below it, if that leaves it whole.

    A paragraph over the limit is cut at sentences, then lines, then words. There is no overlap.
    """
    spans = []
    for paragraph in paragraphs_of(document.text, read_outline(document.text)):
        splitters = ((1, sentence_starts), (2, line_starts))
        parts = list(seams(limits, paragraph.start, paragraph.end, rank=0, splitters=splitters))
        spans += [
            Span(piece.start, piece.end, paragraph.path)
            for piece in pack(limits, paragraph.end, at=parts, overlap_tokens=0)
        ]
    return spans
