"""A Document becomes Chunks.

A strategy says where to cut and nothing else; ids, hashes, lines and token counts are computed here, for all of them.
The chunks go to embedding next.
"""

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rag_assets.chunking import fixed_size, markdown, paragraph
from rag_assets.chunking.limits import Limits
from rag_assets.config import ChunkingSettings
from rag_assets.fingerprints import hash_text
from rag_assets.records import Chunk, Document, Parent, Span

VERSION = 1
"""Raised when the same spans would make other chunks. Each strategy has its own version beside it."""


@dataclass(frozen=True)
class Strategy:
    """How spans are made, the version of that code, and whether it looks at `overlap_tokens`."""

    split: Callable[[str, Limits], Sequence[Span]]
    version: int
    overlaps: bool


STRATEGIES: Mapping[str, Strategy] = {
    "markdown": Strategy(markdown.split_markdown, markdown.VERSION, overlaps=True),
    "paragraph": Strategy(paragraph.split_paragraphs, paragraph.VERSION, overlaps=False),
    "fixed_size": Strategy(fixed_size.split_fixed_size, fixed_size.VERSION, overlaps=True),
}


def chunk_document(document: Document, settings: ChunkingSettings) -> list[Chunk]:
    """The chunks of `document` in order; none when its text is blank.

    Spans have no white space around them and cover everything else. No chunk is over `settings.max_tokens`, unless a
    single grapheme cluster is. An id depends on the document, the chunk's text and how many equal texts stand before
    it, so it survives edits elsewhere.
    """
    text = document.text
    if not text.strip():
        return []
    limits = Limits(
        text,
        max_tokens=settings.max_tokens,
        overlap_tokens=settings.overlap_tokens,
        tokenizer=settings.tokenizer,
    )
    line_ends = [found.start() for found in re.finditer("\n", text)]
    seen: Counter[str] = Counter()
    chunks = []
    for ordinal, span in enumerate(STRATEGIES[settings.strategy].split(text, limits)):
        part = text[span.start : span.end]
        text_hash = hash_text(part)
        seen[text_hash] += 1
        chunks.append(
            Chunk(
                chunk_id=_chunk_id(document.document, text_hash, seen[text_hash]),
                document=document.document,
                ordinal=ordinal,
                text=part,
                text_hash=text_hash,
                tokens=limits.count(span.start, span.end),
                start_char=span.start,
                end_char=span.end,
                start_line=document.first_line + bisect_right(line_ends, span.start - 1),
                end_line=document.first_line + bisect_right(line_ends, span.end - 1),
                heading_path=span.heading_path,
                start_page=_page(document.page_starts, span.start),
                end_page=_page(document.page_starts, span.end - 1),
                parent_chunk_id=_parent_id(document, span.parent),
                parent=_parent(document, line_ends, span.parent),
            )
        )
    return chunks


def _page(page_starts: Sequence[int], position: int) -> int | None:
    return max(bisect_right(page_starts, position), 1) if page_starts else None


def _parent(document: Document, line_ends: Sequence[int], span: tuple[int, int] | None) -> Parent | None:
    if span is None:
        return None
    start, end = span
    return Parent(
        text=document.text[start:end],
        start_char=start,
        end_char=end,
        start_line=document.first_line + bisect_right(line_ends, start - 1),
        end_line=document.first_line + bisect_right(line_ends, end - 1),
    )


def _parent_id(document: Document, span: tuple[int, int] | None) -> str | None:
    if span is None:
        return None
    return _chunk_id(f"{document.document}\0parent", hash_text(document.text[slice(*span)]), 1)


def chunking_identity(settings: ChunkingSettings) -> dict[str, object]:
    """Everything that changes the chunks of a text: what of the settings the strategy looks at, and code versions."""
    strategy = STRATEGIES[settings.strategy]
    identity: dict[str, object] = {
        "strategy": settings.strategy,
        "max_tokens": settings.max_tokens,
        "tokenizer": settings.tokenizer,
        "version": f"{VERSION}.{strategy.version}",
    }
    return {**identity, "overlap_tokens": settings.overlap_tokens} if strategy.overlaps else identity


def _chunk_id(document: str, text_hash: str, occurrence: int) -> str:
    identity = f"{document}\0{text_hash}\0{occurrence}"
    return hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:32]
