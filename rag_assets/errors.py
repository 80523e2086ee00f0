"""The errors that a person is meant to read.

Every message says what was found, what was expected and what to do next. The command line prints it as one line;
Dagster shows it as the run's failure. What went wrong inside *one* document is a `DocumentError`: the document is set
aside and the others go on.
"""

from typing import Literal

Stage = Literal["read", "chunk", "embed", "index"]


class RagAssetsError(Exception):
    """Something that stops the work, told in one sentence with its remedy."""


class ConfigError(RagAssetsError):
    """`corpora.yaml`, or the environment, asks for something that cannot be."""


class SourceError(RagAssetsError):
    """A corpus cannot be listed: missing, unreadable, unreachable."""


class StoreError(RagAssetsError):
    """The tables under `RAG_ASSETS_HOME` are missing, unreachable or inconsistent."""


class ProviderError(RagAssetsError):
    """An embedding or chat provider refused or failed in a way that is no single document's fault.

    `kind` is the class of the failure (`rag_assets.calling.failures.FailureKind`) where a server's reply told it.
    """

    def __init__(self, message: str, *, kind: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind


class BudgetError(RagAssetsError):
    """A run would cost more than the corpus allows; nothing was sent."""


class QuestionError(RagAssetsError):
    """A question, or the way it was asked, cannot be answered: empty, too long, unknown corpus, nothing indexed."""


class DocumentError(RagAssetsError):
    """One document could not pass a stage.

    `retryable` is true when the same bytes may pass later (a provider's refusal, a permission), false when only
    another content or another version of the reader can help.
    """

    def __init__(self, reason: str, *, retryable: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable
