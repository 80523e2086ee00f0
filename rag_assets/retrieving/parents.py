"""Small chunks are searched, their parents are read: what a passage becomes before an answer is made of it."""

from collections.abc import Sequence
from dataclasses import replace

from rag_assets.records import Passage


def read_parents(passages: Sequence[Passage]) -> list[Passage]:
    """Put the parent's text and place where a passage has one. Children of one parent become one passage, at the rank of
    the best of them."""
    seen: set[tuple[str, str]] = set()
    wider = []
    for passage in passages:
        key = (passage.corpus, passage.parent_chunk_id or passage.chunk_id)
        if key in seen:
            continue
        seen.add(key)
        wider.append(_widened(passage))
    return wider


def _widened(passage: Passage) -> Passage:
    parent = passage.parent
    if parent is None:
        return passage
    return replace(
        passage,
        text=parent.text,
        start_char=parent.start_char,
        end_char=parent.end_char,
        start_line=parent.start_line,
        end_line=parent.end_line,
    )
