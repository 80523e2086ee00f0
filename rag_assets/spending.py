"""What embedding would cost, before anything is sent, and whether that is too much."""

from collections.abc import Iterable
from dataclasses import dataclass

from rag_assets.config import CorpusSettings
from rag_assets.embedding.provider import EmbeddingProvider, price_of
from rag_assets.errors import BudgetError


@dataclass(frozen=True)
class Quote:
    """How much `texts` texts would cost, in tokens as the provider counts them and in US dollars."""

    texts: int
    tokens: int
    cost_usd: float


def quote(provider: EmbeddingProvider, texts: Iterable[str]) -> Quote:
    """What it would cost to have `texts` embedded. Blank texts are never sent."""
    counted = [provider.count_tokens(text) for text in texts if text.strip()]
    tokens = sum(counted)
    return Quote(texts=len(counted), tokens=tokens, cost_usd=tokens * price_of(provider) / 1_000_000)


def refuse_over_budget(
    corpus: CorpusSettings, provider: EmbeddingProvider, texts: Iterable[str], *, spent_usd: float = 0.0
) -> None:
    """Raise `BudgetError` when `texts` would cost more than is left to a run of `corpus` that has spent `spent_usd`."""
    if corpus.max_cost_per_run is None or not price_of(provider):
        return
    expected = quote(provider, texts)
    if expected.texts and spent_usd + expected.cost_usd > corpus.max_cost_per_run:
        before = f"has spent ${spent_usd:,.4f} and " if spent_usd else ""
        raise BudgetError(
            f"corpus {corpus.name}: this run {before}would send {expected.texts:,} texts ({expected.tokens:,} tokens) to"
            f" {provider.name} for about ${expected.cost_usd:,.4f}, and max_cost_per_run is"
            f" ${corpus.max_cost_per_run:,.4f}; nothing {'more ' if before else ''}was sent. Raise it, or lower"
            " max_documents_per_run."
        )
