"""The embedded reranker, with the embedded model."""

from dataclasses import replace

import numpy as np
import pytest

from rag_assets.config import LateInteractionRerank
from rag_assets.records import Passage
from rag_assets.reranking.late_interaction import LateInteractionReranker
from rag_assets_tests.answering.passages import passage

QUESTION = "Where can I hire a rowing boat?"
OTHERS = [
    passage("The pass is closed from November to May.", "a.md"),
    passage("Dogs are allowed on all trains.", "b.md"),
    passage("The museum opens at ten o'clock.", "c.md"),
]
ANSWER = passage("Boats with oars are for rent at the lake.", "d.md")


def scores(*passages: Passage, question: str = QUESTION, threads: int | None = None) -> list[float]:
    reranker = LateInteractionReranker(LateInteractionRerank(threads=threads))
    reranker.load()
    return list(reranker.rerank(question, passages).scores)


def test_a_passage_that_answers_is_first_though_it_was_found_last():
    given = scores(*OTHERS, ANSWER)
    assert len(given) == 4
    assert max(given) == given[3]


def test_words_that_full_text_found_raise_a_passage():
    before = scores(*OTHERS, ANSWER)
    after = scores(OTHERS[0], replace(OTHERS[1], text_score=9.0), OTHERS[2], ANSWER)
    assert after[1] > before[1]


def test_headings_are_read_with_the_text():
    plain, headed = (passage("From June to October, nine to five.", f"{name}.md") for name in "xy")
    headed = replace(headed, heading_path=("Rowing boats", "Hire"))
    given = scores(*OTHERS, plain, headed)
    assert given[4] > given[3]


def test_the_same_passages_get_the_same_scores_with_any_number_of_threads():
    assert scores(*OTHERS, ANSWER, threads=1) == scores(*OTHERS, ANSWER, threads=4)


def test_passages_that_are_alike_score_alike():
    given = scores(ANSWER, ANSWER)
    assert given == [0.0, 0.0]


@pytest.mark.parametrize("text", ["", " ", "🛶", "boat " * 5000])
def test_any_text_gets_a_finite_score(text: str):
    given = scores(*OTHERS, passage(text, "odd.md"))
    assert np.isfinite(given).all()
    assert np.isfinite(scores(*OTHERS, question=text or "?")).all()


def test_its_identity_changes_with_the_model_and_not_with_the_threads():
    one, other = (LateInteractionReranker(LateInteractionRerank(threads=count)).identity for count in (1, 2))
    assert one == other
    assert one["model"]
