"""Which questions lean on a conversation, and what is put into them."""

import json
from pathlib import Path

import pytest

from rag_assets.conversing.follow_ups import stands_alone, with_context
from rag_assets.records import Turn
from rag_assets_tests.questions import FASTAPI, FOLLOW_UPS, load_follow_ups, load_questions


@pytest.mark.parametrize(
    "question",
    [
        "And on Windows?",
        "How do I turn it off?",
        "What about Docker?",
        "Why?",
        "Why is that?",
        "Which ones are safe?",
        "Is there an example?",
        "And if the file is missing?",
        "With Docker?",
        "Does that also work for uploads?",
        "What is its default?",
        "Can you show me the other one?",
        "How long do they live?",
        "What did you mean when you said harbour?",
        "Should I pin Starlette instead?",
        "it?",
    ],
)
def test_a_question_that_leans_is_told(question: str):
    assert not stands_alone(question)


@pytest.mark.parametrize(
    "question",
    [
        "Is it possible to run several workers?",
        "How do I create a file and delete it?",
        "What does it mean when a request returns 422?",
        "Is there a way to stream JSON lines?",
        "When I deploy with Docker, does it restart by itself?",
        "Which library that speaks GraphQL is recommended?",
        "And how is a timedelta written in JSON?",
        "response_model_exclude_unset",
        "gzip minimum size",
        "新宿の駅はどこですか",
        "Wie installiere ich das Programm?",
    ],
)
def test_a_question_that_stands_alone_is_told(question: str):
    assert stands_alone(question)
    assert with_context(question, [Turn("How do I boil an egg?", "In `water`.")]) == question


def test_of_questions_that_stand_alone_few_are_taken_for_follow_ups():
    """Six of 160 when this was written: they say "too", or "it" for what the manual is about."""
    wrong = [one.question for one in load_questions(FASTAPI) if not stands_alone(one.question)]
    assert len(wrong) <= 6, wrong


def test_most_follow_ups_are_told_and_every_change_of_topic():
    """29 of 35, and 8 of 8, when this was written."""
    asked = load_follow_ups(FOLLOW_UPS)
    leaning = [one for one in asked if one.standalone]
    assert sum(not stands_alone(one.question) for one in leaning) >= 29
    assert all(stands_alone(one.question) for one in asked if not one.standalone)
    assert len(leaning) >= 35


def test_the_words_of_the_question_before_are_put_in():
    turns = [Turn("How do I compress responses with gzip?", "Add the `GZipMiddleware`. [1]")]
    assert (
        with_context("How do I turn it off?", turns) == "How do I turn it off (compress responses gzip GZipMiddleware)?"
    )
    assert with_context("and on Windows", turns) == "and on Windows (compress responses gzip GZipMiddleware)"


def test_a_follow_up_of_a_follow_up_still_knows_the_topic():
    turns = [
        Turn("How do I declare a path parameter?", "In the path."),
        Turn("Can it be an int?", "Yes, give it a type."),
    ]
    assert with_context("And with slashes in it?", turns) == "And with slashes in it (int declare path parameter)?"


def test_what_is_put_in_is_bounded():
    turns = [Turn(" ".join(f"word{number}" for number in range(50)), " ".join(f"`name{n}`" for n in range(50)))]
    added = with_context("Why?", turns)
    assert added == "Why (word0 word1 word2 word3 word4 word5 word6 word7 name0 name1)?"


def test_without_a_word_to_put_in_a_question_stays_as_it_is():
    assert with_context("Why?", [Turn("What is it?", "Nothing.")]) == "Why?"
    assert with_context("Why?", []) == "Why?"
    assert with_context("???", [Turn("Is the gate open?", "Yes.")]) == "(gate open)???"


def test_the_set_is_read_as_it_is_written(tmp_path: Path):
    path = tmp_path / "set.jsonl"
    row = {"id": "a", "history": [["Q?", "A."]], "question": "Why?", "standalone": None, "document": "a.md"}
    path.write_text(json.dumps({**row, "contains": ["because"]}) + "\n")
    (one,) = load_follow_ups(path)
    assert (one.history, one.standalone, one.contains) == ((Turn("Q?", "A."),), None, ("because",))
