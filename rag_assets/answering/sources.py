"""Passages as the numbered sources of a prompt: each quoted verbatim between lines that no document can forge."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.fingerprints import hash_text
from rag_assets.records import Passage
from rag_assets.tokenizing import count_tokens, token_ends

_TOKENIZER = "o200k_base"


def boundary_of(passages: Sequence[Passage]) -> str:
    """Twelve hexadecimal digits that depend on every passage: a text cannot hold the digits that it helps to make."""
    return hash_text("\x00".join(without_lone_surrogates(passage.text) for passage in passages))[:12]


def pack(passages: Sequence[Passage], *, boundary: str, max_tokens: int) -> Mapping[int, str]:
    """The passages that fit into `max_tokens`, best first, under their numbers (from 1).

    One that does not fit is left out and the next is tried; the best one is cut short rather than left out. The corpus is
    told where there are several.
    """
    packed: dict[int, str] = {}
    room = max_tokens
    if len({passage.corpus for passage in passages}) == 1:
        passages = [replace(passage, corpus="") for passage in passages]
    for number, passage in enumerate(passages, start=1):
        text = without_lone_surrogates(passage.text)
        block = _quoted(number, passage, text, boundary)
        size = count_tokens(block, _TOKENIZER)
        if size > room and not packed:
            frame = count_tokens(_quoted(number, passage, "", boundary), _TOKENIZER)
            ends = token_ends(text, _TOKENIZER)
            kept = max(1, min(len(ends), room - frame))
            block = _quoted(number, passage, text[: ends[kept - 1]], boundary) if len(ends) else block
            size = room
        if size <= room:
            packed[number] = block
            room -= size
    return packed


def _quoted(number: int, passage: Passage, text: str, boundary: str) -> str:
    about = {
        "corpus": passage.corpus,
        "document": passage.document,
        "title": passage.title,
        "heading": " > ".join(passage.heading_path),
    }
    described = ", ".join(
        f"{name} {json.dumps(without_lone_surrogates(' '.join(value.split())), ensure_ascii=False)}"
        for name, value in about.items()
        if value
    )
    return f"BEGIN {boundary} source [{number}]: {described}\n{text}\nEND {boundary}"
