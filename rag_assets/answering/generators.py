"""From the settings of a corpus to its answer generator. Cheap: neither model nor client is loaded here."""

from rag_assets.answering.extractive import ExtractiveGenerator
from rag_assets.answering.generator import Generator
from rag_assets.answering.openai_chat import OpenAIChatGenerator
from rag_assets.config import ExtractiveGeneration, GenerationSettings, LocalEmbedding, PluginProvider
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.providers import make_provider
from rag_assets.plugins import load_plugin


def make_generator(settings: GenerationSettings, *, provider: EmbeddingProvider | None = None) -> Generator:
    """The generator that `settings` ask for.

    The extractive one compares meanings with `provider`, by default the embedded model: whatever the index uses,
    nothing is paid when a question is asked. Raises `ProviderError` when a plugin is missing or cannot be used.
    """
    if isinstance(settings, ExtractiveGeneration):
        return ExtractiveGenerator(settings, provider or make_provider(LocalEmbedding()))
    if isinstance(settings, PluginProvider):
        made: Generator = load_plugin("generation", settings.provider).open(settings.keys)
        return made
    return OpenAIChatGenerator(settings)
