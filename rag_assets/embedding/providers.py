"""From the settings of a corpus to its embedding provider. Cheap: neither model nor client is loaded here."""

from rag_assets.config import (
    EmbeddingSettings,
    HashingEmbedding,
    LocalEmbedding,
    MultilingualEmbedding,
    OnnxEmbedding,
    PluginProvider,
    SentenceTransformersEmbedding,
)
from rag_assets.embedding.hashing import HashingProvider
from rag_assets.embedding.local import LocalProvider
from rag_assets.embedding.multilingual import MultilingualProvider
from rag_assets.embedding.onnx_folder import OnnxProvider
from rag_assets.embedding.openai_compatible import OpenAIProvider
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.sentence_transformer import SentenceTransformersProvider
from rag_assets.plugins import load_plugin


def make_provider(settings: EmbeddingSettings) -> EmbeddingProvider:
    """The provider that `settings` ask for. It loads its model, or reads its key, at the first text.

    Raises `ProviderError` when a plugin is missing or cannot be used.
    """
    match settings:
        case LocalEmbedding():
            return LocalProvider(settings)
        case HashingEmbedding():
            return HashingProvider(settings)
        case OnnxEmbedding():
            return OnnxProvider(settings)
        case MultilingualEmbedding():
            return MultilingualProvider(settings)
        case SentenceTransformersEmbedding():
            return SentenceTransformersProvider(settings)
        case PluginProvider():
            made: EmbeddingProvider = load_plugin("embedding", settings.provider).open(settings.keys)
            return made
        case _:
            return OpenAIProvider(settings)


def embedding_identity(settings: EmbeddingSettings) -> dict[str, object]:
    """Everything in `settings` that changes a vector, for the fingerprint; needs neither model nor network.

    Raises `ProviderError` when the files of a model, or a plugin, are missing.
    """
    return dict(make_provider(settings).identity)
