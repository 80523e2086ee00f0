"""From the settings of a corpus to its reranker. Cheap: neither model nor client is loaded here."""

from rag_assets.config import CrossEncoderRerank, HttpRerank, LateInteractionRerank, LLMRerank, PluginRerank
from rag_assets.plugins import load_plugin
from rag_assets.reranking.cross_encoder import CrossEncoderReranker
from rag_assets.reranking.http_endpoint import HttpReranker
from rag_assets.reranking.late_interaction import LateInteractionReranker
from rag_assets.reranking.listwise import ListwiseReranker
from rag_assets.reranking.reranker import Reranker


def make_reranker(
    settings: LateInteractionRerank | CrossEncoderRerank | HttpRerank | LLMRerank | PluginRerank,
) -> Reranker:
    """The reranker that `settings` ask for. Raises `ProviderError` when a plugin is missing or cannot be used."""
    match settings:
        case LateInteractionRerank():
            return LateInteractionReranker(settings)
        case CrossEncoderRerank():
            return CrossEncoderReranker(settings)
        case HttpRerank():
            return HttpReranker(settings)
        case LLMRerank():
            return ListwiseReranker(settings)
        case PluginRerank():
            made: Reranker = load_plugin("rerank", settings.provider).open(settings.keys)
            return made
