"""What one table can be given back from the others: each function makes nothing that cannot be derived, and running it
again changes nothing."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.config import CorpusSettings
from rag_assets.generations import generation_of
from rag_assets.materializing.embedded_texts import COLUMNS, embedded_texts
from rag_assets.records import DOCUMENTS, PUBLICATIONS
from rag_assets.storing.agreeing import without_document
from rag_assets.storing.publishing import publications, rows_by_document
from rag_assets.storing.retention import tagged_publications
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table, batches

_OF_DOCUMENT = ("title", "mime", "source_uri")
# Vectors that are copied at once; one takes some kilobytes.
_ROWS = 4_096


def restore_documents(store: Store, corpus: CorpusSettings) -> int:
    """Note the documents that have rows in the index and are not known as pending, so that they are made again, or
    removed where their file is gone. Readers keep their rows meanwhile. Returns their number."""
    generation = generation_of(corpus)
    table = store.documents(corpus.name)
    index = store.index(corpus.name, generation.id, dimensions=1)
    rows = index.read(["document", *_OF_DOCUMENT])
    names = without_document(table.read(["document"]), rows)
    if names:
        first = pc.index_in(pa.array(names, pa.string()), value_set=rows["document"].combine_chunks())
        taken = rows.take(first)
        columns = {
            **{name: taken[name] for name in ("document", *_OF_DOCUMENT)},
            "status": pa.array(["pending"] * len(names)),
            "attempts": pa.array([0] * len(names), pa.int32()),
            "generation": pa.array([generation.id] * len(names)),
        }
        blank = pa.nulls(len(names))
        lost = pa.table([columns.get(field.name, blank).cast(field.type) for field in DOCUMENTS], schema=DOCUMENTS)
        restored = 0
        for some in batches(names):  # replaced: a run may have noted one of them meanwhile, and then does it again
            table.replace(some, lost.slice(restored, len(some)))
            restored += len(some)
    return len(names)


def forget_chunks(store: Store, corpus: str) -> None:
    """Delete the chunks of documents that are not known: a document's chunks are made whenever it is."""
    table = store.chunks(corpus)
    names = without_document(store.documents(corpus).read(["document"]), table.read(["document"]))
    for some in batches(names):
        table.replace(some, table.schema.empty_table())


def vector_keys(store: Store, corpus: CorpusSettings, rows: pa.Table) -> pa.Array:
    """The key of the vector of each of `rows`, which have the columns that `embedded_texts` looks at."""
    if corpus.embed_template is None:
        return rows["text_hash"].combine_chunks()
    return pa.array(embedded_texts(store, corpus, rows)[0], pa.string())


def stored_keys(store: Store, corpus: CorpusSettings) -> pa.Array:
    """The keys of all vectors of the model of `corpus`."""
    vectors = store.vectors(generation_of(corpus).embedding)
    keys = pa.schema([("text_hash", pa.string())])
    return Table(vectors.uri, keys).read(["text_hash"])["text_hash"].combine_chunks()


def restore_vectors(store: Store, corpus: CorpusSettings) -> int:
    """Copy vectors that the store lacks from the index, which holds them too. Returns their number."""
    generation = generation_of(corpus)
    index = store.index(corpus.name, generation.id, dimensions=1)
    vectors = store.vectors(generation.embedding)
    if not index.exists():
        return 0
    have, copied = stored_keys(store, corpus), 0
    dataset = index.open()
    for batch in dataset.to_batches(columns=[*COLUMNS, "tokens", "vector"], batch_size=_ROWS):
        rows = pa.Table.from_batches([batch])
        rows = rows.append_column("key", vector_keys(store, corpus, rows))
        rows = rows.filter(pc.invert(pc.is_in(rows["key"], value_set=have))).combine_chunks()
        _, first = np.unique(rows["key"].to_numpy(zero_copy_only=False).astype(str), return_index=True)
        rows = rows.take(pa.array(np.sort(first))).combine_chunks()
        if rows.num_rows:
            keys = rows["key"].combine_chunks()
            flat = rows["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            vectors.append(keys.to_pylist(), flat.reshape(rows.num_rows, -1), rows["tokens"].to_pylist())
            have = pa.concat_arrays([have, keys])
            copied += rows.num_rows
    return copied


def lost_publications(store: Store, corpus: CorpusSettings) -> Sequence[int]:
    """Versions whose rows the index keeps, and that the pointer does not know (any more)."""
    index = store.index(corpus.name, generation_of(corpus).id, dimensions=1)
    if not index.exists():
        return []
    known = {one.version for one in publications(store, corpus.name)}
    return sorted(tagged_publications(index).keys() - known)


def restore_publications(store: Store, corpus: CorpusSettings) -> int:
    """Note again the publications that `lost_publications` names, the newest of which becomes the pointer where it is the
    newest of all. Who published, and what changed then, is lost. Returns their number."""
    generation = generation_of(corpus).id
    index = store.index(corpus.name, generation, dimensions=1)
    lost = lost_publications(store, corpus)
    tags = tagged_publications(index) if lost else {}
    rows = []
    for version in lost:
        table_version, published_at = tags[version]
        counts = rows_by_document(index, version=table_version)
        rows.append(
            {
                "version": version,
                "generation": generation,
                "table_version": table_version,
                "published_at": published_at or datetime.now(UTC),
                "run_id": "",
                "action": "publish",
                "documents": len(counts),
                "chunks": sum(counts.values()),
                "embedding": corpus.embedding.model_dump_json(),
                "summary": json.dumps({}),
            }
        )
    if rows:
        store.publications(corpus.name).append(pa.Table.from_pylist(rows, schema=PUBLICATIONS))
    return len(rows)
