"""Publishing: the moment at which readers see what was indexed.

A publication is a row that names a generation, the version of its table and the model that made it; the row with the
highest version is the pointer. It is added last, after the batch was verified and the search indices were brought up to
date, so a reader never meets a half-written index. Each published table version is tagged, and clean-up keeps it.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import tenacity
from pydantic import TypeAdapter

from rag_assets.config import CorpusSettings, EmbeddingSettings
from rag_assets.embedding.providers import embedding_identity
from rag_assets.errors import QuestionError, StoreError
from rag_assets.generations import Generation, generation_of
from rag_assets.monitoring.events import event
from rag_assets.records import PUBLICATIONS
from rag_assets.storing.comparing import Changes, Place, compare_versions
from rag_assets.storing.evaluations import evaluations, held_candidate
from rag_assets.storing.ledger import Standings, standings
from rag_assets.storing.retention import clean_up, hold, let_go, release, tagged_publications
from rag_assets.storing.search_indices import IndexHealth, keep_search_indices
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table

# At 50 fragments a query costs about three times as much as at one.
_FRAGMENTS = 20
# To look for versions that can go takes a millisecond for each that is there, so it is done once in so many commits.
_COMMITS_BETWEEN_CLEAN_UPS = 8
# So often a publisher that was overtaken looks again.
_MOVES = 8
_T = TypeVar("_T")
_EMBEDDING: TypeAdapter[EmbeddingSettings] = TypeAdapter(EmbeddingSettings)


@dataclass(frozen=True)
class Publication:
    """One published version: `version` counts from 1 within a corpus, `table_version` is Lance's. A `table_version` of 0
    means that no document has any text yet. `changes` counts the documents that were `added`, `changed` and `removed`
    since the version before, as readers see them."""

    version: int
    generation: str
    table_version: int
    published_at: datetime
    run_id: str
    documents: int
    chunks: int
    embedding: EmbeddingSettings
    action: Literal["publish", "rollback"] = "publish"
    changes: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_rollback(self) -> bool:
        """Whether a person went back to an older version: it stays until a person ingests again."""
        return self.action == "rollback"


@dataclass(frozen=True)
class PublishReport:
    """What publishing did. `waiting` says why readers keep the version that they have: a new generation is incomplete, a
    person rolled back, or the new version was not approved. `changes` names the documents that readers see come, change and
    go; None where nothing moved, or the version before is lost."""

    published: Publication | None
    moved: bool
    waiting: str | None
    health: IndexHealth
    changes: Changes | None = None


Approve = Callable[[Publication, Publication], str | None]
"""Asked with what readers see, and what they would see next. A sentence that it returns keeps the latter from them."""


def latest_publication(store: Store, corpus: str) -> Publication | None:
    """What readers of `corpus` see now, None before the first publication."""
    rows = store.publications(corpus).read()
    if rows.num_rows == 0:
        return None
    return _publication(rows.take(pc.sort_indices(rows, [("version", "descending")])[:1]).to_pylist()[0])


def publications(store: Store, corpus: str) -> list[Publication]:
    """Every version that was ever published of `corpus`, the newest first. Not all of them are still kept."""
    rows = store.publications(corpus).read()
    return [_publication(row) for row in rows.sort_by([("version", "descending")]).to_pylist()]


def _publication(row: Mapping[str, Any]) -> Publication:
    columns = ("version", "generation", "table_version", "published_at", "run_id", "documents", "chunks", "action")
    return Publication(
        **{name: row[name] for name in columns},
        embedding=_EMBEDDING.validate_json(row["embedding"]),
        changes=json.loads(row["summary"] or "{}"),
    )


def publish(
    store: Store, corpus: CorpusSettings, *, run_id: str, resume: bool = True, approve: Approve | None = None
) -> PublishReport:
    """Verify what was indexed, bring its search indices up to date and move the pointer to it.

    Does nothing when nothing changed. While a new generation does not cover every document, readers keep the old one; so
    they do after a rollback, unless `resume` says that a person wants to go on, and where `approve` says no.
    Raises `StoreError`, and leaves the pointer where it is, when the index disagrees with what is known of the documents.
    """
    with store.lock(publish_lock(corpus.name)):
        return _unless_overtaken(lambda: _publish(store, corpus, run_id=run_id, resume=resume, approve=approve))


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
    store: Store,
    corpus: CorpusSettings,
    *,
    known: Standings | None = None,
    resume: bool = False,
    beside_pending: bool = False,
) -> bool:
    """Whether the index holds something that readers do not see, though nothing holds it up: a run died in between, or,
    with `resume`, a person rolled back or an evaluation held it.

    A document that is pending holds it up, because the run that makes it publishes; not with `beside_pending`, for who
    knows that no run is to make one: it may be out of reach for days. `known` spares a look into the documents table to who
    has just read it.
    """
    generation = generation_of(corpus)
    if known is None:
        known = standings(store.documents(corpus.name))
    before = latest_publication(store, corpus.name)
    if (not known and before is None) or (before is not None and before.is_rollback and not resume):
        return False
    pending = any(document.status == "pending" for document in known.values())
    if (pending and not beside_pending) or _waiting(known, before, generation):
        return False
    table = _index_table(store, corpus.name, generation)
    if before is None:
        indexed = (one.status == "indexed" and one.generation == generation.id for one in known.values())
        return not pending or any(indexed)
    if not resume and held_back(store, corpus):
        return False
    return not _is_current(before, generation.id, table)


def held_back(store: Store, corpus: CorpusSettings) -> str | None:
    """Why an evaluation keeps the latest rows of `corpus` from readers, or None. Once nothing is to block, none does."""
    if corpus.evaluation is None or not corpus.evaluation.block:
        return None
    generation = generation_of(corpus)
    table = _index_table(store, corpus.name, generation)
    return held_candidate(store, corpus.name, generation.id, int(table.open().version)) if table else None


def still_held(store: Store, corpus: CorpusSettings) -> Approve:
    """For who publishes without evaluating: what the last evaluation held stays held, also where its rows were moved."""

    def approve(before: Publication, _: Publication) -> str | None:
        blocks = corpus.evaluation is not None and corpus.evaluation.block
        last = next(iter(evaluations(store, corpus.name)), None) if blocks else None
        return last.held if last and last.index_version > before.version else None

    return approve


def _is_current(before: Publication, generation: str, table: Table | None) -> bool:
    """Whether `before` names the latest rows. Its tag tells them from those of a table that was lost, made again, and has
    come to the same version."""
    version = int(table.open().version) if table else 0
    if (before.generation, before.table_version) != (generation, version):
        return False
    return table is None or tagged_publications(table).get(before.version, (0, None))[0] == version


def _publish(
    store: Store, corpus: CorpusSettings, *, run_id: str, resume: bool, approve: Approve | None
) -> PublishReport:
    generation = generation_of(corpus)
    known = standings(store.documents(corpus.name))
    before = latest_publication(store, corpus.name)
    table = _index_table(store, corpus.name, generation)
    if table and before and before.generation != generation.id:
        _forget_removed(table, known)
    rows_of = verify(corpus.name, known, table, generation=generation.id)
    if table:
        table.compact(more_than_fragments=_FRAGMENTS)
    health = keep_search_indices(table) if table else IndexHealth(0, 0)
    if before and before.is_rollback and not resume:
        held = f"a person rolled back; readers keep version {before.version} until: rag-assets ingest {corpus.name}"
        return PublishReport(published=before, moved=False, waiting=held, health=health)
    waiting = _waiting(known, before, generation)
    if waiting and before:
        after, changes = _publish_removals(store, corpus.name, before, run_id=run_id)
        return PublishReport(after, moved=after is not before, waiting=waiting, health=health, changes=changes)
    if before and _is_current(before, generation.id, table):
        return PublishReport(published=before, moved=False, waiting=None, health=health)
    publication = Publication(
        version=before.version + 1 if before else max(tagged_publications(table) if table else [], default=0) + 1,
        generation=generation.id,
        table_version=int(table.open().version) if table else 0,
        published_at=datetime.now(UTC),
        run_id=run_id,
        documents=len(rows_of),
        chunks=sum(rows_of.values()),
        embedding=corpus.embedding,
    )
    changes = _changes(store, corpus.name, before, publication)
    publication = replace(publication, changes=_count(changes))
    if before and approve and (refused := approve(before, publication)):
        return PublishReport(published=before, moved=False, waiting=refused, health=health)
    _point_at(store, corpus.name, before, publication, table)
    _tidy(store, corpus, before, publication)
    return PublishReport(published=publication, moved=True, waiting=None, health=health, changes=changes)


def _publish_removals(
    store: Store, corpus: str, before: Publication, *, run_id: str
) -> tuple[Publication, Changes | None]:
    """While a new generation is built, nothing is added to the old one that readers see; what was removed from it must
    leave their sight all the same."""
    if before.table_version == 0:
        return before, None
    table = store.index(corpus, before.generation, dimensions=1)
    if _is_current(before, before.generation, table):
        return before, None
    rows_of = rows_by_document(table)
    after = replace(
        before,
        version=before.version + 1,
        table_version=int(table.open().version),
        published_at=datetime.now(UTC),
        run_id=run_id,
        documents=len(rows_of),
        chunks=sum(rows_of.values()),
        action="publish",
    )
    changes = _changes(store, corpus, before, after)
    after = replace(after, changes=_count(changes))
    _point_at(store, corpus, before, after, table)
    return after, changes


def _changes(store: Store, corpus: str, before: Publication | None, after: Publication) -> Changes | None:
    """What became of the documents; None where the version before is lost."""
    try:
        return changes_between(store, corpus, before, after)
    except StoreError:
        return None


def _count(found: Changes | None) -> Mapping[str, int]:
    if found is None:
        return {}
    return {"added": len(found.added), "changed": len(found.changed), "removed": len(found.removed)}


def rows_by_document(table: Table, *, version: int | None = None) -> dict[str, int]:
    """How many rows each document has in an index table, at its latest or the given version."""
    counts = pc.value_counts(table.read(["document"], version=version)["document"])
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def documents_without_rows(store: Store, corpus: str, generation: Generation, known: Standings) -> set[str]:
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


def verify(corpus: str, known: Standings, table: Table | None, *, generation: str) -> dict[str, int]:
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


def _forget_removed(table: Table, known: Standings) -> None:
    """Documents that were removed while another generation was in force left their rows in this one."""
    table.replace([name for name in rows_by_document(table) if name not in known], table.schema.empty_table())


def _index_table(store: Store, corpus: str, generation: Generation) -> Table | None:
    dimensions = store.vectors(generation.embedding).dimensions()
    if dimensions is None:
        return None
    table = store.index(corpus, generation.id, dimensions=dimensions)
    return table if table.exists() else None


def _waiting(known: Standings, before: Publication | None, generation: Generation) -> str | None:
    """Why a new generation cannot take over yet, or None. Documents that were set aside do not hold it up."""
    if before is None or before.generation == generation.id:
        return None
    missing = sum(document.status == "pending" or document.generation != generation.id for document in known.values())
    if not missing:
        return None
    return (
        f"generation {generation.id} lacks {missing} of {len(known)} documents; readers keep version {before.version}"
    )


def rollback(store: Store, corpus: str, version: int | None = None) -> Publication:
    """Point readers at an older version again, as a new publication: by default the last one that differs from what they
    see. It stays until a person ingests again.

    Raises `QuestionError` when there is no such version, or its rows are not kept any more.
    """
    with store.lock(publish_lock(corpus)):
        return _unless_overtaken(lambda: _roll_back(store, corpus, version))


def _roll_back(store: Store, corpus: str, version: int | None) -> Publication:
    found = publications(store, corpus)
    if not found:
        raise QuestionError(f"corpus {corpus} has no published index yet; run: rag-assets ingest {corpus}")
    now = found[0]
    target = _target(store, corpus, found, version)
    shown = target.changes.get("rolled_back_to", target.version)
    after = replace(
        target,
        version=now.version + 1,
        published_at=datetime.now(UTC),
        run_id=target.run_id,
        action="rollback",
        changes={**_count(_changes(store, corpus, now, target)), "rolled_back_to": shown},
    )
    table = store.index(corpus, target.generation, dimensions=1) if target.table_version else None
    _point_at(store, corpus, now, after, table)
    return after


def _target(store: Store, corpus: str, found: Sequence[Publication], version: int | None) -> Publication:
    if version is not None:
        return find_kept(store, corpus, version)
    now, kept = found[0], kept_versions(store, corpus, found)
    shown = now.changes.get("rolled_back_to", now.version)
    seen = (now.generation, now.table_version)
    older = [
        one
        for one in found
        if one.version < shown and one.version in kept and (one.generation, one.table_version) != seen
    ]
    if not older:
        raise QuestionError(
            f"corpus {corpus} has no older version to go back to; rag-assets versions {corpus} lists them"
        )
    return older[0]


def find_kept(store: Store, corpus: str, version: int) -> Publication:
    """The publication of this number. Raises `QuestionError` where there is none, or its rows are not kept any more."""
    found = publications(store, corpus)
    one = next((one for one in found if one.version == version), None)
    if one is None:
        raise QuestionError(f"corpus {corpus} has no version {version}; rag-assets versions {corpus} lists them")
    if version not in kept_versions(store, corpus, found):
        raise QuestionError(
            f"the rows of version {version} of corpus {corpus} are not kept any more; rag-assets versions {corpus} lists"
            " those that are"
        )
    return one


def kept_versions(store: Store, corpus: str, found: Sequence[Publication]) -> set[int]:
    """Those of the publications `found` whose rows are still there: readers may be pointed at them again."""
    held: dict[str, Collection[int]] = {}
    for generation in {one.generation for one in found if one.table_version}:
        table = store.index(corpus, generation, dimensions=1)
        held[generation] = tagged_publications(table) if table.exists() else ()
    return {one.version for one in found if not one.table_version or one.version in held.get(one.generation, ())}


def changes_between(store: Store, corpus: str, before: Publication | None, after: Publication) -> Changes:
    """Which documents came, changed and went from one version to another. Raises `StoreError` where one is not kept."""
    return compare_versions(_place(store, corpus, before), _place(store, corpus, after))


def _place(store: Store, corpus: str, publication: Publication | None) -> Place | None:
    if publication is None or not publication.table_version:
        return None
    return store.index(corpus, publication.generation, dimensions=1), publication.table_version


class _OvertakenError(Exception):
    """Another publisher moved the pointer since we read it."""


def _unless_overtaken(move: Callable[[], _T]) -> _T:
    """What `move` returns, which looks again after another publisher was faster: the lock of an object store is lost by who
    is silent for too long."""
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_OvertakenError), stop=tenacity.stop_after_attempt(_MOVES), reraise=True
    )
    try:
        return attempts(move)
    except _OvertakenError as error:
        raise StoreError(f"{error}; run it again") from None


def _point_at(
    store: Store, corpus: str, before: Publication | None, publication: Publication, table: Table | None
) -> None:
    """Make `publication` what readers see, where that is `before` until now. Raises `_OvertakenError` where it is not."""
    if table:
        hold(table, publication.version, publication.table_version)
    pointer = store.publications(corpus)
    newest = before.version if before else 0
    if not pointer.append_next(publication_row(publication), column="version", greatest=newest):
        if table:
            _give_way(store, corpus, publication, table)
        raise _OvertakenError(f"corpus {corpus}: another process published version {newest + 1} first, {_MOVES} times")
    if table:
        # Who was overtaken may have held another version of the table under our number.
        hold(table, publication.version, publication.table_version)
    told = ("run_id", "version", "generation", "documents", "chunks", "action")
    fields = {name: getattr(publication, name) for name in told} | dict(publication.changes)
    event("index_published", f"{corpus}: readers see version {publication.version}", {"corpus": corpus, **fields})


def _give_way(store: Store, corpus: str, overtaken: Publication, table: Table) -> None:
    """Leave the tag of a number to who has published it: it may hold the rows of who was `overtaken`."""
    winner = next((one for one in publications(store, corpus) if one.version == overtaken.version), None)
    if winner is None:
        return
    if (winner.generation, winner.table_version > 0) == (overtaken.generation, True):
        hold(table, winner.version, winner.table_version)
    else:
        let_go(table, overtaken.version)


def publication_row(publication: Publication) -> pa.Table:
    """`publication` as the one row of the table `publications` that names it."""
    values = asdict(publication) | {
        "embedding": publication.embedding.model_dump_json(),
        "summary": json.dumps(publication.changes),
    }
    return pa.Table.from_pylist([values], schema=PUBLICATIONS)


def _tidy(store: Store, corpus: CorpusSettings, before: Publication | None, after: Publication) -> None:
    """Forget the versions that are not kept any more, and keep the tables behind the index in few fragments. What only now
    and then is needed is left to maintenance."""
    now = datetime.now(UTC)
    release(store, corpus.name, corpus.retention, now=now)
    of_corpus = (store.documents(corpus.name), store.chunks(corpus.name), store.publications(corpus.name))
    behind = [table for table in (*of_corpus, store.answers(), store.spend()) if table.exists()]
    for table in behind:
        table.compact(more_than_fragments=_FRAGMENTS)
    store.vectors(generation_of(corpus).embedding).compact()
    places = [(one.generation, one.table_version // _COMMITS_BETWEEN_CLEAN_UPS) for one in (before, after) if one]
    if len(set(places)) < len(places):
        return
    if after.table_version:
        clean_up(store, corpus.name, after.generation, now=now)
    for table in behind:
        table.clean_up()
