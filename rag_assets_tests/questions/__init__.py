"""Questions with known answers, as people ask them, for measuring retrieval; the pages they are about are not here.

A line of a file is one question: `document` is the page that answers it, null where none does, and `contains` are short
phrases of the passage that answers, all of which a reader needs. How passages are judged is `benchmarks/answers.py`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets.records import Turn

FASTAPI = Path(__file__).parent / "fastapi.jsonl"
"""About the documentation of FastAPI, by the paths of its pages."""
FOLLOW_UPS = Path(__file__).parent / "follow_ups.jsonl"
"""Conversations about it, whose last question leans on what was said before; `standalone` is that question written out by
hand, null where it stands alone because the topic changed."""

_LONGEST_PHRASE = 100


@dataclass(frozen=True)
class Question:
    """`contains` is empty, and `document` None, where no page answers."""

    id: str
    question: str
    document: str | None
    contains: tuple[str, ...] = ()


@dataclass(frozen=True)
class FollowUp(Question):
    """The last question of a conversation. `standalone` is None where it needs nothing of it."""

    history: tuple[Turn, ...] = ()
    standalone: str | None = None


def load_follow_ups(path: Path) -> Sequence[FollowUp]:
    """The conversations of `path`, in its order."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        FollowUp(
            id=row["id"],
            question=row["question"],
            document=row["document"],
            contains=tuple(row["contains"]),
            history=tuple(Turn(question, answer) for question, answer in row["history"]),
            standalone=row["standalone"],
        )
        for row in rows
    ]


def load_questions(path: Path) -> Sequence[Question]:
    """The questions of `path`, in its order. Raises `ValueError` that names the line and what is wrong with it."""
    questions: list[Question] = []
    seen: set[str] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            question = _question(json.loads(line))
            if question.id in seen:
                raise ValueError(f"the id {question.id!r} is taken; give another")
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        seen.add(question.id)
        questions.append(question)
    return questions


def normalised(text: str) -> str:
    """`text` with one space for any white space: a phrase may run over the end of a line."""
    return " ".join(text.split())


def _question(row: dict[str, object]) -> Question:
    answered = row.get("document") is not None
    keys = {"id", "question", "document", "contains"} if answered else {"id", "question", "document"}
    if set(row) != keys:
        raise ValueError(f"the keys are {', '.join(sorted(row))}; they should be {', '.join(sorted(keys))}")
    phrases = row["contains"] if answered else []
    for text in (row["id"], row["question"], row["document"] or "none", *_list(phrases)):
        if not isinstance(text, str) or not text or normalised(text) != text:
            raise ValueError(f"{text!r} should be text, with single spaces and none around it")
    if answered and not phrases:
        raise ValueError("contains is empty; name a phrase of the passage that answers, or set document to null")
    if too_long := [phrase for phrase in _list(phrases) if len(str(phrase)) > _LONGEST_PHRASE]:
        raise ValueError(f"{too_long[0]!r} has more than {_LONGEST_PHRASE} characters; keep to a few words")
    return Question(
        id=str(row["id"]),
        question=str(row["question"]),
        document=str(row["document"]) if answered else None,
        contains=tuple(map(str, _list(phrases))),
    )


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r} should be a list")
    return value
