"""From the settings of a corpus to its embedding provider. Cheap: neither model nor client is loaded here."""

from rag_assets.config import EmbeddingSettings, HashingEmbedding, LocalEmbedding
from rag_assets.embedding.hashing import HashingProvider
from rag_assets.embedding.local import LocalProvider
from rag_assets.embedding.openai_compatible import OpenAIProvider
from rag_assets.embedding.provider import EmbeddingProvider


def make_provider(settings: EmbeddingSettings) -> EmbeddingProvider:
    """The provider that `settings` ask for. It loads its model, or reads its key, at the first text."""
    if isinstance(settings, LocalEmbedding):
        return LocalProvider(settings)
    if isinstance(settings, HashingEmbedding):
        return HashingProvider(settings)
    return OpenAIProvider(settings)


def embedding_identity(settings: EmbeddingSettings) -> dict[str, object]:
    """Everything in `settings` that changes a vector, for the fingerprint; needs neither model nor network."""
    return dict(make_provider(settings).identity)
