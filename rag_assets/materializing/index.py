"""Chunks and their vectors become the rows that readers search, all rows of the batch in one commit."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.config import CorpusSettings
from rag_assets.errors import StoreError
from rag_assets.generations import Generation, generation_of
from rag_assets.headings import with_headings
from rag_assets.labels import labels_of
from rag_assets.materializing.embedded_texts import embedded_texts
from rag_assets.materializing.reports import PREVIEW, StageReport, why_skipped
from rag_assets.records import CHUNKS, index_schema
from rag_assets.storing.ledger import KnownDocument, change, known_documents
from rag_assets.storing.publishing import latest_publication, publish_lock
from rag_assets.storing.stores import Store
from rag_assets.storing.vectors import VectorTable

_INDEX = index_schema(dimensions=1)


def index_documents(store: Store, corpus: CorpusSettings, documents: Sequence[str], *, run_id: str) -> StageReport:
    """Replace the index rows of those of `documents` that were not set aside, then note them as indexed. A document that
    somebody else read again meanwhile is left to them.

    Raises `StoreError` when the chunks are not those of the present text and configuration, or a vector is missing.
    """
    ledger = store.documents(corpus.name)
    generation = generation_of(corpus)
    known = known_documents(ledger, documents)
    good = [name for name in documents if name in known and known[name].status != "failed"]
    chunks = store.chunks(corpus.name).read_where_in("document", good)
    counts = _count(chunks)
    _refuse_stale(corpus.name, chunks, known, generation)
    _refuse_uncut(store, corpus.name, [name for name in good if name not in counts])
    rows = _with_vectors(store, corpus, chunks, store.vectors(generation.embedding)) if chunks.num_rows else None
    if rows is not None:
        rows = _with_document_columns(rows, store, corpus.name, good)
    changes: dict[str, dict[str, object]] = {}
    tokens = _sum_tokens(chunks)
    for name in good:
        changes[name] = {
            "status": "indexed" if counts.get(name) else "empty",
            "stage": None,
            "reason": None,
            "retryable": None,
            "attempts": 0,
            "attempted_at": None,
            "generation": generation.id,
            "chunks": counts.get(name, 0),
            "tokens": tokens.get(name, 0),
            "run_id": run_id,
        }
    with store.lock(publish_lock(corpus.name)):
        now = datetime.now(UTC)  # a publication that this waited for is older than these rows
        overtaken = _overtaken(store, corpus.name, known, good)
        good = [name for name in good if name not in overtaken]
        if overtaken and rows is not None:
            rows = rows.filter(pc.is_in(rows["document"], value_set=pa.array(good, pa.string())))
        _replace(store, corpus.name, generation, good, rows)
        # Somebody may read a document again between that look and this note, which must not count the new text as indexed.
        noted = {name: changes[name] | {"indexed_at": now} for name in good}
        change(ledger, noted, of_bytes={name: known[name].byte_hash for name in good})
    figures = _figures(known, {name: changes[name] for name in good}, rows)
    skipped = {name: why_skipped(known.get(name)) for name in sorted(set(documents) - set(good))}
    return StageReport(documents=figures, skipped=skipped)


def _figures(
    known: Mapping[str, KnownDocument], indexed: Mapping[str, Mapping[str, object]], rows: pa.Table | None
) -> dict[str, dict[str, object]]:
    """All that is told of each document that was indexed: what it is, what became of it, and what its last run paid for."""
    shown: dict[str, dict[str, object]] = {}
    if rows is not None:
        first = rows.select(["document", "ordinal", "source_uri", "text"]).filter(pc.equal(rows["ordinal"], 0))
        for row in first.to_pylist():
            shown[row["document"]] = {"source_uri": row["source_uri"], "preview": row["text"][:PREVIEW]}
    paid = ("texts_embedded", "texts_reused", "tokens_embedded", "cost_usd")
    return {
        name: {
            "title": known[name].title,
            "mime": known[name].mime,
            "status": now["status"],
            "rows": now["chunks"],
            "tokens": now["tokens"],
            **{column: getattr(known[name], column) for column in paid},
            **shown.get(name, {}),
        }
        for name, now in indexed.items()
    }


def _overtaken(store: Store, corpus: str, known: Mapping[str, KnownDocument], documents: Sequence[str]) -> set[str]:
    """Those of `documents` that were read again, or removed, since they were looked at here: their rows would be those of
    an earlier text, and who read them brings the new ones."""
    found = store.documents(corpus).read_where_in("document", documents, ["document", "byte_hash"])
    now = dict(zip(found["document"].to_pylist(), found["byte_hash"].to_pylist(), strict=True))
    return {name for name in documents if name not in now or now[name] != known[name].byte_hash}


def remove_documents(store: Store, corpus: CorpusSettings, documents: Sequence[str]) -> None:
    """Delete every row of `documents`: from the index first, and what is known of them last, so that a removal that was
    cut short is found again by the next scan. Their vectors stay, for texts that come back."""
    generation = generation_of(corpus)
    with store.lock(publish_lock(corpus.name)):
        published = latest_publication(store, corpus.name)
        for name in {generation.id, *([published.generation] if published else [])}:
            table = store.index(corpus.name, name, dimensions=1)
            if table.exists():
                table.replace(documents, table.schema.empty_table())
        store.chunks(corpus.name).replace(documents, CHUNKS.empty_table())
        ledger = store.documents(corpus.name)
        ledger.replace(documents, ledger.schema.empty_table())


def _replace(
    store: Store, corpus: str, generation: Generation, documents: Sequence[str], rows: pa.Table | None
) -> None:
    """Make `rows` the rows of `documents`; None where they have none, and then no table is made for it."""
    dimensions = rows.schema.field("vector").type.list_size if rows is not None else 1
    table = store.index(corpus, generation.id, dimensions=dimensions)
    if rows is not None or table.exists():
        table.replace(documents, rows if rows is not None else table.schema.empty_table())


def _refuse_stale(corpus: str, chunks: pa.Table, known: Mapping[str, KnownDocument], generation: Generation) -> None:
    """Chunks know the text and the configuration that they were cut from."""
    columns = (chunks[name].to_pylist() for name in ("document", "document_hash", "chunking"))
    seen = set(zip(*columns, strict=True))
    stale = {document for document, text_hash, _ in seen if text_hash != known[document].text_hash}
    other = {document for document, _, chunking in seen if chunking != generation.chunking}
    if stale or other:
        what = "an earlier text" if stale else "another chunking configuration"
        names = ", ".join(sorted(stale or other)[:5])
        raise StoreError(
            f"corpus {corpus}: the chunks of {names} were cut from {what}; materialize {corpus}/chunks first"
        )


def _refuse_uncut(store: Store, corpus: str, without_chunks: Sequence[str]) -> None:
    """A document that has no chunks has no text."""
    found = store.documents(corpus).read_where_in("document", without_chunks, ["document", "text"])
    uncut = sorted(row["document"] for row in found.to_pylist() if row["text"].strip())
    if uncut:
        raise StoreError(
            f"corpus {corpus}: {', '.join(uncut[:5])} has text and no chunks; materialize {corpus}/chunks first"
        )


def _with_vectors(store: Store, corpus: CorpusSettings, chunks: pa.Table, table: VectorTable) -> pa.Table:
    hashes, _ = embedded_texts(store, corpus, chunks)
    positions, vectors = table.positions(set(hashes))
    missing = [
        document for document, h in zip(chunks["document"].to_pylist(), hashes, strict=True) if h not in positions
    ]
    if missing:
        names = ", ".join(sorted(set(missing))[:5])
        raise StoreError(
            f"corpus {corpus.name}: {len(missing)} chunks of {names} have no vector;"
            f" materialize {corpus.name}/embeddings first"
        )
    taken = vectors.take(pa.array([positions[h] for h in hashes], pa.int64()))
    return chunks.append_column(pa.field("vector", taken.type, nullable=False), taken)


def _with_document_columns(rows: pa.Table, store: Store, corpus: str, documents: Sequence[str]) -> pa.Table:
    same = ["title", "mime", "source_uri"]
    columns = ["document", *same, "modified_ns", "metadata", "text"]
    found = store.documents(corpus).read_where_in("document", documents, columns)
    place = pc.index_in(rows["document"], value_set=found["document"].combine_chunks())
    known = {name: found[name].combine_chunks() for name in same}
    known["modified"] = pc.divide(found["modified_ns"].combine_chunks(), 1_000).cast(_INDEX.field("modified").type)
    labels = [labels_of(json.loads(metadata or "{}")) for metadata in found["metadata"].to_pylist()]
    known["metadata"] = pa.array(labels, _INDEX.field("metadata").type)
    for name, values in known.items():
        rows = rows.append_column(name, values.take(place))
    texts = dict(zip(found["document"].to_pylist(), found["text"].to_pylist(), strict=True))
    rows = rows.append_column("space_after", pa.array(_spaces_after(rows, texts), pa.string()))
    rows = rows.append_column("searched_text", pa.array(_searched_texts(rows), pa.string()))
    return rows.select(index_schema(rows.schema.field("vector").type.list_size).names)


def _searched_texts(rows: pa.Table) -> list[str]:
    columns = (rows[name].to_pylist() for name in ("text", "title", "heading_path"))
    return [
        with_headings(text, title=title, heading_path=path or ()) for text, title, path in zip(*columns, strict=True)
    ]


def _spaces_after(rows: pa.Table, texts: Mapping[str, str]) -> list[str]:
    """What stands between each chunk and the next of its document: white space, nothing where they touch or overlap, or
    where it is the last."""
    keys = list(zip(rows["document"].to_pylist(), rows["ordinal"].to_pylist(), strict=True))
    starts = dict(zip(keys, rows["start_char"].to_pylist(), strict=True))
    ends = rows["end_char"].to_pylist()
    return [
        texts.get(document, "")[end : starts.get((document, ordinal + 1), end)]
        for (document, ordinal), end in zip(keys, ends, strict=True)
    ]


def _count(chunks: pa.Table) -> dict[str, int]:
    counts = pc.value_counts(chunks["document"])
    return dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))


def _sum_tokens(chunks: pa.Table) -> dict[str, int]:
    sums = chunks.group_by("document").aggregate([("tokens", "sum")])
    return dict(zip(sums["document"].to_pylist(), sums["tokens_sum"].to_pylist(), strict=True))
