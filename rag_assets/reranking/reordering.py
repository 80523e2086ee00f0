"""Passages in the order that a reranker gives them, or, when it fails or is slow, in the one that they had.

Here belong the time limit, the checks on what came back, and what a failure means for the answer. A failure is never an
error of the question.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rag_assets.calling.failures import POLICIES, FailureKind
from rag_assets.config import NoRerank, RerankSettings
from rag_assets.errors import ProviderError, RagAssetsError
from rag_assets.fingerprints import fingerprint
from rag_assets.records import Passage, Usage
from rag_assets.reranking.reranker import LoadsModel, Reranked, Reranker, RerankError
from rag_assets.reranking.rerankers import make_reranker

T = TypeVar("T")

_DIGITS = 8


@dataclass(frozen=True)
class Reranking:
    """What became of an order. `reranker` made it, None where nobody changed it; `identity` is everything that decided its
    scores. After a failure `may_pass` says whether the same may succeed later."""

    reranker: str | None = None
    identity: Mapping[str, object] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    notes: Sequence[str] = ()
    failure: str | None = None
    may_pass: bool = False


def reading_depth(settings: RerankSettings) -> int:
    """How many passages a reranker reads; 0 where there is none."""
    return 0 if isinstance(settings, NoRerank) else settings.candidates


def reorder(
    settings: RerankSettings, question: str, passages: Sequence[Passage]
) -> tuple[Sequence[Passage], Reranking]:
    """`passages`, best first, in the order of the reranker, and what is to be told of that.

    It reads the first `candidates`, whose `score` becomes its own; on a tie the one that was found first stays first. What
    it does not read follows as it was, with the lowest score of all. When it fails, nothing changes and a note says why.
    """
    if isinstance(settings, NoRerank) or not passages:
        return passages, Reranking()
    name = settings.provider
    try:
        reranker = make_reranker(settings)
        name = reranker.name
        if isinstance(reranker, LoadsModel):
            reranker.load()
        read = passages[: settings.candidates]
        reranked = _within(settings.timeout_seconds, lambda: _checked(reranker, question, read))
        identity = dict(reranker.identity)
        made_by = f"{name}@{fingerprint(identity)[:_DIGITS]}"
    except TimeoutError:
        reason = f"it took longer than rerank.timeout_seconds {settings.timeout_seconds:g}"
        return passages, _failed(name, reason, kind=FailureKind.CONNECTION)
    except Exception as error:  # whatever a model, a server or a stranger's plugin does, the question is answered
        told = str(error) if isinstance(error, RagAssetsError) else f"{type(error).__name__}: {error}"
        failed = _failed(name, told, kind=error.kind if isinstance(error, ProviderError) else None)
        return passages, replace(failed, usage=error.usage) if isinstance(error, RerankError) else failed
    order = sorted(range(len(read)), key=lambda place: -reranked.scores[place])
    ordered = [replace(read[place], score=reranked.scores[place]) for place in order]
    unread = [replace(passage, score=ordered[-1].score) for passage in passages[len(read) :]]
    return [*ordered, *unread], Reranking(made_by, identity, reranked.usage, reranked.notes)


def _checked(reranker: Reranker, question: str, passages: Sequence[Passage]) -> Reranked:
    """What it says, with numbers that can be sorted. Raises `ProviderError` where they cannot."""
    reranked = reranker.rerank(question, passages)
    scores = [float(score) for score in reranked.scores]
    if len(scores) != len(passages):
        raise ProviderError(f"it gave {len(scores)} scores for {len(passages)} passages", kind=FailureKind.MALFORMED)
    wrong = next((score for score in scores if not math.isfinite(score)), None)
    if wrong is not None:
        raise ProviderError(f"it gave the score {wrong}, which is not finite", kind=FailureKind.MALFORMED)
    return replace(reranked, scores=scores)


def _within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns or raises. Raises `TimeoutError` after `seconds`; the work then goes on unheard, to an end that
    rerankers set themselves, and keeps no process alive."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="rerank", daemon=True).start()
    return outcome.result(timeout=seconds)


def _failed(name: str, reason: str, *, kind: str | None) -> Reranking:
    reason = " ".join(reason.split()).rstrip(".")
    return Reranking(
        notes=[f"The reranker {name} failed: {reason}; passages are in fused order."],
        failure=f"{name}: {reason}",
        may_pass=kind in set(FailureKind) and POLICIES[FailureKind(kind)].passes,
    )
