"""What is wrong with the tables, and what mends it: the findings of `rag-assets doctor`.

Looking changes nothing; `mending.py` mends. What belongs to a Dagster instance is in `defs/doctoring.py`.
"""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.config import CorpusSettings, Settings
from rag_assets.embedding.ray_workers import why_unreachable
from rag_assets.errors import SourceError, StoreError
from rag_assets.generations import generation_of
from rag_assets.ingesting import IngestResult
from rag_assets.materializing.embedded_texts import COLUMNS
from rag_assets.purging import left_over
from rag_assets.reading.source import Listing, open_source
from rag_assets.scanning import gone_from, why_withheld
from rag_assets.storing.agreeing import ROW_COLUMNS, disagreements, expected_rows, other_chunks, without_document
from rag_assets.storing.examining import why_unreadable, why_unsearchable
from rag_assets.storing.ledger import Standings, standings
from rag_assets.storing.objects import require_safe_commits
from rag_assets.storing.publishing import (
    Publication,
    latest_publication,
    publication_is_due,
    publications,
    publish_lock,
)
from rag_assets.storing.restoring import lost_publications, stored_keys, vector_keys
from rag_assets.storing.retention import tagged_publications
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table
from rag_assets.wording import have

Kind = Literal[
    "home_not_writable",
    "corpus_not_configured",
    "source_unreachable",
    "cluster_unreachable",
    "table_damaged",
    "search_index_damaged",
    "documents_lost",
    "chunks_lost",
    "index_lost",
    "vectors_lost",
    "rows_disagree",
    "pointer_lost",
    "pointer_wrong",
    "not_published",
    "partitions_lost",
    "partitions_left_over",
    "partitions_misplaced",
]

# The part of a home that a loss concerns, and what becomes of it.
_LOSSES = {
    "documents": "it is made again from the source",
    "chunks": "it is made again from the documents",
    "index": "it is made again from the chunks and the stored vectors",
    "publications": "it is made again from the tags of the index",
    "vectors": "what cannot be read is copied from the index",
    "answers": "what cannot be read only a backup has",
    "spend": "what cannot be read only a backup has",
    "evaluations": "what cannot be read only a backup has",
    "health": "what cannot be read only a backup has",
}
SALVAGED = ("vectors", "answers", "spend", "evaluations", "health")
"""Tables of which every row that can be read is kept: it was paid for, or is made once."""

_NAMED = 3


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: `what` is a sentence, `remedy` a command or what a person has to do, `fixable` whether
    `rag-assets doctor --fix` mends it. `documents` are to be made again; `name` and `table` are of the table that is
    damaged."""

    kind: Kind
    corpus: str | None
    what: str
    remedy: str
    fixable: bool = True
    documents: Sequence[str] = ()
    name: str | None = None
    table: Table | None = None


@dataclass(frozen=True)
class Repair:
    """`seen` was found before or while mending, `left` is what remains, `ingested` the ingest at the end, if any.
    `ended_rollback` is the version that a person had gone back to, and that the ingest left."""

    seen: Sequence[Finding]
    left: Sequence[Finding]
    ingested: IngestResult | None = None
    ended_rollback: int | None = None


def fix_command(corpus: str | None) -> str:
    """The command that mends `corpus`, or everything."""
    return f"rag-assets doctor {corpus} --fix" if corpus else "rag-assets doctor --fix"


def diagnose_home(store: Store, settings: Settings) -> list[Finding]:
    """What is wrong with the home and with the tables that belong to no corpus, and what is left of corpora.

    A home that cannot be written to is the only finding: nothing else can be looked at.
    """
    problem = why_not_writable(store)
    if problem:
        what = f"{store.home} cannot be written to: {problem}"
        remedy = "correct its permissions, free space, or name another folder with RAG_ASSETS_HOME"
        if store.objects is not None:
            what, remedy = problem, "see the message"
        return [Finding("home_not_writable", None, what, remedy, fixable=False)]
    found = [*_damage(store, None, "answers", store.answers()), *_damage(store, None, "spend", store.spend())]
    for corpus in left_over(store, settings.corpora):
        what = f"tables of corpus {corpus} are kept, and {settings.path.name} names no such corpus"
        remedy = f"rag-assets purge {corpus}, or name it again"
        found.append(Finding("corpus_not_configured", corpus, what, remedy, fixable=False))
    return found


def why_not_writable(store: Store) -> str | None:
    """Why nothing can be written to the home, or None."""
    if store.objects is not None:
        try:
            require_safe_commits(store.objects)
        except StoreError as error:
            return str(error)
        return None
    home = Path(store.home)
    if not home.exists():
        return None
    try:
        with tempfile.TemporaryFile(dir=home):
            return None
    except OSError as error:
        return error.strerror


def diagnose(store: Store, corpus: CorpusSettings) -> list[Finding]:
    """What is wrong with the source and the tables of `corpus`.

    Every row is read. What a damaged table would tell is not compared with the others.
    """
    found = []
    listing: Listing | None = None
    try:
        listing = open_source(corpus).list()
    except SourceError as error:
        found.append(Finding("source_unreachable", corpus.name, str(error), "see the message", fixable=False))
    if (asked := corpus.embedding.ray) and (problem := why_unreachable(asked.address)):
        found.append(Finding("cluster_unreachable", corpus.name, problem, "see the message", fixable=False))
    if store.objects is None and not Path(store.home).exists():
        return found
    with store.lock(publish_lock(corpus.name)):
        damaged = _damaged_tables(store, corpus)
        return found + damaged + _compare(store, corpus, {one.name for one in damaged}, listing)


def diagnose_dagster_home(home: Path, store: Store, corpus: CorpusSettings) -> list[Finding]:
    """Whether there is a Dagster instance in `home`, where documents of `corpus` are known."""
    known = store.documents(corpus.name).read(["document"]).num_rows
    if not known or has_dagster_instance(home):
        return []
    what = f"there is no Dagster instance in {home}, and {have(known, 'document')} no partition"
    return [Finding("partitions_lost", corpus.name, what, fix_command(corpus.name))]


def has_dagster_instance(home: Path) -> bool:
    """Whether `home` has settings of a Dagster instance, or what one has stored."""
    return any((home / name).exists() for name in ("dagster.yaml", "storage", "history"))


def _damaged_tables(store: Store, corpus: CorpusSettings) -> list[Finding]:
    name, generation = corpus.name, generation_of(corpus)
    tables = {
        "documents": store.documents(name),
        "chunks": store.chunks(name),
        "index": store.index(name, generation.id, dimensions=1),
        "publications": store.publications(name),
        "vectors": Table(store.vectors(generation.embedding).uri, pa.schema([])),
        "evaluations": store.evaluations(name),
        "health": store.health(name),
    }
    found = [one for title, table in tables.items() for one in _damage(store, name, title, table)]
    if any(one.name in ("index", "publications") for one in found):
        return found
    try:
        latest = latest_publication(store, name)
        publications(store, name)
    except ValueError as error:  # of JSON, or of settings that pydantic does not take
        return [*found, _damaged(store, name, "publications", tables["publications"], str(error).splitlines()[0])]
    if latest and latest.table_version:
        table = store.index(name, latest.generation, dimensions=1)
        if table.exists() and _has_version(table, latest.table_version):
            found += _damage(store, name, "index", table, version=latest.table_version)
    return found


def _damage(store: Store, corpus: str | None, name: str, table: Table, version: int | None = None) -> Iterator[Finding]:
    problem = why_unreadable(table, version=version)
    if problem:
        yield _damaged(store, corpus, name, table, problem)


def _damaged(store: Store, corpus: str | None, name: str, table: Table, problem: str) -> Finding:
    local = store.objects is None
    return Finding(
        "table_damaged",
        corpus,
        f"table {name} cannot be read ({problem}); {_LOSSES[name]}",
        fix_command(corpus) if local else f"move {table.uri} away with a tool of its store, then {fix_command(corpus)}",
        fixable=local,
        name=name,
        table=table,
    )


def _has_version(table: Table, version: int) -> bool:
    return version in {one["version"] for one in table.open().versions()}


def _compare(
    store: Store, corpus: CorpusSettings, damaged: Collection[str | None], listing: Listing | None
) -> list[Finding]:
    """What is wrong between the tables that can be read. All are compared with the documents, by way of the pointer; chunks,
    vectors and what was measured may be among the `damaged`. `listing` is None where the source cannot be listed."""
    if not {"chunks", "vectors", "evaluations", "health"}.issuperset(damaged):
        return []
    name, generation = corpus.name, generation_of(corpus)
    index = store.index(name, generation.id, dimensions=1)
    columns = ["document", "text_hash", "status", "generation", "chunks"]
    expected = expected_rows(store.documents(name).read(columns), generation.id)
    rows = index.read(list(ROW_COLUMNS)).combine_chunks()
    latest = latest_publication(store, name)
    found = _look_at_documents(name, expected, rows, latest, generation.id)
    if any(one.kind == "documents_lost" for one in found):
        return found  # what else is known of documents, such as their titles, comes back with them
    if "chunks" in damaged:
        found += _look_at_rows(name, "index", expected, rows)
    else:
        cut = store.chunks(name).read(list(ROW_COLUMNS)).combine_chunks()
        found += [
            *_disagreeing(name, "rows in chunks and none in documents", without_document(expected, cut), again=False),
            *_look_at_rows(name, "chunks", expected, cut),
            *_look_at_rows(name, "index", expected, rows),
        ]
        if not found:
            found += _disagreeing(name, "other chunks in the index than in chunks", other_chunks(expected, cut, rows))
    if not damaged:
        found += _look_at_vectors(store, corpus, expected)
    if rows.num_rows:
        problem = why_unsearchable(index)
        what = f"a search index cannot be read ({problem}); it is made again from the rows"
        found += [Finding("search_index_damaged", name, what, fix_command(name))] if problem else []
    found += _look_at_pointer(store, corpus, latest)
    if not found and not damaged and is_left_unpublished(store, corpus, standings(store.documents(name)), listing):
        what = "the index holds something that readers do not see"
        found.append(Finding("not_published", name, what, f"rag-assets ingest {name}"))
    return found


def is_left_unpublished(store: Store, corpus: CorpusSettings, known: Standings, listing: Listing | None) -> bool:
    """Whether a publication is due, and no run is that makes or removes a pending document, and publishes with it. No run
    does so for one that is refused, or whose deletion is withheld; nor for any while there is no `listing`."""
    reached: set[str] = set()
    pending = {name for name, document in known.items() if document.status == "pending"}
    if listing is not None and pending:
        gone = gone_from(listing, known)
        reached = {name for name in pending if name in listing.entries}
        if why_withheld(listing, gone, known.keys(), corpus.max_share_deleted) is None:
            reached |= pending.intersection(gone)
    return publication_is_due(store, corpus, known=known, beside_pending=not reached)


def _look_at_documents(
    corpus: str, expected: pa.Table, rows: pa.Table, latest: Publication | None, generation: str
) -> list[Finding]:
    """Documents that were removed while another generation was in force leave rows in this one, which is no fault."""
    orphans = without_document(expected, rows)
    if expected.num_rows == 0 and (orphans or (latest and latest.documents)):
        count = len(orphans) or (latest.documents if latest else 0)
        what = f"table documents is gone, and {count:,} documents were indexed; it is made again from the source"
        return [Finding("documents_lost", corpus, what, fix_command(corpus))]
    if latest is None or latest.generation == generation:
        return _disagreeing(corpus, "rows in the index and none in documents", orphans, again=False)
    return []


def _look_at_rows(corpus: str, table: Literal["chunks", "index"], expected: pa.Table, rows: pa.Table) -> list[Finding]:
    wrong = disagreements(expected, rows)
    lost = wrong.get("no rows", ())
    if rows.num_rows == 0 and lost:
        what = f"table {table} is gone, and {len(lost):,} documents have chunks; {_LOSSES[table]}"
        kind: Kind = "chunks_lost" if table == "chunks" else "index_lost"
        return [Finding(kind, corpus, what, fix_command(corpus), documents=lost)]
    return [
        one
        for reason, names in wrong.items()
        for one in _disagreeing(corpus, f"{reason} in {'the index' if table == 'index' else table}", names)
    ]


def _disagreeing(corpus: str, reason: str, names: Sequence[str], *, again: bool = True) -> list[Finding]:
    if not names:
        return []
    some = ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
    have = f"{len(names):,} documents have" if len(names) > 1 else "1 document has"
    documents = names if again else ()
    return [Finding("rows_disagree", corpus, f"{have} {reason}: {some}", fix_command(corpus), documents=documents)]


def _look_at_vectors(store: Store, corpus: CorpusSettings, expected: pa.Table) -> list[Finding]:
    """Texts of chunks of current documents, and of rows of the index, without a vector. Rows of the index hold a copy."""
    columns = list(COLUMNS) if corpus.embed_template is not None else ["document", "text_hash"]
    index = store.index(corpus.name, generation_of(corpus).id, dimensions=1)
    tables = [table.read(columns) for table in (store.chunks(corpus.name), index)]
    cut, rows = (
        one.append_column("key", vector_keys(store, corpus, one)).select(["document", "key"]) for one in tables
    )
    current = expected.filter(pc.is_valid(expected["expected"]))["document"].combine_chunks()
    needed = pa.concat_tables([cut.filter(pc.is_in(cut["document"], value_set=current)), rows])
    missing = needed.filter(pc.invert(pc.is_in(needed["key"], value_set=stored_keys(store, corpus))))
    if not missing.num_rows:
        return []
    lost = missing.filter(pc.invert(pc.is_in(missing["key"], value_set=rows["key"].combine_chunks())))
    total, unpaid = (len(pc.unique(one["key"])) for one in (missing, lost))
    copies = "the index has copies of them" if not unpaid else f"{unpaid:,} must be embedded again"
    what = f"{total:,} texts have no vector in the vector store; {copies}"
    documents = sorted(pc.unique(lost["document"]).to_pylist())
    return [Finding("vectors_lost", corpus.name, what, fix_command(corpus.name), documents=documents)]


def _look_at_pointer(store: Store, corpus: CorpusSettings, latest: Publication | None) -> list[Finding]:
    name, found = corpus.name, []
    lost = lost_publications(store, corpus)
    if lost:
        versions = ", ".join(map(str, lost))
        what = f"table publications lacks versions that the index keeps: {versions}; {_LOSSES['publications']}"
        found.append(Finding("pointer_lost", name, what, fix_command(name)))
    if latest and latest.table_version:
        table = store.index(name, latest.generation, dimensions=1)
        kept = tagged_publications(table).get(latest.version) if table.exists() else None
        if kept is None or kept[0] != latest.table_version:
            what = f"readers are pointed at version {latest.version}, whose rows are lost or may be cleaned up"
            found.append(Finding("pointer_wrong", name, what, fix_command(name)))
    return found
