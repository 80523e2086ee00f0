"""What an ingest would do, before anything is paid: `rag-assets ingest --dry-run`."""

from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError
from rag_assets.generations import generation_of
from rag_assets.materializing.reports import set_aside
from rag_assets.reading.documents import read_document
from rag_assets.reading.source import Source
from rag_assets.storing.stores import Store


@dataclass(frozen=True)
class Estimate:
    """Chunks that would be made, texts that would be sent to the provider or found in the vector store, tokens sent."""

    chunks: int
    texts_embedded: int
    texts_reused: int
    tokens: int


def estimate(store: Store, corpus: CorpusSettings, source: Source, documents: Sequence[str]) -> Estimate:
    """Read and cut `documents` in memory. Documents that cannot be read or cut count nothing."""
    failed: dict[str, DocumentError] = {}
    tokens: dict[str, int] = {}
    chunks = 0
    for name in documents:
        cut = set_aside(
            lambda name=name: chunk_document(read_document(name, source.read(name).data), corpus.chunking),  # type: ignore[misc]
            failed,
            name,
        )
        for chunk in cut or ():
            chunks += 1
            tokens[chunk.text_hash] = chunk.tokens
    have = store.vectors(generation_of(corpus).embedding).known(tokens)
    missing = [text_hash for text_hash in tokens if text_hash not in have]
    return Estimate(
        chunks=chunks,
        texts_embedded=len(missing),
        texts_reused=len(tokens) - len(missing),
        tokens=sum(tokens[text_hash] for text_hash in missing),
    )
