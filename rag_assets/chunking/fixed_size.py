"""Windows of the text, whatever it is made of: for text without structure, and as a baseline."""

from collections.abc import Sequence

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Seam, pack, word_starts
from rag_assets.records import Document, Span

VERSION = 2


def split_fixed_size(document: Document, limits: Limits) -> Sequence[Span]:
    """Windows that end between words, each repeating the last `overlap_tokens` of what stands before it."""
    whole_text = [Seam(0, 0, whole=False)]
    pieces = pack(
        limits, len(document.text), at=whole_text, overlap_tokens=limits.overlap_tokens, openings=(word_starts,)
    )
    return [Span(piece.overlap_start, piece.end) for piece in pieces]
