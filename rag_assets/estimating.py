"""What an ingest would do and cost, before anything is paid: `rag-assets ingest --dry-run`, and the job `C_estimate`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import CorpusSettings
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.templates import embedded_text
from rag_assets.errors import DocumentError
from rag_assets.fingerprints import hash_text
from rag_assets.generations import generation_of
from rag_assets.materializing.reports import Progress, no_progress, set_aside
from rag_assets.reading.documents import read_document
from rag_assets.reading.source import Source
from rag_assets.spending import quote
from rag_assets.storing.stores import Store
from rag_assets.storing.vectors import VectorTable

_TEXTS_AT_ONCE = 5_000


@dataclass
class Estimate:
    """Chunks that would be made, texts that would be sent to the provider or found in the vector store, tokens as the
    provider counts them, and US dollars. `failed` documents cannot be read or cut, and count nothing."""

    chunks: int = 0
    texts_embedded: int = 0
    texts_reused: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    failed: dict[str, DocumentError] = field(default_factory=dict)


def estimate(
    store: Store,
    corpus: CorpusSettings,
    source: Source,
    provider: EmbeddingProvider,
    documents: Sequence[str],
    *,
    progress: Progress = no_progress,
) -> Estimate:
    """Read and cut `documents`, one at a time, and reckon what is missing. Nothing is sent and nothing is kept."""
    found = Estimate()
    vectors = store.vectors(generation_of(corpus).embedding)
    seen: set[str] = set()
    waiting: dict[str, str] = {}
    for number, name in enumerate(documents, start=1):
        cut = set_aside(lambda name=name: list(_cut(corpus, source, name)), found.failed, name)  # type: ignore[misc]
        for key, text in cut or ():
            found.chunks += 1
            if key not in seen:
                seen.add(key)
                waiting[key] = text
        if len(waiting) >= _TEXTS_AT_ONCE or number == len(documents):
            _add(found, vectors, provider, waiting)
            waiting = {}
        progress("estimate", number, len(documents))
    return found


def _add(found: Estimate, vectors: VectorTable, provider: EmbeddingProvider, texts: dict[str, str]) -> None:
    have = vectors.known(texts)
    expected = quote(provider, [text for key, text in texts.items() if key not in have])
    found.texts_embedded += expected.texts
    found.texts_reused += len(have)
    found.tokens += expected.tokens
    found.cost_usd += expected.cost_usd


def _cut(corpus: CorpusSettings, source: Source, name: str) -> Iterator[tuple[str, str]]:
    """The key and the text of what would be embedded of each chunk of a document."""
    file = source.read(name)
    document = read_document(name, file.data, file.content_type)
    template = corpus.embed_template
    for chunk in chunk_document(document, corpus.chunking):
        if template is None:
            yield chunk.text_hash, chunk.text
        else:
            text = embedded_text(template, title=document.title, heading_path=chunk.heading_path, text=chunk.text)
            yield hash_text(text), text
