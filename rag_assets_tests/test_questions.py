"""The questions are well formed, and their phrases are where they say."""

import json
from pathlib import Path

import pytest

from rag_assets_tests.benchmarks.corpora import PAGES
from rag_assets_tests.questions import FASTAPI, FOLLOW_UPS, Question, load_follow_ups, load_questions, normalised

# An answer may be given more than once on its page; a phrase that is everywhere tells nothing.
_MOST_PLACES = 3


def test_there_are_questions_of_many_pages_and_questions_that_nothing_answers() -> None:
    questions = load_questions(FASTAPI)

    assert len([question for question in questions if question.document]) >= 70
    assert len({question.document for question in questions if question.document}) >= 45
    assert len([question for question in questions if not question.document]) >= 20


@pytest.mark.skipif(not PAGES.is_dir(), reason=f"the pages are not beside the repository: {PAGES.name}")
def test_each_phrase_is_in_its_page_and_points_at_one_place() -> None:
    texts = {
        page.relative_to(PAGES).as_posix(): normalised(page.read_text(encoding="utf-8")) for page in PAGES.rglob("*.md")
    }

    wrong = [
        f"{question.id}: {phrase!r} is {texts.get(question.document, '').count(phrase)} times in {question.document}"
        for question in [*load_questions(FASTAPI), *load_follow_ups(FOLLOW_UPS)]
        if question.document
        for phrase in question.contains
        if not 1 <= texts.get(question.document, "").count(phrase) <= _MOST_PLACES
    ]

    assert wrong == []


GOOD = {"id": "a", "question": "Why?", "document": "a.md", "contains": ["because of it"]}


def test_a_question_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({"id": "b", "question": "How?", "document": None}) + "\n")

    assert load_questions(path) == [Question("a", "Why?", "a.md", ("because of it",)), Question("b", "How?", None)]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"id": "a"}, "the id 'a' is taken"),
        ({"contains": []}, "contains is empty"),
        ({"contains": "because"}, "'because' should be a list"),
        ({"contains": ["two  spaces"]}, "'two  spaces' should be text"),
        ({"contains": ["x" * 101]}, "more than 100 characters"),
        ({"question": 7}, "7 should be text"),
        ({"document": None}, "the keys are contains, document, id, question"),
        ({"answer": "because"}, "they should be contains, document, id, question"),
    ],
)
def test_a_malformed_question_is_named_by_its_line(row: dict[str, object], complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "id": "b", **row}) + "\n")

    with pytest.raises(ValueError, match=f"questions.jsonl, line 2: .*{complaint}"):
        load_questions(path)
