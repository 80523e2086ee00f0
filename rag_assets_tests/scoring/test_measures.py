"""The measures are those that a person computes with pen and paper."""

import math
import sys

import pytest

from rag_assets.errors import RagAssetsError
from rag_assets.scoring.measures import RankingScores, percentile, ranking_scores


def test_the_measures_of_two_rankings():
    """Of two relevant documents one is found, at rank 2: half is recalled, and the gain 1 / log2(3) is divided by the best
    possible one, 1 + 1 / log2(3)."""
    scores = ranking_scores(
        {"half": ["x", "a", "y"], "first": ["a"]}, {"half": {"a": 1, "b": 1}, "first": {"a": 1}}, top_k=10
    )
    gain = 1 / math.log2(3)
    assert scores["half"].recall_at_5 == pytest.approx(0.5)
    assert scores["half"].recall_at_k == pytest.approx(0.5)
    assert scores["half"].ndcg_at_10 == pytest.approx(gain / (1 + gain))
    assert scores["half"].reciprocal_rank == pytest.approx(0.5)
    assert scores["first"] == RankingScores(1.0, 1.0, 1.0, 1.0)


def test_a_higher_grade_is_worth_more():
    better = ranking_scores({"q": ["a", "b"]}, {"q": {"a": 2, "b": 1}}, top_k=10)["q"].ndcg_at_10
    worse = ranking_scores({"q": ["b", "a"]}, {"q": {"a": 2, "b": 1}}, top_k=10)["q"].ndcg_at_10
    assert better == pytest.approx(1.0)
    assert worse == pytest.approx((1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3)))


def test_the_depth_counts():
    ranking = [f"x{place}" for place in range(5)] + ["a"]
    scores = ranking_scores({"q": ranking}, {"q": {"a": 1}}, top_k=6)["q"]
    assert (scores.recall_at_5, scores.recall_at_k) == (0.0, 1.0)
    assert scores.reciprocal_rank == pytest.approx(1 / 6)
    assert ranking_scores({"q": ranking}, {"q": {"a": 1}}, top_k=5)["q"].recall_at_k == 0.0


def test_a_question_that_found_nothing_scores_nothing():
    assert ranking_scores({"q": []}, {"q": {"a": 1}, "r": {"a": 1}}, top_k=10) == {
        "q": RankingScores(0.0, 0.0, 0.0, 0.0),
        "r": RankingScores(0.0, 0.0, 0.0, 0.0),
    }
    assert ranking_scores({}, {}, top_k=10) == {}


def test_percentiles_are_values_that_were_measured():
    values = [float(value) for value in range(1, 21)]
    assert (percentile(values, 50), percentile(values, 95), percentile(values, 100)) == (10.0, 19.0, 20.0)
    assert percentile([7.0], 50) == percentile([7.0], 95) == 7.0
    assert percentile([], 50) == 0.0


def test_a_missing_library_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(RagAssetsError, match=r"install it: pip install 'rag-assets\[evaluation\]'"):
        ranking_scores({}, {}, top_k=10)
