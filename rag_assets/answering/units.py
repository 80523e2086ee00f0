"""The smallest pieces of a passage that may be quoted on their own, and how prose and code become such pieces.

What a passage is made of is found in `quoting.py` (any text) and `markdown_units.py` (Markdown).
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rag_assets.answering.citations import read_markers
from rag_assets.answering.sentences import split_sentences

Kind = Literal["sentence", "item", "row", "code"]

MAX_CODE_LINES = 40
MAX_PROSE = 600
FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$", re.MULTILINE)
LIST_LINE = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_FOOTNOTE = re.compile(r"(?:\s+|(?<![\w)\]\s]))(?:\[\d{1,3}(?:,\s?\d{1,3})*\])+")
_ELEMENT = re.compile(r"[\w.)\]]*[\w)]\[\d{1,3}\](?:\[\d{1,3}\])*")


@dataclass(frozen=True)
class Heading:
    """A heading, or a rule (without text). It separates and says what follows is about; it is not quoted."""

    text: str


@dataclass(frozen=True)
class Unit:
    """A quotable piece of a passage.

    `text` is shown (a list item keeps its indentation). `block` is what `text` introduces ("… like this:") or, for
    code, the fenced block itself. `heading` is the nearest one above. A unit is `cut` when the chunk holds only part
    of the sentence, and `dangling` when it leans on something that is not there.
    """

    text: str
    kind: Kind
    block: str = ""
    heading: str = ""
    flaw: Literal["", "cut", "dangling"] = ""

    @property
    def meaning(self) -> str:
        """What is compared with a question: the words without list markers and fences."""
        words = LIST_LINE.sub("", self.text, count=1) if self.kind == "item" else self.text
        return f"{words} {FENCE.sub('', self.block)}".strip()


Piece = Unit | Heading


def prose(text: str) -> Iterator[Unit]:
    """The sentences of a paragraph."""
    for sentence in split_sentences(without_markers(text)):
        for piece in _bounded(sentence):
            yield Unit(piece, "sentence")


def code_block(content: str, language: str = "") -> Unit:
    """A fenced block; one that is too long to show ends in an ellipsis."""
    lines = textwrap.dedent(content.strip("\n")).rstrip().splitlines()
    if len(lines) > MAX_CODE_LINES:
        lines = [*lines[:MAX_CODE_LINES], "…"]
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return Unit("", "code", block="\n".join([f"{fence}{language}", *lines, fence]))


def without_markers(text: str) -> str:
    """Numbers in brackets would read as our own citations: footnote marks and markers in every spelling go, `names[0]`
    becomes code."""
    parts = re.split(r"(`[^`]*`)", text)
    for position in range(0, len(parts), 2):
        part = _FOOTNOTE.sub("", parts[position])
        parts[position] = _ELEMENT.sub(r"`\g<0>`", part)
    return read_markers("".join(parts), ()).text.strip()


def _bounded(sentence: str) -> list[str]:
    """Text without sentence marks, cut into readable windows. The cut shows as an ellipsis."""
    if len(sentence) <= MAX_PROSE:
        return [sentence]
    pieces = textwrap.wrap(sentence, MAX_PROSE // 2, break_on_hyphens=False)
    return [
        f"{'… ' if number else ''}{piece}{' …' if number < len(pieces) - 1 else ''}"
        for number, piece in enumerate(pieces)
    ]
