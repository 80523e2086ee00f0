"""Ranking measures, which ir-measures computes, and percentiles.

Here a ranking is a list of names, best first. What the names stand for, and which are right, is `judging.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from rag_assets.errors import RagAssetsError


@dataclass(frozen=True)
class RankingScores:
    """The measures of one question, each 0 to 1, as trec_eval defines them."""

    recall_at_5: float
    recall_at_k: float
    ndcg_at_10: float
    reciprocal_rank: float


def ranking_scores(
    rankings: Mapping[str, Sequence[str]], relevant: Mapping[str, Mapping[str, int]], *, top_k: int
) -> dict[str, RankingScores]:
    """The measures of each question of `relevant`; one without a ranking scores nothing.

    Raises `RagAssetsError` where ir-measures is not installed.
    """
    library = _ir_measures()
    names = {
        "recall_at_5": "R@5",
        "recall_at_k": f"R@{top_k}",
        "ndcg_at_10": "nDCG@10",
        "reciprocal_rank": "RR",
    }
    measures = {field: library.parse_measure(name) for field, name in names.items()}
    run = {
        question: {item: -float(place) for place, item in enumerate(ranking)} for question, ranking in rankings.items()
    }
    # A question that found nothing is left out by the library.
    values = {question: dict.fromkeys(names, 0.0) for question in relevant}
    for found in library.iter_calc(set(measures.values()), relevant, run) if relevant else ():
        for field, measure in measures.items():
            if measure == found.measure:
                values[found.query_id][field] = float(found.value)
    return {question: RankingScores(**fields) for question, fields in values.items()}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of `values` that at least `percent` % of them do not exceed (nearest rank); 0.0 without values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)] if ordered else 0.0


def _ir_measures() -> ModuleType:
    try:
        import ir_measures
    except ImportError as error:
        raise RagAssetsError(
            f"an evaluation needs a package that is not installed ({error.name}); install it: pip install"
            " 'rag-assets[evaluation]'"
        ) from None
    return ir_measures
