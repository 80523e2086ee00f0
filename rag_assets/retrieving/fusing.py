"""Several rankings become one, by rank: the scores of different searches, models and corpora cannot be compared."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from rag_assets.records import Passage

T = TypeVar("T", bound=Hashable)

RRF_K = 60
"""Cormack, Clarke and Büttcher (SIGIR 2009) found 60 good on every collection they tried, and so did we on three."""


def fuse(
    rankings: Sequence[Sequence[T]], *, weights: Sequence[float] | None = None, rrf_k: int = RRF_K
) -> dict[T, float]:
    """Reciprocal rank fusion: an item scores the sum of weight / (`rrf_k` + rank) over the rankings that hold it, ranks
    from 1. Every ranking weighs 1 unless `weights` says otherwise."""
    scores: dict[T, float] = {}
    for ranking, weight in zip(rankings, weights or [1.0] * len(rankings), strict=True):
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + weight / (rrf_k + rank)
    return scores


def fuse_corpora(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """The passages of several corpora in one ranking; the score of a passage becomes 1 / (60 + its rank), and the corpus
    that comes first wins a tie."""
    by_place = {passage.place: passage for ranking in rankings for passage in ranking}
    scores = fuse([[passage.place for passage in ranking] for ranking in rankings])
    return [replace(by_place[place], score=score) for place, score in sorted(scores.items(), key=lambda item: -item[1])]
