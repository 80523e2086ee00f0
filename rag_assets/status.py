"""What is there: the figures of `rag-assets status`, from the tables alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rag_assets.config import CorpusSettings
from rag_assets.errors import SourceError, StoreError
from rag_assets.generations import generation_of
from rag_assets.reading.source import open_source
from rag_assets.scanning import scan
from rag_assets.storing.ledger import KnownDocument, known_documents, set_aside_documents, share_made_with
from rag_assets.storing.publishing import latest_publication, rows_by_document
from rag_assets.storing.spending import Spend, spend_of
from rag_assets.storing.stores import Store

STATUSES = ("indexed", "empty", "failed", "pending")


@dataclass(frozen=True)
class CorpusStatus:
    """One corpus now.

    `documents` counts by status; `pending` counts new and changed files as well. `coverage` is the share of the chunks of
    indexed documents that readers can find (1.0 where there is none). `lag_seconds` is the age of the oldest change that
    readers cannot find yet, 0.0 where there is none. `generation_progress` is the share of the known documents that are
    made with the configured `generation`. `rolled_back_to` is the version that a person went back to.
    `problem` says why the source could not be listed, or the index not be read. `spent` is what
    the corpus has cost in embeddings so far.
    """

    corpus: str
    documents: Mapping[str, int]
    chunks: int
    vectors: int
    index_version: int | None
    generation: str
    published_generation: str | None
    generation_progress: float
    published_at: datetime | None
    rolled_back_to: int | None
    fragments: int
    lag_seconds: float
    coverage: float
    set_aside: Sequence[KnownDocument]
    withheld: str | None
    problem: str | None
    known: Mapping[str, KnownDocument]
    spent: Spend


def status_of(store: Store, corpus: CorpusSettings) -> CorpusStatus:
    """Look at the tables and the source of `corpus`. An unreachable source is told in `problem`, not raised."""
    generation = generation_of(corpus)
    pending: Sequence[str] = ()
    withheld = problem = None
    lag = 0.0
    try:
        found = scan(store, corpus, open_source(corpus))
        pending, withheld = found.pending, found.withheld
        changed_ns = [found.entries[name].modified_ns for name in pending]
        now = datetime.now(UTC).timestamp()
        lag = max([0.0, *(now - modified_ns / 1e9 for modified_ns in changed_ns if modified_ns is not None)])
    except SourceError as error:
        problem = str(error)
    known = known_documents(store.documents(corpus.name))
    waiting = {*pending, *(name for name, document in known.items() if document.status == "pending")}
    counts: Counter[str] = Counter(document.status for name, document in known.items() if name not in waiting)
    counts["pending"] = len(waiting)
    published = latest_publication(store, corpus.name)
    fragments = 0
    rows_of: Mapping[str, int] = {}
    if published and published.table_version:
        table = store.index(corpus.name, published.generation, dimensions=1)
        try:
            fragments = len(table.open(published.table_version).get_fragments())
            rows_of = rows_by_document(table, version=published.table_version)
        except StoreError as error:
            problem = str(error)
    expected = {name: document.chunks or 0 for name, document in known.items() if document.status == "indexed"}
    covered = sum(min(rows_of.get(name, 0), chunks) for name, chunks in expected.items())
    return CorpusStatus(
        corpus=corpus.name,
        documents={status: counts[status] for status in STATUSES},
        chunks=published.chunks if published else 0,
        vectors=store.vectors(generation.embedding).count(),
        index_version=published.version if published else None,
        generation=generation.id,
        published_generation=published.generation if published else None,
        generation_progress=share_made_with(known, generation.id),
        published_at=published.published_at if published else None,
        rolled_back_to=published.changes.get("rolled_back_to") if published else None,
        fragments=fragments,
        lag_seconds=round(lag, 3),
        coverage=round(covered / sum(expected.values()), 6) if any(expected.values()) else 1.0,
        set_aside=set_aside_documents(known),
        withheld=withheld,
        problem=problem,
        known=known,
        spent=spend_of(store, corpus.name),
    )
