"""Which generation of the index the configuration asks for.

A generation is everything, apart from a document's own content, that its rows in the index were made from: how it was
cut, what of it was embedded, and by which model. Another generation is another table, built beside the one that readers see.
"""

from dataclasses import dataclass

from rag_assets.chunking.chunks import chunking_identity
from rag_assets.config import CorpusSettings
from rag_assets.embedding.providers import embedding_identity
from rag_assets.fingerprints import fingerprint
from rag_assets.reading.documents import READER_VERSION

# Raised when the rows of the index gain or lose meaning, so that every document is indexed again (nothing is re-embedded).
INDEX_VERSION = "3"


@dataclass(frozen=True)
class Generation:
    """Fingerprints of the configuration in force. `id` names the index table, `embedding` the vector table."""

    id: str
    chunking: str
    embedding: str
    reader: str


def generation_of(corpus: CorpusSettings) -> Generation:
    """The generation that `corpus` asks for. Needs neither a model nor a network."""
    embedding = fingerprint(embedding_identity(corpus.embedding))
    chunking = fingerprint(chunking_identity(corpus.chunking))
    parts = {"chunking": chunking, "embedding": embedding, "index": INDEX_VERSION}
    if corpus.embed_template is not None:
        parts["embed_template"] = corpus.embed_template
    return Generation(id=fingerprint(parts)[:12], chunking=chunking, embedding=embedding, reader=READER_VERSION)
