"""Fusion, by hand: an item at rank r of a ranking scores its weight / (60 + r)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.config import FusionWeights, RetrievalSettings
from rag_assets.retrieving.fusing import fuse
from rag_assets_tests.workbench import Workbench


def test_ranks_are_fused_by_their_reciprocals():
    assert fuse([["a", "b", "c"], ["b", "d"]]) == pytest.approx(
        {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 63, "d": 1 / 62}
    )


def test_two_middling_ranks_beat_one_first_rank():
    scores = fuse([["a", "x", "both"], ["b", "y", "both"]])
    assert scores["both"] == pytest.approx(0.031746, abs=1e-6)
    assert scores["a"] == pytest.approx(0.016393, abs=1e-6)


def test_nothing_fuses_to_nothing():
    assert fuse([]) == {}
    assert fuse([[], []]) == {}


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=3))
def test_what_is_above_in_every_ranking_is_above_in_the_fusion(rankings: list[list[str]]):
    scores = fuse(rankings)
    for first in scores:
        for second in scores:
            if all(
                second in ranking and first in ranking and ranking.index(first) < ranking.index(second)
                for ranking in rankings
            ):
                assert scores[first] > scores[second]


def test_a_ranking_counts_as_much_as_it_weighs():
    rankings = [["a", "b"], ["b", "a"], ["c"]]
    assert fuse(rankings, weights=[2.0, 0.5, 1.0], rrf_k=9) == pytest.approx(
        {"a": 2 / 10 + 0.5 / 11, "b": 2 / 11 + 0.5 / 10, "c": 1 / 10}
    )


def weigh(bench: Workbench, **keys: object) -> None:
    bench.configure(retrieval=RetrievalSettings.model_validate(keys))


def test_a_search_that_weighs_nothing_is_not_made(bench: Workbench):
    """With the weight 0 its rows would still be there, each with the score 0."""
    bench.write("words.md", "granite basalt")
    bench.write("other.md", "marble")
    bench.ingest()
    assert len(bench.search("granite")) == 2
    weigh(bench, weights=FusionWeights(vector=0, text=1))
    assert [one.document for one in bench.search("granite")] == ["words.md"]
    assert bench.search("granite")[0].similarity is None
    weigh(bench, weights=FusionWeights(vector=1, text=0))
    assert [one.similarity is not None for one in bench.search("granite")] == [True, True]
    assert len(bench.search("granite", mode="text")) == 1


def test_weights_and_k_make_the_score(bench: Workbench):
    bench.write("a.md", "granite basalt")
    bench.ingest()
    weigh(bench, weights=FusionWeights(vector=3, text=0.5), rrf_k=9)
    assert bench.search("granite")[0].score == pytest.approx(3.5 / 10)
