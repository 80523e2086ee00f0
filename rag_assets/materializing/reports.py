"""What a stage did to a batch of documents, and how a stage sets one document aside while the others go on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from rag_assets.errors import DocumentError, RagAssetsError
from rag_assets.storing.ledger import KnownDocument

PREVIEW = 400
"""So many characters of a document are shown beside its figures."""

T = TypeVar("T")
Figures = Mapping[str, object]
Progress = Callable[[str, int, int], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """A `Progress` for those who do not watch."""


@dataclass(frozen=True)
class StageReport:
    """Figures by document, for all documents of the batch that passed, and the errors of those that were set aside.

    `skipped` had nothing to pass with, each with the reason: most were set aside by an earlier stage.
    """

    documents: Mapping[str, Figures] = field(default_factory=dict)
    failed: Mapping[str, DocumentError] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)

    def total(self, figure: str) -> float:
        """The sum of one figure over the documents."""
        values = [figures.get(figure) for figures in self.documents.values()]
        return sum(value for value in values if isinstance(value, int | float))


def why_skipped(known: KnownDocument | None) -> str:
    """Why a stage has nothing to do for a document."""
    if known is None:
        return "it was not read yet"
    if known.status == "failed":
        return f"set aside by an earlier stage ({known.stage}): {known.reason}"
    return "it was read again meanwhile; the run that read it goes on with it"


def set_aside(work: Callable[[], T], failed: dict[str, DocumentError], document: str) -> T | None:
    """Do the work of one document; when it fails, note why under `document` and return None.

    What is no document's fault (a `RagAssetsError` that is not a `DocumentError`, no memory, no disk) goes on up. Anything
    else that a reader or splitter raises on hostile input is a reason to set aside this document only.
    """
    try:
        return work()
    except DocumentError as error:
        failed[document] = error
    except (RagAssetsError, MemoryError, OSError):
        raise
    except Exception as error:
        failed[document] = DocumentError(f"unexpected {type(error).__name__}: {error}")
    return None
