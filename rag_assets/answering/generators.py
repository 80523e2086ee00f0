"""From the settings of a corpus to its answer generator. Cheap: neither model nor client is loaded here."""

from rag_assets.answering.extractive import ExtractiveGenerator
from rag_assets.answering.generator import Generator
from rag_assets.answering.openai_chat import OpenAIChatGenerator
from rag_assets.config import ExtractiveGeneration, GenerationSettings, LocalEmbedding
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.providers import make_provider


def make_generator(settings: GenerationSettings, *, provider: EmbeddingProvider | None = None) -> Generator:
    """The generator that `settings` ask for.

    The extractive one compares meanings with `provider`, by default the embedded model: whatever the index uses,
    nothing is paid when a question is asked.
    """
    if isinstance(settings, ExtractiveGeneration):
        return ExtractiveGenerator(settings, provider or make_provider(LocalEmbedding()))
    return OpenAIChatGenerator(settings)
