"""What an ingest has to do, and what it did. `rag_assets.defs.ingesting` does it, with Dagster."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_assets.config import CorpusSettings
from rag_assets.reading.source import open_source
from rag_assets.scanning import Scan, scan
from rag_assets.storing.ledger import KnownDocument, known_documents, set_aside_documents
from rag_assets.storing.publishing import publication_is_due
from rag_assets.storing.stores import Store


@dataclass(frozen=True)
class Look:
    """One scan, and what follows from it: `documents` to materialize, `found.removed` to remove, whether to publish."""

    found: Scan
    documents: Sequence[str]
    failed: Sequence[KnownDocument]
    publication_is_due: bool

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.documents or self.found.removed or self.publication_is_due)


@dataclass(frozen=True)
class IngestResult:
    """What an ingest found and did. `failed` are all documents that are set aside now, `done` those that it worked on,
    `runs` the ids of its runs."""

    found: Scan
    failed: Sequence[KnownDocument] = ()
    done: Sequence[KnownDocument] = ()
    removed: Sequence[str] = ()
    runs: Sequence[str] = field(default_factory=tuple)


def look(store: Store, corpus: CorpusSettings, *, confirm_deletions: bool = False) -> Look:
    """Scan `corpus`. A person asked for it: nothing waits to settle, and failures that may pass are tried again.

    Raises `SourceError` when the corpus cannot be listed.
    """
    known = known_documents(store.documents(corpus.name))
    found = scan(store, corpus, open_source(corpus), known=known, confirm_deletions=confirm_deletions)
    again = [document.document for document in found.failed if document.retryable]
    return Look(
        found=found,
        documents=sorted({*found.pending, *again}),
        failed=set_aside_documents(known),
        # What is pending is made now, or is out of reach: neither keeps from readers what was indexed.
        publication_is_due=publication_is_due(store, corpus, known=known, resume=True, beside_pending=True),
    )
