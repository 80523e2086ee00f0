"""A store whose tables are thrown away after a run and whose vectors may be kept for the next one.

Vectors are content-addressed: a text is embedded once over all strategies, collections and runs. The environment variable
`RAG_ASSETS_BENCHMARK_VECTORS` names the folder that keeps them; without it they go with the run.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from rag_assets.config import ChunkingSettings, CorpusSettings, EmbeddingSettings
from rag_assets.storing.stores import Store
from rag_assets.storing.vectors import VectorTable
from rag_assets_tests.workbench import CORPUS, Workbench

VECTORS = "RAG_ASSETS_BENCHMARK_VECTORS"


@dataclass(frozen=True)
class KeptVectors(Store):
    """The tables under `home`, but for the vectors, which are under `kept`."""

    kept: str

    def vectors(self, embedding_fingerprint: str) -> VectorTable:
        return Store(self.kept).vectors(embedding_fingerprint)


def vectors_folder(folder: Path) -> Path:
    """Where to keep vectors: the folder that the environment names, else one below `folder`."""
    return Path(os.environ.get(VECTORS) or folder / "vectors").absolute()


def quality_workbench(
    root: Path, *, pages: Path, vectors: Path, chunking: ChunkingSettings, embedding: EmbeddingSettings
) -> Workbench:
    """A workbench over `pages` with new tables in `root`. Nothing is read yet."""
    corpus = CorpusSettings(name=CORPUS, source=str(pages), embedding=embedding)
    corpus = corpus.model_copy(
        update={"chunking": chunking}
    )  # unchecked: whole documents are longer than a model reads
    return Workbench(pages, KeptVectors(str(root), str(vectors)), corpus)
