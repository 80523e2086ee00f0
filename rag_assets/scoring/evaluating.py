"""Questions with known answers are put to a version of the index, and what comes back is measured.

Each question takes the path of `rag_assets.asking`, through a store that is pinned to the version. What counts as the
known answer is `judging.py`; what is compared with an earlier evaluation is `comparing.py`.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rag_assets.asking import Found, generate, make_question, read_wider, rerank, retrieve
from rag_assets.config import CorpusSettings, EvaluationSettings, Settings
from rag_assets.embedding.providers import make_provider
from rag_assets.errors import QuestionError
from rag_assets.fingerprints import fingerprint
from rag_assets.progress import Listener
from rag_assets.records import Answer, Evaluation, Figures, QuestionScore
from rag_assets.scoring.judging import Judged, judge_citations, judge_passages
from rag_assets.scoring.measures import RankingScores, percentile, ranking_scores
from rag_assets.scoring.pinning import PinnedStore
from rag_assets.scoring.questions import KnownQuestion, QuestionSet, load_questions
from rag_assets.spending import quote
from rag_assets.storing.publishing import Publication, embedding_for, rows_by_document
from rag_assets.storing.stores import Store

STAGE = "evaluate"


@dataclass(frozen=True)
class Report:
    """An evaluation, and what a person should know of its questions: drafts skipped, documents that are not indexed."""

    evaluation: Evaluation
    warnings: Sequence[str]


@dataclass(frozen=True)
class _Outcome:
    """What a question found, and the answer that was made of it."""

    question: KnownQuestion
    found: Found
    judged: Judged | None
    answer: Answer | None
    cost_usd: float

    @property
    def latency_ms(self) -> float:
        return self.answer.timings_ms["total"] if self.answer else sum(self.found.timings_ms.values())


def evaluate(
    store: Store,
    corpus: CorpusSettings,
    publication: Publication,
    wanted: EvaluationSettings,
    *,
    run_id: str,
    progress: Listener,
) -> Report:
    """Ask the questions that `wanted` names of `publication`, one after the other. Nothing is kept.

    Raises `QuestionError` when the questions cannot be read, `RagAssetsError` when ir-measures is not installed, and what
    `asking` raises.
    """
    known = load_questions(Path(wanted.questions)).sampled(wanted.sample)
    ranking_scores({}, {}, top_k=wanted.top_k)  # what is missing is told before anything is asked
    pinned = PinnedStore(store.home, publication)
    settings = Settings(path=Path(wanted.questions), home=store.home, corpora={corpus.name: corpus})
    outcomes: list[_Outcome] = []
    _find(pinned, settings, known.questions[0], wanted.top_k)  # loading the model is no part of a question's time
    for done, question in enumerate(known.questions):
        progress(STAGE, done, len(known.questions))
        outcomes.append(_ask(pinned, settings, question, wanted, run_id=run_id))
    progress(STAGE, len(known.questions), len(known.questions))
    scores = _scores(outcomes, top_k=wanted.top_k)
    answers = [one.answer for one in outcomes if one.answer]
    evaluation = Evaluation(
        evaluated_at=datetime.now(UTC),
        corpus=corpus.name,
        run_id=run_id,
        index_version=publication.version,
        generation=publication.generation,
        table_version=publication.table_version,
        embedding_model=outcomes[0].found.embedding_model,
        answer_model=answers[0].model if answers else None,
        questions=wanted.questions,
        questions_hash=questions_hash(known, wanted),
        top_k=wanted.top_k,
        answerable=sum(one.answerable for one in scores),
        unanswerable=sum(not one.answerable for one in scores),
        figures=_figures(scores),
        scores=scores,
    )
    warnings = [*_drafts(known), *_unranked(outcomes), *_unknown_documents(store, corpus.name, publication, known)]
    return Report(evaluation, warnings)


def questions_hash(known: QuestionSet, wanted: EvaluationSettings) -> str:
    """Twelve hexadecimal digits: evaluations with the same ones can be compared."""
    return fingerprint({"questions": known.hash, "top_k": wanted.top_k})[:12]


def _find(pinned: PinnedStore, settings: Settings, question: KnownQuestion, top_k: int) -> Found:
    corpus = settings.corpus(None)
    try:
        return rerank(corpus, retrieve(pinned, corpus, make_question(settings, question.text, top_k=top_k)))
    except QuestionError as error:
        raise QuestionError(f"question {question.id!r}: {error}") from error


def _ask(
    pinned: PinnedStore, settings: Settings, question: KnownQuestion, wanted: EvaluationSettings, *, run_id: str
) -> _Outcome:
    """The passages of a question, to the depth that is judged, and the answer from as many as people are given."""
    corpus = settings.corpus(None)
    found = _find(pinned, settings, question, max(wanted.top_k, corpus.retrieval.top_k))
    cost = 0.0
    if found.question.mode != "text":
        cost = quote(make_provider(embedding_for(corpus, pinned.publication)), [question.text]).cost_usd
    answer = None
    if wanted.answers:
        answer = generate(pinned, corpus, _first(found, corpus.retrieval.top_k), run_id=run_id)
    cost += (answer or found.reranking).usage.cost_usd  # that of an answer holds that of its reranker
    seen, _ = read_wider(pinned, _first(found, wanted.top_k))
    return _Outcome(question, found, judge_passages(question, seen) if question.answerable else None, answer, cost)


def _first(found: Found, count: int) -> Found:
    """`found` as a question with this `top_k` would have it."""
    passages = [*found.passages, *found.reserve]
    return replace(found, passages=passages[:count], reserve=passages[count : 2 * count])


def _scores(outcomes: Sequence[_Outcome], *, top_k: int) -> list[QuestionScore]:
    judged = {one.question.id: one.judged for one in outcomes if one.judged}
    rankings = {name: one.ranking for name, one in judged.items()}
    measured = ranking_scores(rankings, {name: one.relevant for name, one in judged.items()}, top_k=top_k)
    return [_score(one, measured.get(one.question.id), top_k=top_k) for one in outcomes]


def _score(outcome: _Outcome, measured: RankingScores | None, *, top_k: int) -> QuestionScore:
    question, answer = outcome.question, outcome.answer
    judges_citations = answer is not None and answer.answered and question.answerable
    right, recall = judge_citations(question, answer.citations) if answer and judges_citations else (None, None)
    if answer and question.answerable and not answer.answered:
        recall = 0.0
    return QuestionScore(
        id=question.id,
        question=question.text,
        answerable=question.answerable,
        rank=outcome.judged.rank if outcome.judged else None,
        recall_at_5=measured.recall_at_5 if measured else None,
        recall_at_k=measured.recall_at_k if measured else None,
        ndcg_at_10=measured.ndcg_at_10 if measured else None,
        reciprocal_rank=measured.reciprocal_rank if measured else None,
        answered=answer.answered if answer else None,
        citations=len(answer.citations) if answer and judges_citations else None,
        citations_right=right,
        citation_recall=recall,
        found=list(dict.fromkeys(passage.document for passage in outcome.found.passages[:top_k])),
        latency_ms=round(outcome.latency_ms, 1),
        cost_usd=outcome.cost_usd,
    )


def _figures(scores: Sequence[QuestionScore]) -> Figures:
    latencies = [one.latency_ms for one in scores]
    return Figures(
        recall_at_5=_mean(one.recall_at_5 for one in scores),
        recall_at_k=_mean(one.recall_at_k for one in scores),
        ndcg_at_10=_mean(one.ndcg_at_10 for one in scores),
        mrr=_mean(one.reciprocal_rank for one in scores),
        answerable_accuracy=_mean(one.answered for one in scores if one.answerable),
        unanswerable_accuracy=_mean(
            not one.answered for one in scores if not one.answerable and one.answered is not None
        ),
        citation_precision=_mean(
            (one.citations_right or 0) / one.citations for one in scores if one.citations is not None and one.citations
        ),
        citation_recall=_mean(one.citation_recall for one in scores),
        latency_p50_ms=percentile(latencies, 50),
        latency_p95_ms=percentile(latencies, 95),
        cost_usd=sum(one.cost_usd for one in scores),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [float(value) for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _drafts(known: QuestionSet) -> list[str]:
    if not known.drafts:
        return []
    drafts = "1 draft is" if known.drafts == 1 else f"{known.drafts} drafts are"
    return [f'{known.path}: {drafts} skipped; correct what they say, and take out "draft": true']


def _unranked(outcomes: Sequence[_Outcome]) -> list[str]:
    """Figures of a fused order, taken for those of a reranker, would judge something else."""
    failures = [one.found.reranking.failure for one in outcomes if one.found.reranking.failure]
    if not failures:
        return []
    return [f"{len(failures)} of {len(outcomes)} questions were judged in fused order: the reranker {failures[0]}"]


def _unknown_documents(store: Store, corpus: str, publication: Publication, known: QuestionSet) -> list[str]:
    """A name that is written wrong is never found, and looks like a bad search."""
    indexed = set()
    if publication.table_version:
        table = store.index(corpus, publication.generation, dimensions=1)
        indexed = set(rows_by_document(table, version=publication.table_version))
    missing = sorted({name for question in known.questions for name in question.documents} - indexed)
    if not missing:
        return []
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return [
        f"{known.path}: {', '.join(missing[:3])}{more}: not in version {publication.version} of {corpus}; write documents"
        f" as rag-assets status {corpus} --documents shows them"
    ]
