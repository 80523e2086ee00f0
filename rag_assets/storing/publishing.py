"""Publishing: the moment at which readers see what was indexed.

A publication is a row that names a generation, the version of its table and the model that made it; the row with the
highest version is the pointer. It is added last, after the batch was verified and the search indices were brought up to
date, so a reader never meets a half-written index. Each published table version is tagged, and clean-up keeps it.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from rag_assets.config import CorpusSettings, EmbeddingSettings
from rag_assets.embedding.providers import embedding_identity
from rag_assets.errors import StoreError
from rag_assets.generations import Generation, generation_of
from rag_assets.records import PUBLICATIONS
from rag_assets.storing.ledger import KnownDocument, known_documents
from rag_assets.storing.search_indices import IndexHealth, keep_search_indices
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table

# At 50 fragments a query costs about three times as much as at one.
_FRAGMENTS = 20
_KEEP_PUBLICATIONS = 10
_TAG = "published-"
# Readers of a publication are safe by its tag; this is for whoever opened the latest version and still reads.
_KEEP_VERSIONS_FOR = timedelta(minutes=10)
_EMBEDDING: TypeAdapter[EmbeddingSettings] = TypeAdapter(EmbeddingSettings)


@dataclass(frozen=True)
class Publication:
    """One published version: `version` counts from 1 within a corpus, `table_version` is Lance's. A `table_version` of 0
    means that no document has any text yet."""

    version: int
    generation: str
    table_version: int
    published_at: datetime
    run_id: str
    documents: int
    chunks: int
    embedding: EmbeddingSettings


@dataclass(frozen=True)
class PublishReport:
    """What publishing did. `published` is None, and `waiting` says why, while a new generation is incomplete."""

    published: Publication | None
    moved: bool
    waiting: str | None
    health: IndexHealth


def latest_publication(store: Store, corpus: str) -> Publication | None:
    """What readers of `corpus` see now, None before the first publication."""
    rows = store.publications(corpus).read()
    if rows.num_rows == 0:
        return None
    row = rows.take(pc.sort_indices(rows, [("version", "descending")])[:1]).to_pylist()[0]
    return Publication(
        version=row["version"],
        generation=row["generation"],
        table_version=row["table_version"],
        published_at=row["published_at"],
        run_id=row["run_id"],
        documents=row["documents"],
        chunks=row["chunks"],
        embedding=_EMBEDDING.validate_json(row["embedding"]),
    )


def publish(store: Store, corpus: CorpusSettings, *, run_id: str) -> PublishReport:
    """Verify what was indexed, bring its search indices up to date and move the pointer to it.

    Does nothing when nothing changed. While a new generation does not cover every document, readers keep the old one.
    Raises `StoreError`, and leaves the pointer where it is, when the index disagrees with what is known of the documents.
    """
    with store.lock(publish_lock(corpus.name)):
        return _publish(store, corpus, run_id=run_id)


def publish_lock(corpus: str) -> str:
    """The lock held while the index of `corpus` is published, and while its rows and what is known of its documents are
    changed together: a publication never looks in between."""
    return f"publish.{corpus}"


def embedding_for(corpus: CorpusSettings, publication: Publication) -> EmbeddingSettings:
    """The settings with which questions to `publication` are embedded: those in force where they make the same vectors
    (a server may have moved, a key been renamed since), else those that it was made with."""
    same = embedding_identity(corpus.embedding) == embedding_identity(publication.embedding)
    return corpus.embedding if same else publication.embedding


def publication_is_due(
    store: Store, corpus: CorpusSettings, *, known: Mapping[str, KnownDocument] | None = None
) -> bool:
    """Whether the index holds something that readers do not see, though nothing holds it up: a run died in between.

    `known` spares a look into the documents table to who has just read it.
    """
    generation = generation_of(corpus)
    if known is None:
        known = known_documents(store.documents(corpus.name))
    before = latest_publication(store, corpus.name)
    if not known and before is None:
        return False
    if any(document.status == "pending" for document in known.values()) or _waiting(known, before, generation):
        return False
    return before is None or not _is_current(before, generation.id, _index_table(store, corpus.name, generation))


def _is_current(before: Publication, generation: str, table: Table | None) -> bool:
    version = int(table.open().version) if table else 0
    return (before.generation, before.table_version) == (generation, version)


def _publish(store: Store, corpus: CorpusSettings, *, run_id: str) -> PublishReport:
    generation = generation_of(corpus)
    known = known_documents(store.documents(corpus.name))
    before = latest_publication(store, corpus.name)
    table = _index_table(store, corpus.name, generation)
    if table and before and before.generation != generation.id:
        _forget_removed(table, known)
    rows_of = verify(corpus.name, known, table, generation=generation.id)
    health = keep_search_indices(table) if table else IndexHealth(0, 0)
    waiting = _waiting(known, before, generation)
    if waiting and before:
        after = _publish_removals(store, corpus.name, before, run_id=run_id)
        return PublishReport(published=after, moved=after is not before, waiting=waiting, health=health)
    if table:
        table.compact(more_than_fragments=_FRAGMENTS, keep_versions_for=_KEEP_VERSIONS_FOR)
    if before and _is_current(before, generation.id, table):
        return PublishReport(published=before, moved=False, waiting=None, health=health)
    publication = Publication(
        version=before.version + 1 if before else 1,
        generation=generation.id,
        table_version=int(table.open().version) if table else 0,
        published_at=datetime.now(UTC),
        run_id=run_id,
        documents=len(rows_of),
        chunks=sum(rows_of.values()),
        embedding=corpus.embedding,
    )
    _point_at(store, corpus.name, publication, table)
    _tidy(store, corpus.name, generation)
    return PublishReport(published=publication, moved=True, waiting=None, health=health)


def _publish_removals(store: Store, corpus: str, before: Publication, *, run_id: str) -> Publication:
    """While a new generation is built, nothing is added to the old one that readers see; what was removed from it must
    leave their sight all the same."""
    if before.table_version == 0:
        return before
    table = store.index(corpus, before.generation, dimensions=1)
    if _is_current(before, before.generation, table):
        return before
    rows_of = rows_by_document(table)
    after = replace(
        before,
        version=before.version + 1,
        table_version=int(table.open().version),
        published_at=datetime.now(UTC),
        run_id=run_id,
        documents=len(rows_of),
        chunks=sum(rows_of.values()),
    )
    _point_at(store, corpus, after, table)
    return after


def rows_by_document(table: Table, *, version: int | None = None) -> dict[str, int]:
    """How many rows each document has in an index table, at its latest or the given version."""
    counts = pc.value_counts(table.read(["document"], version=version)["document"])
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def documents_without_rows(
    store: Store, corpus: str, generation: Generation, known: Mapping[str, KnownDocument]
) -> set[str]:
    """Documents that are noted as indexed and whose rows are not all in the index: its table was deleted or replaced."""
    expected = {
        name: document.chunks
        for name, document in known.items()
        if document.status == "indexed" and document.generation == generation.id and document.chunks
    }
    table = _index_table(store, corpus, generation) if expected else None
    if table is None:
        return set(expected)
    if int(table.open().count_rows()) == sum(expected.values()):
        return set()
    rows_of = rows_by_document(table)
    return {name for name, chunks in expected.items() if rows_of.get(name, 0) != chunks}


def verify(corpus: str, known: Mapping[str, KnownDocument], table: Table | None, *, generation: str) -> dict[str, int]:
    """Compare the rows of the index with what is known of the documents, and return how many rows each document has.

    Raises `StoreError` that names the documents whose rows are missing, superfluous or orphaned. Failed and pending
    documents may have their last good rows.
    """
    rows_of = rows_by_document(table) if table else {}
    wrong = []
    for name, document in known.items():
        if document.generation != generation or document.status not in ("indexed", "empty"):
            continue
        expected = (document.chunks or 0) if document.status == "indexed" else 0
        if rows_of.get(name, 0) != expected:
            wrong.append(f"{name} has {rows_of.get(name, 0)} rows and {expected} chunks")
    wrong += [f"{name} has {rows} rows and no document" for name, rows in rows_of.items() if name not in known]
    if wrong:
        raise StoreError(
            f"corpus {corpus}: the index disagrees with the documents, and what readers see was left as it was:"
            f" {'; '.join(sorted(wrong)[:10])}{' …' if len(wrong) > 10 else ''}. The next scan makes these documents again:"
            f" rag-assets ingest {corpus}"
        )
    return rows_of


def _forget_removed(table: Table, known: Mapping[str, KnownDocument]) -> None:
    """Documents that were removed while another generation was in force left their rows in this one."""
    table.replace([name for name in rows_by_document(table) if name not in known], table.schema.empty_table())


def _index_table(store: Store, corpus: str, generation: Generation) -> Table | None:
    dimensions = store.vectors(generation.embedding).dimensions()
    if dimensions is None:
        return None
    table = store.index(corpus, generation.id, dimensions=dimensions)
    return table if table.exists() else None


def _waiting(known: Mapping[str, KnownDocument], before: Publication | None, generation: Generation) -> str | None:
    """Why a new generation cannot take over yet, or None. Documents that were set aside do not hold it up."""
    if before is None or before.generation == generation.id:
        return None
    missing = sum(document.status == "pending" or document.generation != generation.id for document in known.values())
    if not missing:
        return None
    return (
        f"generation {generation.id} lacks {missing} of {len(known)} documents; readers keep version {before.version}"
    )


def _point_at(store: Store, corpus: str, publication: Publication, table: Table | None) -> None:
    if table:
        tags = table.open().tags
        name = _tag(publication.version)
        # A publisher that died between the tag and the row below leaves a tag of this name.
        place = tags.update if name in tags.list() else tags.create
        place(name, publication.table_version)
    values = asdict(publication) | {
        "action": "publish",
        "embedding": publication.embedding.model_dump_json(),
        "summary": json.dumps({}),
    }
    store.publications(corpus).append(pa.Table.from_pylist([values], schema=PUBLICATIONS))


def _tidy(store: Store, corpus: str, generation: Generation) -> None:
    """Forget the tags of old publications, and keep the tables behind the index in few fragments."""
    table = _index_table(store, corpus, generation)
    if table:
        tags = table.open().tags
        numbers = sorted(int(tag.removeprefix(_TAG)) for tag in tags.list() if tag.startswith(_TAG))
        for number in numbers[:-_KEEP_PUBLICATIONS]:
            with contextlib.suppress(ValueError, OSError):  # another publisher forgot it first
                tags.delete(_tag(number))
    for behind in (store.documents(corpus), store.chunks(corpus), store.publications(corpus), store.answers()):
        if behind.exists():
            behind.compact(more_than_fragments=_FRAGMENTS, keep_versions_for=_KEEP_VERSIONS_FOR)
    store.vectors(generation.embedding).compact()


def _tag(version: int) -> str:
    return f"{_TAG}{version:010d}"
