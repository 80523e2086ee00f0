"""What every reranker offers. One module a reranker beside this one; `reordering.py` knows only this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from rag_assets.errors import ProviderError
from rag_assets.records import Passage, Usage


@dataclass(frozen=True)
class Reranked:
    """What a reranker says: `scores[n]` is how well `passages[n]` of the call answers the question, a finite number, higher
    is better. The scale is the reranker's own."""

    scores: Sequence[float]
    usage: Usage = field(default_factory=Usage)
    notes: Sequence[str] = ()


class RerankError(ProviderError):
    """A reply that was paid for, `usage`, and is no order."""

    def __init__(self, message: str, *, kind: str | None = None, usage: Usage) -> None:
        super().__init__(message, kind=kind)
        self.usage = usage


class Reranker(Protocol):
    """Reads a question and the passages that were found for it. Stateless but for a client or a loaded model."""

    @property
    def name(self) -> str:
        """What an answer names, such as `http/rerank-v3.5`. It needs neither model nor network, and never fails."""
        ...

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a score: model, prompts, code version. No secret, no address that may move, nothing
        that only changes speed. Raises `rag_assets.errors.ProviderError` when the files of a model are missing."""
        ...

    def rerank(self, question: str, passages: Sequence[Passage]) -> Reranked:
        """Score at least one passage. Called from a thread of its own, and abandoned at `timeout_seconds`.

        Raises `rag_assets.errors.ProviderError`, after the bounded retries of a client.
        """
        ...


@runtime_checkable
class LoadsModel(Protocol):
    """A reranker with a model to load before it can be quick. That time does not count towards `timeout_seconds`."""

    def load(self) -> None:
        """Load the model, unless it is loaded. Raises `rag_assets.errors.ProviderError`."""
        ...
