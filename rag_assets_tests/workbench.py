"""A folder, its tables and the gerunds of one corpus, without Dagster: what an ingest run does, step by step."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rag_assets.config import ChunkingSettings, CorpusSettings, HashingEmbedding
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.providers import make_provider
from rag_assets.materializing.chunks import chunk_documents
from rag_assets.materializing.documents import read_documents
from rag_assets.materializing.embeddings import embed_documents
from rag_assets.materializing.index import index_documents, remove_documents
from rag_assets.materializing.reports import StageReport
from rag_assets.reading.source import open_source
from rag_assets.records import Passage
from rag_assets.retrieving.filters import parse_filters
from rag_assets.retrieving.search import Mode, Search, search
from rag_assets.scanning import Scan, scan
from rag_assets.storing.ledger import KnownDocument, known_documents
from rag_assets.storing.publishing import Publication, PublishReport, latest_publication, publish
from rag_assets.storing.stores import Store

CORPUS = "notes"


@dataclass
class Workbench:
    """`corpus` may be set to other settings at any time. A chunk is a paragraph, so that a test can count."""

    folder: Path
    store: Store
    corpus: CorpusSettings

    def configure(self, **keys: Any) -> None:
        """Set keys of the corpus."""
        self.corpus = self.corpus.model_copy(update=keys)

    def write(self, name: str, content: str | bytes, *, seconds_ago: float = 60) -> Path:
        """Write a file of the corpus as if it had been written some time ago, so that its time can be trusted."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        set_age(path, seconds_ago)
        return path

    def scan(self, **how: Any) -> Scan:
        return scan(self.store, self.corpus, open_source(self.corpus), **how)

    def read(self, *documents: str) -> StageReport:
        return read_documents(self.store, self.corpus, open_source(self.corpus), documents, run_id="run")

    def chunk(self, *documents: str) -> StageReport:
        return chunk_documents(self.store, self.corpus, documents)

    @property
    def provider(self) -> EmbeddingProvider:
        return make_provider(self.corpus.embedding)

    def embed(self, *documents: str) -> StageReport:
        return embed_documents(self.store, self.corpus, self.provider, documents, run_id="run")

    def index(self, *documents: str) -> StageReport:
        return index_documents(self.store, self.corpus, documents, run_id="run")

    def materialize(self, *documents: str) -> None:
        """All stages of `documents`, without publishing."""
        self.read(*documents)
        self.chunk(*documents)
        self.embed(*documents)
        self.index(*documents)

    def update(self, **how: Any) -> Scan:
        """Scan, materialize what is pending, and remove what is gone."""
        found = self.scan(**how)
        if found.pending:
            self.materialize(*found.pending)
        if found.removed:
            remove_documents(self.store, self.corpus, found.removed)
        return found

    def publish(self) -> PublishReport:
        return publish(self.store, self.corpus, run_id="run")

    def ingest(self) -> PublishReport:
        """Update and publish."""
        self.update()
        return self.publish()

    @property
    def known(self) -> dict[str, KnownDocument]:
        return known_documents(self.store.documents(CORPUS))

    @property
    def published(self) -> Publication:
        publication = latest_publication(self.store, CORPUS)
        assert publication is not None
        return publication

    def search(
        self,
        query: str,
        *,
        mode: Mode = "hybrid",
        top_k: int = 10,
        where: str | None = None,
        filters: Sequence[str] = (),
    ) -> list[Passage]:
        """What a reader finds now."""
        wanted = Search(query, mode, top_k, candidates=100, where=where, filters=parse_filters(filters))
        return search(self.store, self.corpus, self.published, wanted, make_provider(self.published.embedding))

    def texts(self, query: str, *, mode: Mode = "text") -> Sequence[str]:
        """The texts that a reader finds now, in order of the alphabet."""
        return sorted(passage.text for passage in self.search(query, mode=mode))


def make_workbench(root: Path, home: str | None = None) -> Workbench:
    """A workbench in `root`, with an empty folder and without tables; those go to `home`, by default a folder of `root`."""
    folder = root / "corpus"
    folder.mkdir()
    corpus = CorpusSettings(
        name=CORPUS,
        source=str(folder),
        chunking=ChunkingSettings(strategy="paragraph", max_tokens=100, overlap_tokens=0),
        embedding=HashingEmbedding(provider="hashing", dimensions=64),
    )
    return Workbench(folder, Store(home or str(root / "home")), corpus)


def set_age(path: Path, seconds_ago: float) -> None:
    """Make `path` look as if it was modified so many seconds ago (negative: in the future)."""
    moment = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    os.utime(path, (moment.timestamp(), moment.timestamp()))
