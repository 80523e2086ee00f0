"""A corpus of any size without an ingest: its tables are written straight away, with vectors that nobody embedded.

Vectors lie in clusters, as those of texts do, and few words are frequent. Everything follows from the number of a document.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from rag_assets.config import HashingEmbedding
from rag_assets.embedding.provider import Vectors
from rag_assets.fingerprints import hash_text
from rag_assets.generations import generation_of
from rag_assets.records import CHUNKS, DOCUMENTS, index_schema
from rag_assets_tests.workbench import CORPUS, Workbench

CHUNKS_A_DOCUMENT = 8
_DOCUMENTS_AT_ONCE = 2_500
_CLUSTERS = 2_000
_WORDS = [f"word{number}" for number in range(5_000)]
_WORDS_A_CHUNK = 20
_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def fill(bench: Workbench, numbers: range, *, edition: int = 0) -> None:
    """Write the documents of `numbers` as an ingest leaves them before it publishes. Another `edition` of them has other
    texts; one that is there is replaced."""
    generation = generation_of(bench.corpus)
    assert isinstance(bench.corpus.embedding, HashingEmbedding)
    dimensions = bench.corpus.embedding.dimensions
    vectors = bench.store.vectors(generation.embedding)
    index = bench.store.index(CORPUS, generation.id, dimensions=dimensions)
    for start in range(numbers.start, numbers.stop, _DOCUMENTS_AT_ONCE):
        some = range(start, min(start + _DOCUMENTS_AT_ONCE, numbers.stop))
        names = [name_of(number) for number in some]
        rng = np.random.default_rng((start, edition))
        texts = _texts(some, rng)
        made = _vectors(len(texts), dimensions, rng)
        hashes = [hash_text(text) for text in texts]
        vectors.append(hashes, made, [_WORDS_A_CHUNK] * len(texts))
        columns = _columns(names, texts, hashes, generation.chunking)
        rows = pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), dimensions)
        index.replace(names, _table(index_schema(dimensions), {**columns, "vector": rows}))
        bench.store.chunks(CORPUS).replace(names, _table(CHUNKS, columns))
        bench.store.documents(CORPUS).replace(names, _documents(names, texts, bench))
    vectors.compact()


def name_of(number: int) -> str:
    """The name of the document of this number."""
    return f"{number // 100:05}/{number:07}.md"


def question(number: int) -> str:
    """Three words that some chunks have."""
    return " ".join(np.random.default_rng(number).choice(_WORDS, 3))


def _texts(numbers: Sequence[int], rng: np.random.Generator) -> list[str]:
    size = (len(numbers) * CHUNKS_A_DOCUMENT, _WORDS_A_CHUNK)
    places = np.minimum(rng.zipf(1.3, size=size) - 1, len(_WORDS) - 1)
    return [
        " ".join([f"d{numbers[row // CHUNKS_A_DOCUMENT]}", *(_WORDS[place] for place in line)])
        for row, line in enumerate(places.tolist())
    ]


def _vectors(count: int, dimensions: int, rng: np.random.Generator) -> Vectors:
    centres = np.random.default_rng(7).normal(size=(_CLUSTERS, dimensions)).astype(np.float32)
    found = centres[rng.integers(0, _CLUSTERS, count)] + 0.6 * rng.normal(size=(count, dimensions)).astype(np.float32)
    unit: Vectors = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
    return unit


def _columns(names: Sequence[str], texts: Sequence[str], hashes: Sequence[str], chunking: str) -> dict[str, pa.Array]:
    ordinals = list(range(CHUNKS_A_DOCUMENT)) * len(names)
    documents = [name for name in names for _ in range(CHUNKS_A_DOCUMENT)]
    ids = [f"{name}#{ordinal}" for name, ordinal in zip(documents, ordinals, strict=True)]
    return {
        "chunk_id": pa.array(ids),
        "document": pa.array(documents),
        "ordinal": pa.array(ordinals, pa.int32()),
        "text": pa.array(texts),
        "searched_text": pa.array(texts),
        "text_hash": pa.array(hashes),
        "tokens": pa.array([_WORDS_A_CHUNK] * len(texts), pa.int32()),
        "document_hash": pa.array(hashes),
        "chunking": pa.array([chunking] * len(texts)),
    }


def _documents(names: Sequence[str], texts: Sequence[str], bench: Workbench) -> pa.Table:
    generation = generation_of(bench.corpus)
    whole = ["\n\n".join(texts[at : at + CHUNKS_A_DOCUMENT]) for at in range(0, len(texts), CHUNKS_A_DOCUMENT)]
    same = {
        "status": "indexed",
        "reader": generation.reader,
        "generation": generation.id,
        "chunks": CHUNKS_A_DOCUMENT,
        "tokens": CHUNKS_A_DOCUMENT * _WORDS_A_CHUNK,
        "attempts": 0,
        "read_at": _LONG_AGO,
        "text_since": _LONG_AGO,
        "indexed_at": _LONG_AGO,
    }
    columns = {name: pa.array([value] * len(names), DOCUMENTS.field(name).type) for name, value in same.items()}
    columns["document"] = pa.array(names)
    columns["text"] = pa.array(whole, pa.large_string())
    return _table(DOCUMENTS, columns)


def _table(schema: pa.Schema, columns: dict[str, pa.Array]) -> pa.Table:
    rows = len(columns["document"])
    return pa.table([columns[f.name] if f.name in columns else pa.nulls(rows, f.type) for f in schema], schema)
