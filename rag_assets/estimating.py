"""What an ingest would do, before anything is paid: `rag-assets ingest --dry-run`."""

from collections.abc import Sequence
from dataclasses import dataclass

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import CorpusSettings
from rag_assets.embedding.templates import embedded_text
from rag_assets.errors import DocumentError
from rag_assets.fingerprints import hash_text
from rag_assets.generations import generation_of
from rag_assets.materializing.reports import set_aside
from rag_assets.reading.documents import read_document
from rag_assets.reading.source import Source
from rag_assets.storing.stores import Store
from rag_assets.tokenizing import count_tokens


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
        cut = set_aside(lambda name=name: _cut(corpus, source, name), failed, name)  # type: ignore[misc]
        for text_hash, counted in cut or ():
            chunks += 1
            tokens[text_hash] = counted
    have = store.vectors(generation_of(corpus).embedding).known(tokens)
    missing = [text_hash for text_hash in tokens if text_hash not in have]
    return Estimate(
        chunks=chunks,
        texts_embedded=len(missing),
        texts_reused=len(tokens) - len(missing),
        tokens=sum(tokens[text_hash] for text_hash in missing),
    )


def _cut(corpus: CorpusSettings, source: Source, name: str) -> Sequence[tuple[str, int]]:
    """The key and the tokens of what would be embedded of each chunk of a document."""
    document = read_document(name, source.read(name).data)
    chunks = chunk_document(document, corpus.chunking)
    template = corpus.embed_template
    if template is None:
        return [(chunk.text_hash, chunk.tokens) for chunk in chunks]
    seen = [
        embedded_text(template, title=document.title, heading_path=chunk.heading_path, text=chunk.text)
        for chunk in chunks
    ]
    return [(hash_text(text), count_tokens(text, corpus.chunking.tokenizer)) for text in seen]
