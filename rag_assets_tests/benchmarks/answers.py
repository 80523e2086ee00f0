"""How well a ranking answers: what is relevant, and the measures, which ir-measures computes.

Here a ranking is what a reader is given for a question, best first. How it was found is the business of the benchmarks.
"""

import statistics
from collections.abc import Mapping, Sequence

import ir_measures

from rag_assets.records import Passage
from rag_assets_tests.questions import Question, normalised

NDCG, RECALL, RECIPROCAL_RANK = "nDCG@10", "R@5", "RR@10"
"""The measures, by the names that ir-measures gives them."""

Ranking = Sequence[str]
Relevant = Mapping[str, int]
Scores = Mapping[str, Mapping[str, float]]
"""By measure and question."""

_MEASURES = {name: ir_measures.parse_measure(name) for name in (NDCG, RECALL, RECIPROCAL_RANK)}
_ANSWER = "answer"


def scores_of(rankings: Mapping[str, Ranking], relevant: Mapping[str, Relevant]) -> Scores:
    """The measures by question. `rankings` and `relevant` have the ids of the questions as keys."""
    run = {
        question: {item: -float(rank) for rank, item in enumerate(ranking)} for question, ranking in rankings.items()
    }
    # A question that found nothing is left out by the library, and scores nothing here.
    scores = {name: dict.fromkeys(relevant, 0.0) for name in _MEASURES}
    for found in ir_measures.iter_calc(_MEASURES.values(), relevant, run):
        scores[str(found.measure)][found.query_id] = found.value
    return scores


def mean(scores: Scores, name: str) -> float:
    """The mean of one measure over the questions."""
    return statistics.fmean(scores[name].values())


def scores_of_ranks(ranks: Mapping[str, int | None]) -> Scores:
    """The measures by question, where an answer is one thing and `ranks` says where it was found, from 1."""
    rankings = {
        question: [f"other {place}" for place in range(1, rank)] + [_ANSWER] if rank else []
        for question, rank in ranks.items()
    }
    return scores_of(rankings, {question: {_ANSWER: 1} for question in ranks})


def answer_rank(question: Question, passages: Sequence[Passage]) -> int | None:
    """The rank, from 1, at which who reads `passages` in order has every phrase that the answer needs.

    A passage counts when it is of the right document. Where a strategy cuts an answer in two, both parts must be read:
    the rank is that of the later. What is said again in an overlap counts once, so strategies can be compared.
    """
    missing = set(question.contains)
    for rank, passage in enumerate(passages, start=1):
        if passage.document == question.document:
            missing -= phrases_in(passage.text, question)
            if not missing:
                return rank
    return None


def phrases_in(text: str, question: Question) -> set[str]:
    """The phrases of `question` that are in `text`."""
    flat = normalised(text)
    return {phrase for phrase in question.contains if phrase in flat}


def difference(values: Mapping[str, float], others: Mapping[str, float]) -> tuple[float, float]:
    """How much better `values` are on average than `others` of the same questions, and the standard error of that."""
    gains = [value - others[question] for question, value in values.items()]
    error = statistics.stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
    return statistics.fmean(gains), error
