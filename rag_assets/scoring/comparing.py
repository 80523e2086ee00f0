"""Whether an index answers as well as the one before it, and whether a new one may take its place."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rag_assets.config import CorpusSettings, EvaluationSettings
from rag_assets.errors import QuestionError
from rag_assets.progress import Listener
from rag_assets.records import Evaluation, Figures
from rag_assets.scoring.evaluating import Report, evaluate, questions_hash
from rag_assets.scoring.questions import load_questions
from rag_assets.storing.evaluations import evaluations, keep_evaluation
from rag_assets.storing.publishing import Approve, Publication, latest_publication
from rag_assets.storing.stores import Store

QUALITY = (
    "recall_at_5",
    "recall_at_k",
    "ndcg_at_10",
    "mrr",
    "answerable_accuracy",
    "unanswerable_accuracy",
    "citation_precision",
    "citation_recall",
)
"""The figures that are compared: higher is better."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Fall:
    """A figure that is lower than it was."""

    figure: str
    before: float
    now: float

    def __str__(self) -> str:
        return f"{self.figure} fell from {self.before:.3f} to {self.now:.3f}"


def falls(before: Figures, now: Figures, *, max_drop: float) -> list[Fall]:
    """The figures that fell by more than `max_drop`. What one of the two could not measure is not compared."""
    pairs = [(name, getattr(before, name), getattr(now, name)) for name in QUALITY]
    return [
        Fall(name, old, new)
        for name, old, new in pairs
        if old is not None and new is not None and old - new > max_drop + _ROUNDING
    ]


def evaluation_before(kept: Iterable[Evaluation], now: Evaluation) -> Evaluation | None:
    """Of `kept`, the newest first, the last evaluation of an earlier version that was published and asked the same."""
    return next(
        (
            one
            for one in kept
            if one.held is None and one.index_version < now.index_version and one.questions_hash == now.questions_hash
        ),
        None,
    )


@dataclass(frozen=True)
class Standing:
    """An evaluation of what readers see, what it is compared with, and the figures that fell too far."""

    report: Report
    before: Evaluation | None
    fallen: Sequence[Fall]


def evaluate_published(
    store: Store, corpus: CorpusSettings, wanted: EvaluationSettings, *, run_id: str, progress: Listener
) -> Standing:
    """Evaluate what readers of `corpus` see now, keep that, and compare it with the version before.

    Raises `QuestionError` when nothing is published, and what `evaluate` raises.
    """
    publication = latest_publication(store, corpus.name)
    if publication is None:
        raise QuestionError(f"corpus {corpus.name} has no published index yet; run: rag-assets ingest {corpus.name}")
    report = evaluate(store, corpus, publication, wanted, run_id=run_id, progress=progress)
    now = report.evaluation
    before = evaluation_before(evaluations(store, corpus.name), now)
    keep_evaluation(store, now)
    fallen = falls(before.figures, now.figures, max_drop=wanted.max_drop) if before else []
    return Standing(report, before, fallen)


def wanted_evaluation(
    corpus: CorpusSettings, *, questions: str | None, answers: bool | None, sample: int | None
) -> EvaluationSettings:
    """The settings `evaluation` of `corpus`, with what is not None in their place. Raises `QuestionError` where neither
    names questions."""
    if corpus.evaluation is None and questions is None:
        raise QuestionError(
            f"corpus {corpus.name} names no questions; set corpora.{corpus.name}.evaluation.questions in corpora.yaml, or"
            " give a file with --questions"
        )
    said = {"questions": questions, "answers": answers, "sample": sample}
    given = {key: value for key, value in said.items() if value is not None}
    return corpus.evaluation.model_copy(update=given) if corpus.evaluation else EvaluationSettings.model_validate(given)


def approval(store: Store, corpus: CorpusSettings, *, run_id: str, progress: Listener) -> Approve | None:
    """What keeps a version from readers that finds less than the one they see; None where nothing is to block.

    Answers are not made: publishing never pays a chat model. Both versions are asked the same questions, that of the
    readers once; the evaluations are kept.
    """
    if corpus.evaluation is None or not corpus.evaluation.block:
        return None
    wanted = corpus.evaluation.model_copy(update={"answers": False})

    def approve(before: Publication, after: Publication) -> str | None:
        asked = questions_hash(load_questions(Path(wanted.questions)).sampled(wanted.sample), wanted)
        was = _of(before, evaluations(store, corpus.name), asked)
        if was is None:
            was = evaluate(store, corpus, before, wanted, run_id=run_id, progress=progress).evaluation
            keep_evaluation(store, was)
        now = evaluate(store, corpus, after, wanted, run_id=run_id, progress=progress).evaluation
        fallen = falls(was.figures, now.figures, max_drop=wanted.max_drop)
        held = _held(corpus.name, before.version, fallen, wanted) if fallen else None
        keep_evaluation(store, replace(now, held=held))
        return held

    return approve


def _of(publication: Publication, kept: Sequence[Evaluation], asked: str) -> Evaluation | None:
    """The last evaluation of the rows of `publication` that asked the questions whose hash is `asked`."""
    place = (publication.generation, publication.table_version, asked)
    return next((one for one in kept if (one.generation, one.table_version, one.questions_hash) == place), None)


def _held(corpus: str, version: int, fallen: Sequence[Fall], wanted: EvaluationSettings) -> str:
    """Why a version is kept from readers, and what to do."""
    return (
        f"the new version finds less than version {version}, which readers keep: {'; '.join(map(str, fallen))}; at most"
        f" {wanted.max_drop:g} is allowed. Correct the documents or settings; or raise evaluation.max_drop or unset"
        f" evaluation.block, then: rag-assets ingest {corpus}"
    )
