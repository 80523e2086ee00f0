"""A Document becomes Chunks.

A strategy says where to cut and nothing else; ids, hashes, lines and token counts are computed here, for all of them.
The chunks go to embedding next.
"""

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rag_assets.chunking import (
    auto,
    code_function,
    fixed_size,
    markdown,
    paragraph,
    parent_child,
    semantic,
    sentence,
    yaml_block,
)
from rag_assets.chunking.limits import Limits
from rag_assets.config import ChunkingSettings, CuttingSettings
from rag_assets.fingerprints import hash_text
from rag_assets.records import Chunk, Document, Parent, Span

VERSION = 1
"""Raised when the same spans would make other chunks. Each strategy has its own version beside it."""


@dataclass(frozen=True)
class Strategy:
    """How spans are made, the version of that code, and the settings it looks at beside the limit."""

    split: Callable[[Document, Limits], Iterable[Span]]
    version: int | str
    settings: Sequence[str] = ()


STRATEGIES: Mapping[str, Strategy] = {
    "auto": Strategy(auto.split_by_format, auto.VERSION, ["overlap_tokens"]),
    "markdown": Strategy(markdown.split_markdown, markdown.VERSION, ["overlap_tokens"]),
    "paragraph": Strategy(paragraph.split_paragraphs, paragraph.VERSION),
    "sentence": Strategy(sentence.split_sentences, sentence.VERSION, ["overlap_tokens"]),
    "semantic": Strategy(semantic.split_topics, semantic.VERSION, ["break_percentile"]),
    "code_function": Strategy(code_function.split_code_functions, code_function.VERSION),
    "yaml_block": Strategy(yaml_block.split_yaml_blocks, yaml_block.VERSION),
    "parent_child": Strategy(parent_child.split_parents_and_children, parent_child.VERSION, ["child_limit"]),
    "fixed_size": Strategy(fixed_size.split_fixed_size, fixed_size.VERSION, ["overlap_tokens"]),
}


def chunk_document(document: Document, settings: ChunkingSettings) -> list[Chunk]:
    """The chunks of `document` in order, as the settings for its path ask; none when its text is blank.

    Spans have no white space around them and cover everything else. No chunk is over `max_tokens`, unless a
    single grapheme cluster is. An id depends on the document, the chunk's text and how many equal texts stand before
    it, so it survives edits elsewhere.
    """
    text = document.text
    if not text.strip():
        return []
    cutting = settings.of(document.document)
    limits = Limits(text, cutting)
    line_ends = [found.start() for found in re.finditer("\n", text)]
    seen: Counter[str] = Counter()
    chunks = []
    for ordinal, span in enumerate(STRATEGIES[cutting.strategy].split(document, limits)):
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
                tokens=limits.tokens(span.start, span.end),
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
    """Everything that changes the chunks of a text: what of the settings the strategies look at, and code versions."""
    identity = _identity(settings)
    if settings.by_glob:
        identity["by_glob"] = [{"glob": rule.glob, **_identity(rule)} for rule in settings.by_glob]
    return identity


def _identity(settings: CuttingSettings) -> dict[str, object]:
    strategy = STRATEGIES[settings.strategy]
    identity: dict[str, object] = {
        "strategy": settings.strategy,
        "max_tokens": settings.max_tokens,
        "tokenizer": settings.tokenizer,
        "version": f"{VERSION}.{strategy.version}",
    }
    if settings.unit != "tokens":
        identity["unit"] = settings.unit
    return identity | {name: getattr(settings, name) for name in strategy.settings}


def _chunk_id(document: str, text_hash: str, occurrence: int) -> str:
    identity = f"{document}\0{text_hash}\0{occurrence}"
    return hashlib.sha256(identity.encode(errors="surrogatepass")).hexdigest()[:32]
