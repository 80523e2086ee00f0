"""What a chat model is asked for, and what its reply means, where a follow-up is put into words that stand alone."""

import json
import re
from collections.abc import Sequence

from rag_assets.answering.citations import read_markers
from rag_assets.answering.prompts import Prompts
from rag_assets.answering.sources import boundary_around
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.records import Turn

_MORE_CHARACTERS = 600
"""How much longer than the question its rewritten form may be. What is longer answers it."""
_LABEL = re.compile(r"^[*_#\s]*(?:(?:rewritten|standalone|stand-alone|last)\s+)?question[*_]*\s*:[*_]*\s*", re.I)
_QUOTED = re.compile(r"^([\"'“„«`])(?P<inside>[^\"“”„«»`]+)[\"'”“»`]$")


def rewriting_prompt(prompts: Prompts, question: str, turns: Sequence[Turn]) -> str:
    """The prompt: each turn is a line of JSON, so that no answer can begin a turn of its own."""
    lines = [_line(turn) for turn in turns]
    return prompts.fill(
        "rewrite",
        boundary=boundary_around(lines),
        conversation="\n".join(lines),
        question=" ".join(without_lone_surrogates(question).split()),
    )


def read_rewritten(raw: str, question: str) -> str | None:
    """The question that a model wrote, without label, quotation marks and markers; None where it is not one line of about
    the length of `question`."""
    lines = [line.strip() for line in raw.strip().splitlines() if line.strip()]
    if len(lines) != 1:
        return None
    text = _LABEL.sub("", lines[0]).strip()
    quoted = _QUOTED.match(text)
    text = read_markers(quoted["inside"] if quoted else text, ()).text.strip()
    return text if text and len(text) <= len(question) + _MORE_CHARACTERS else None


def _line(turn: Turn) -> str:
    said = {"question": turn.question, "answer": read_markers(turn.answer, ()).text}
    return json.dumps({name: without_lone_surrogates(text) for name, text in said.items()}, ensure_ascii=False)
