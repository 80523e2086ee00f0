"""Maximal marginal relevance, by hand: vectors in a plane, scores from 0 to 1."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.records import Passage
from rag_assets.retrieving.diversity import Embedded, diversify, pool_size
from rag_assets.retrieving.search import vectors_of
from rag_assets_tests.answering.passages import passage
from rag_assets_tests.workbench import Workbench


def scored(**scores: float) -> list[Passage]:
    return [replace(passage(name, f"{name}.md"), score=score, chunk_id=name) for name, score in scores.items()]


def at(degrees: float, model: str = "m") -> Embedded:
    radians = np.radians(degrees)
    return Embedded(model, np.array([np.cos(radians), np.sin(radians)], np.float32))


def chosen(passages: list[Passage], angles: dict[str, float], *, diversity: float, top_k: int = 3) -> str:
    embedded = {("", name): at(angle) for name, angle in angles.items()}
    return "".join(one.text for one in diversify(passages, embedded, diversity=diversity, top_k=top_k))


PASSAGES = scored(a=1.0, b=0.9, c=0.5, d=0.0)
ANGLES = {"a": 0.0, "b": 0.0, "c": 90.0, "d": 180.0}


def test_without_diversity_the_order_stays():
    assert chosen(PASSAGES, ANGLES, diversity=0.0) == "abc"


def test_an_unlike_passage_comes_before_a_likeness_of_the_first():
    """At 0.5, after a: b is worth 0.45 - 0.5, c 0.25 - 0, d 0 + 0.5; after d: b 0.45 - 0.5, c 0.25 - 0."""
    assert chosen(PASSAGES, ANGLES, diversity=0.5) == "adc"


def test_a_little_diversity_only_moves_likenesses():
    """After a, at 0.2: b is worth 0.72 - 0.2 = 0.52, c 0.4, d 0.2. At 0.3: 0.63 - 0.3 = 0.33, 0.35, 0.3."""
    assert chosen(PASSAGES, ANGLES, diversity=0.2) == "abc"
    assert chosen(PASSAGES, ANGLES, diversity=0.3) == "acb"


def test_vectors_of_different_models_and_unknown_ones_count_as_unlike():
    embedded = {("", "a"): at(0), ("", "b"): at(0, "other")}
    kept = diversify(PASSAGES, embedded, diversity=0.4, top_k=4)
    assert "".join(one.text for one in kept) == "abcd"


def test_scores_that_are_all_equal_are_relevant_alike():
    assert chosen(scored(a=0.3, b=0.3, c=0.3), {"a": 0, "b": 0, "c": 90}, diversity=0.5) == "acb"


def test_there_may_be_fewer_than_wanted_or_none():
    assert chosen(PASSAGES[:1], ANGLES, diversity=0.5) == "a"
    assert diversify([], {}, diversity=0.5, top_k=3) == []


@given(
    st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 360)), min_size=1, max_size=12),
    st.floats(0, 0.99),
    st.integers(1, 12),
)
def test_it_begins_with_the_best_and_a_longer_choice_begins_with_the_shorter(
    drawn: list[tuple[float, float]], diversity: float, top_k: int
):
    drawn = sorted(drawn, key=lambda one: -one[0])
    passages = scored(**{f"p{number}": score for number, (score, _) in enumerate(drawn)})
    embedded = {("", f"p{number}"): at(angle) for number, (_, angle) in enumerate(drawn)}
    kept = diversify(passages, embedded, diversity=diversity, top_k=top_k)
    assert len({one.chunk_id for one in kept}) == len(kept) == min(top_k, len(passages))
    assert kept[0].score == passages[0].score
    assert diversify(passages, embedded, diversity=diversity, top_k=top_k + 1)[:top_k] == kept


def test_more_are_found_than_are_kept():
    assert (pool_size(1), pool_size(5), pool_size(50)) == (20, 20, 200)


def test_vectors_are_those_of_the_passages(bench: Workbench):
    for name in ("granite", "basalt", "it's"):
        bench.write(f"{name}.md", name)
    bench.ingest()
    passages = bench.search("granite basalt", mode="vector")
    vectors = vectors_of(bench.store, bench.corpus, bench.published, passages[:2])
    assert set(vectors) == {one.chunk_id for one in passages[:2]}
    for one in passages[:2]:
        expected = bench.provider.embed([one.text], "document").vectors[0]
        assert vectors[one.chunk_id] == pytest.approx(expected, abs=1e-6)
    assert vectors_of(bench.store, bench.corpus, bench.published, []) == {}
