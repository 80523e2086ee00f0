"""Which figures are compared, with which evaluation, and how far they may fall."""

from dataclasses import replace
from datetime import UTC, datetime

from rag_assets.records import Evaluation, Figures
from rag_assets.scoring.comparing import Fall, evaluation_before, falls

FIGURES = Figures(0.9, 1.0, 0.8, 0.8, None, 1.0, None, 0.5, 10.0, 20.0, 0.0)


def evaluation(version: int, *, hour: int, questions: str = "q", held: str | None = None) -> Evaluation:
    return Evaluation(
        evaluated_at=datetime(2026, 11, 30, hour, tzinfo=UTC),
        corpus="notes",
        run_id="run",
        index_version=version,
        generation="g",
        table_version=version,
        embedding_model="hashing",
        answer_model=None,
        questions="q.jsonl",
        questions_hash=questions,
        top_k=10,
        answerable=1,
        unanswerable=0,
        figures=FIGURES,
        held=held,
    )


def test_a_figure_may_fall_by_the_margin_and_no_more():
    """0.9 - 0.8 is a little more than 0.1 in binary."""
    assert falls(FIGURES, replace(FIGURES, recall_at_5=0.8), max_drop=0.1) == []
    assert falls(FIGURES, replace(FIGURES, recall_at_5=0.79), max_drop=0.1) == [Fall("recall_at_5", 0.9, 0.79)]
    assert str(Fall("mrr", 0.9, 0.79)) == "mrr fell from 0.900 to 0.790"


def test_latency_cost_and_what_is_not_known_on_both_sides_are_not_compared():
    other = replace(FIGURES, latency_p50_ms=1e6, latency_p95_ms=1e6, cost_usd=9.0, citation_recall=None)
    assert falls(FIGURES, replace(other, answerable_accuracy=0.0), max_drop=0.0) == []


def test_the_last_evaluation_of_an_earlier_version_with_the_same_questions_counts():
    now = evaluation(5, hour=9)
    kept = [
        now,
        evaluation(5, hour=8),
        evaluation(4, hour=7, held="it finds less"),
        evaluation(4, hour=6, questions="other"),
        wanted := evaluation(3, hour=5),
        evaluation(2, hour=4),
    ]
    assert evaluation_before(kept, now) is wanted
    assert evaluation_before(kept, evaluation(2, hour=9)) is None
