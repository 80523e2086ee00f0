"""What a passage is made of: its units in reading order, cleaned for a reader.

Prose loses its Markdown noise (emphasis, link targets, HTML tags, admonition markers, headings) and nothing else; code
stays as it is written. Which units answer a question is decided in `extractive.py`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from rag_assets.answering.markdown_units import markdown_pieces
from rag_assets.answering.sentences import ends_a_sentence
from rag_assets.answering.units import FENCE, LIST_LINE, Heading, Piece, Unit, code_block, prose, without_markers
from rag_assets.reading.formats import markup_of
from rag_assets.records import Passage

MAX_INTRODUCED_LINES = 15
_ASKS = ("?", "？", "؟", '?"', "?*")


def units_of(passage: Passage) -> list[Unit]:
    """The units of `passage` in reading order; none where it has no words."""
    markup = markup_of(passage.document)
    text = passage.text
    if markup == "code":
        language = PurePosixPath(passage.document).suffix.lower()[1:]
        pieces: Iterator[Piece] = iter([code_block(text, language)] if text.strip() else [])
    elif markup == "plain" and not FENCE.search(text):
        pieces = _plain(text)
    else:
        pieces = markdown_pieces(text)
    above = passage.heading_path[-1] if passage.heading_path else passage.title
    headings: list[str] = []
    units: list[Unit] = []
    for piece in _joined(list(pieces)):
        if isinstance(piece, Heading):
            headings.append(piece.text)
        elif piece.text.strip() or piece.block:
            units.append(replace(piece, heading=headings[-1] if headings else above))
    if not units:
        units = [Unit(words, "sentence", flaw="cut") for words in map(without_markers, headings) if words]
    return _mark_cut_ends(units, passage)


def _mark_cut_ends(units: list[Unit], passage: Passage) -> list[Unit]:
    """A chunk that was cut inside a sentence begins in lower case, or stops without a mark where others have one.

    Elsewhere a beginning in lower case carries on from something that is not prose, and leans on it.
    """
    units = [
        replace(unit, flaw=unit.flaw or "dangling")
        if number and unit.kind == "sentence" and unit.text[:1].islower() and unit.text != unit.text.lower()
        else unit
        for number, unit in enumerate(units)
    ]
    if len(units) > 1 and units[0].kind == "sentence" and passage.start_char > 0 and units[0].text[:1].islower():
        units[0] = replace(units[0], flaw="cut")
    if len(units) > 1 and units[-1].kind == units[-2].kind == "sentence" and not units[-1].block:
        stops = ends_a_sentence(units[-1].text)
        if not stops and ends_a_sentence(units[-2].text) and not passage.text.rstrip(" ").endswith("\n"):
            units[-1] = replace(units[-1], flaw="cut")
    return units


def _plain(text: str) -> Iterator[Piece]:
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
        is_wrapped = len(lines) > 1 and all(len(line) >= 40 for line in lines[:-1])
        is_list = any(LIST_LINE.match(line) for line in lines)
        if is_wrapped and not is_list:
            yield from prose(" ".join(lines))
        else:
            for line in lines:
                yield from [Unit(without_markers(line), "item")] if LIST_LINE.match(line) else prose(line)


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Join a colon with the code or the list that it introduces, if that is short, and a question with its answer."""
    position = 0
    while position < len(pieces):
        piece = pieces[position]
        position += 1
        if isinstance(piece, Unit) and piece.kind == "sentence" and piece.text.endswith(_ASKS):
            while position < len(pieces) and piece.text.endswith(_ASKS):
                answer = pieces[position]
                if isinstance(answer, Heading) or answer.kind != "sentence":
                    break
                piece = replace(piece, text=f"{piece.text} {answer.text}")
                position += 1
            if piece.text.endswith(_ASKS):
                piece = replace(piece, flaw="dangling")
        if isinstance(piece, Unit) and piece.kind in ("sentence", "item") and piece.text.endswith((":", "：")):
            block, count = _introduced(pieces[position:], piece)
            if count and len(block.splitlines()) <= MAX_INTRODUCED_LINES + 2:
                piece = replace(piece, block=block)
                position += count
            else:
                piece = replace(piece, flaw="dangling")
        yield piece


def _introduced(following: Sequence[Piece], introduction: Unit) -> tuple[str, int]:
    """What follows an introduction, and of how many pieces it is made."""
    first = following[0] if following else None
    if not isinstance(first, Unit) or first.kind == introduction.kind:
        return "", 0
    if first.kind == "code":
        return first.block, 1
    texts: list[str] = []
    for unit in following:
        if isinstance(unit, Heading) or unit.kind != first.kind:
            break
        texts.append(unit.text if unit.kind == "item" else f"- {unit.text}")
    return "\n".join(texts), len(texts)
