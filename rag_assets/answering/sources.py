"""Passages as the numbered sources of a prompt: each quoted verbatim between lines that no document can forge."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rag_assets.answering.packing import choose
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.fingerprints import hash_text
from rag_assets.records import Passage
from rag_assets.tokenizing import count_tokens

_TOKENIZER = "o200k_base"
_SEPARATOR = "\n\n"


@dataclass(frozen=True)
class Sources:
    """What a prompt quotes between lines with `boundary`.

    `read` are the passages by their numbers, from 1, each as it is quoted: a long one may be cut. `text` has them in
    reading order, the document of the best first.
    """

    boundary: str
    read: Mapping[int, Passage]
    text: str


def boundary_of(passages: Sequence[Passage]) -> str:
    """The boundary around the texts of `passages`."""
    return boundary_around([passage.text for passage in passages])


def boundary_around(texts: Sequence[str]) -> str:
    """Twelve hexadecimal digits that depend on every text: a text cannot hold the digits that it helps to make."""
    return hash_text("\x00".join(map(without_lone_surrogates, texts)))[:12]


def quote_sources(question: str, passages: Sequence[Passage], *, max_tokens: int) -> Sources:
    """As much of `passages`, best first, as `max_tokens` (of o200k_base) holds. The corpus is told where there are several.

    What is cut off is what is worth least for the question.
    """
    boundary = boundary_of(passages)
    cleaned = [replace(passage, text=without_lone_surrogates(passage.text)) for passage in passages]
    named = len({passage.corpus for passage in passages}) > 1
    read = dict(enumerate(cleaned, start=1))
    blocks = {number: _head(number, one, boundary, named=named) + _body(one, boundary) for number, one in read.items()}
    if count_tokens(_SEPARATOR.join(blocks.values()), _TOKENIZER) > max_tokens:
        heads = {number: _head(number, one, boundary, named=named, cut=True) for number, one in read.items()}
        frames = [count_tokens(f"{head}\nEND {boundary}{_SEPARATOR}", _TOKENIZER) for head in heads.values()]
        read = dict(choose(question, cleaned, frames=frames, max_tokens=max_tokens))
        for number, one in read.items():
            if one is not cleaned[number - 1]:
                blocks[number] = heads[number] + _body(one, boundary)
    return Sources(boundary, read, _SEPARATOR.join(blocks[number] for number in _reading_order(read)))


def _reading_order(read: Mapping[int, Passage]) -> Sequence[int]:
    best: dict[tuple[str, str], int] = {}
    for number, passage in read.items():
        best.setdefault((passage.corpus, passage.document), number)

    def place(number: int) -> tuple[int, int, int]:
        passage = read[number]
        return best[passage.corpus, passage.document], passage.start_char, number

    return sorted(read, key=place)


def _head(number: int, passage: Passage, boundary: str, *, named: bool, cut: bool = False) -> str:
    about = {
        "corpus": passage.corpus if named else "",
        "document": passage.document,
        "title": passage.title,
        "heading": " > ".join(passage.heading_path),
    }
    described = ", ".join(
        f"{name} {json.dumps(without_lone_surrogates(' '.join(value.split())), ensure_ascii=False)}"
        for name, value in about.items()
        if value
    )
    return f"BEGIN {boundary} source [{number}]: {described}{', cut short' if cut else ''}\n"


def _body(passage: Passage, boundary: str) -> str:
    return f"{passage.text}\nEND {boundary}"
