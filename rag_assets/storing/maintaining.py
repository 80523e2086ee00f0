"""Maintenance of a corpus: what publishing does not do each time, because it is rarely needed or looks at everything.

Everything here may run beside readers and writers, may be cut short at any place, and is done again the next time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rag_assets.config import CorpusSettings
from rag_assets.errors import StoreError
from rag_assets.generations import generation_of
from rag_assets.storing.ledger import standings
from rag_assets.storing.listing import bytes_in
from rag_assets.storing.publishing import PublishReport, latest_publication, publish, publish_lock, still_held
from rag_assets.storing.retention import (
    clean_up,
    has_other_tags,
    published_versions,
    release,
    table_versions_in_use,
    versions_to_keep,
)
from rag_assets.storing.stores import Store
from rag_assets.storing.unneeded_vectors import ForgottenVectors, forget_unneeded_vectors, generations_in

_FRAGMENTS = 20
# Who tries another configuration and returns on the same day finds its rows as they were.
_ABANDONED_AFTER = timedelta(days=1)


@dataclass(frozen=True)
class MaintenanceReport:
    """What maintenance did. `bytes_…` are those of the tables of the corpus, `vector_bytes_…` those of the vectors of its
    model, which the fingerprint `embedding` names and other corpora may share; `rows` are those of the index. `published`
    is None where nothing may be published now, and `problem` says why the index was left as it is."""

    rows: int
    bytes_before: int
    bytes_after: int
    embedding: str
    vector_bytes_before: int
    vector_bytes_after: int
    versions_dropped: Sequence[int]
    generations_reclaimed: Sequence[str]
    vectors: ForgottenVectors
    published: PublishReport | None
    problem: str | None

    @property
    def figures(self) -> dict[str, Any]:
        """The report as JSON can hold it."""
        return {
            "rows": self.rows,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "embedding": self.embedding[:16],
            "vector_bytes_before": self.vector_bytes_before,
            "vector_bytes_after": self.vector_bytes_after,
            "versions_dropped": list(self.versions_dropped),
            "generations_reclaimed": list(self.generations_reclaimed),
            "vectors_deleted": self.vectors.deleted,
            "vectors_unneeded": self.vectors.unneeded,
            "vectors_kept_because": self.vectors.kept_because,
            "vector_index": self.published.health.vector_index if self.published else None,
            "problem": self.problem,
        }


def maintain(
    store: Store,
    corpora: Mapping[str, CorpusSettings],
    corpus: CorpusSettings,
    *,
    run_id: str,
    now: datetime | None = None,
) -> MaintenanceReport:
    """Bring the tables of `corpus`, one of the configured `corpora`, into the shape in which they take least room and are
    read fastest, and delete what nothing needs any more.

    An index that disagrees with the documents is left as it is and told; what readers see never changes.
    """
    now = now or datetime.now(UTC)
    embedding = generation_of(corpus).embedding
    of_corpus, of_vectors = store.corpus_uri(corpus.name), store.vectors(embedding).uri
    before, vectors_before = bytes_in(of_corpus), bytes_in(of_vectors)
    published = problem = None
    try:
        published = _publish(store, corpus, run_id=run_id)
    except StoreError as error:
        problem = str(error)
    with store.lock(publish_lock(corpus.name)):
        dropped = release(store, corpus.name, corpus.retention, now=now)
        reclaimed = _reclaim_generations(store, corpus, now=now)
        for generation in generations_in(store, corpus.name):
            clean_up(store, corpus.name, generation, now=now)
    behind = (store.documents, store.chunks, store.publications)
    for table in (*(of(corpus.name) for of in behind), store.answers(), store.spend()):
        if table.exists():
            table.compact(more_than_fragments=_FRAGMENTS)
            table.clean_up()
    vectors = forget_unneeded_vectors(store, corpora, embedding, now=now)
    store.vectors(embedding).maintain()
    return MaintenanceReport(
        rows=_rows(store, corpus),
        bytes_before=before,
        bytes_after=bytes_in(of_corpus),
        embedding=embedding,
        vector_bytes_before=vectors_before,
        vector_bytes_after=bytes_in(of_vectors),
        versions_dropped=sorted(dropped),
        generations_reclaimed=reclaimed,
        vectors=vectors,
        published=published,
        problem=problem,
    )


def _publish(store: Store, corpus: CorpusSettings, *, run_id: str) -> PublishReport | None:
    """Compact the index and bring its search indices up to date, as every publication does. Not while documents are on
    their way: the run that brings them publishes."""
    if latest_publication(store, corpus.name) is None:
        return None
    if any(one.status == "pending" for one in standings(store.documents(corpus.name)).values()):
        return None
    return publish(store, corpus, run_id=run_id, resume=False, approve=still_held(store, corpus))


def _reclaim_generations(store: Store, corpus: CorpusSettings, *, now: datetime) -> list[str]:
    """Delete the index tables that are neither configured, nor kept for a version, nor read, nor were written lately."""
    found = published_versions(store, corpus.name)
    kept = {one.generation for one in versions_to_keep(found, corpus.retention, now=now)}
    kept |= {generation_of(corpus).id, *table_versions_in_use(found, now=now)}
    reclaimed = []
    for generation in generations_in(store, corpus.name):
        table = store.index(corpus.name, generation, dimensions=1)
        if generation in kept or has_other_tags(table) or now - table.written_at() < _ABANDONED_AFTER:
            continue
        table.drop()
        reclaimed.append(generation)
    return reclaimed


def _rows(store: Store, corpus: CorpusSettings) -> int:
    published = latest_publication(store, corpus.name)
    return published.chunks if published else 0
