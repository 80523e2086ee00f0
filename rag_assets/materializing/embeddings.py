"""Every text of the chunks gets a vector: those without one are sent to the provider, each once."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np

from rag_assets.config import CorpusSettings
from rag_assets.embedding.batching import embed_all
from rag_assets.embedding.claiming import MachineClaims
from rag_assets.embedding.provider import EmbeddingProvider, Vectors
from rag_assets.embedding.store_claiming import StoreClaims
from rag_assets.errors import DocumentError
from rag_assets.generations import generation_of
from rag_assets.materializing.embedded_texts import COLUMNS, embedded_texts
from rag_assets.materializing.reports import Progress, StageReport, no_progress, why_skipped
from rag_assets.spending import refuse_over_budget
from rag_assets.storing.ledger import change, failure, known_documents
from rag_assets.storing.spending import Spend, SpendLedger, spend_of
from rag_assets.storing.stores import Store
from rag_assets.storing.vectors import VectorTable


def embed_documents(
    store: Store,
    corpus: CorpusSettings,
    provider: EmbeddingProvider,
    documents: Sequence[str],
    *,
    run_id: str | None = None,
    progress: Progress = no_progress,
) -> StageReport:
    """Embed the texts of `documents` that have no vector yet. Every response is kept before another request is made.

    A text that the provider refuses sets its documents aside. Raises `ProviderError` for what is no document's fault, and
    `BudgetError`, before anything is sent, when it would cost more than `max_cost_per_run`; what was embedded until then
    stays.
    """
    ledger = store.documents(corpus.name)
    known = known_documents(ledger, documents)
    good = {name for name in documents if name in known and known[name].status != "failed"}
    rows = store.chunks(corpus.name).read_where_in("document", sorted(good), list(COLUMNS))
    texts: dict[str, str] = {}
    first_seen: dict[str, str] = {}
    hashes: dict[str, list[str]] = defaultdict(list)
    for document, text_hash, text in zip(
        rows["document"].to_pylist(), *embedded_texts(store, corpus, rows), strict=True
    ):
        texts.setdefault(text_hash, text)
        first_seen.setdefault(text_hash, document)
        hashes[document].append(text_hash)
    vectors = store.vectors(generation_of(corpus).embedding)
    spent: dict[str, int] = {}

    def keep(keys: Sequence[str], new: Vectors, tokens: Sequence[int]) -> None:
        vectors.append(keys, np.asarray(new, dtype=np.float32), tokens)
        spent.update(zip(keys, tokens, strict=True))

    with (
        _claims(store, vectors) as claims,
        SpendLedger(store, corpus=corpus.name, run_id=run_id, model=provider.name) as spending,
    ):
        have = vectors.known(texts)
        missing = {text_hash: text for text_hash, text in texts.items() if text_hash not in have}
        refuse_over_budget(corpus, provider, missing.values(), spent_usd=_spent(store, corpus, run_id))
        outcome = embed_all(
            missing,
            provider,
            keep=keep,
            claims=claims,
            bill=lambda texts, tokens, cost: spending.add(Spend(1, texts, tokens, cost)),
            progress=lambda done, total: progress("embeddings", done, total),
        )
    vectors.compact()
    failed = {
        document: DocumentError(outcome.refused[text_hash], retryable=True)
        for document, of_document in hashes.items()
        for text_hash in of_document
        if text_hash in outcome.refused
    }
    # As we count; the provider may count otherwise, and its bill is shared out in proportion.
    counted = sum(spent.values())
    billed = outcome.tokens / counted if counted else 0.0
    cost = outcome.cost_usd / counted if counted else 0.0
    changes: dict[str, dict[str, object]] = {}
    figures: dict[str, dict[str, object]] = {}
    for document in good:
        unique = set(hashes[document])
        paid = [text_hash for text_hash in unique if text_hash in spent and first_seen[text_hash] == document]
        tokens = sum(spent[text_hash] for text_hash in paid)
        changes[document] = {
            "texts_embedded": len(paid),
            "texts_reused": len(unique - outcome.refused.keys()) - len(paid),
            "tokens_embedded": round(tokens * billed),
            "cost_usd": tokens * cost,
        }
        if document in failed:
            changes[document] |= failure(known[document], "embed", failed[document], same_content=True)
            changes[document]["generation"] = generation_of(corpus).id
        else:
            figures[document] = {"title": known[document].title, **changes[document]}
    if changes:
        change(ledger, changes, of_bytes={name: known[name].byte_hash for name in changes})
    skipped = {name: why_skipped(known.get(name)) for name in sorted(set(documents) - good)}
    return StageReport(documents=figures, failed=failed, skipped=skipped)


def _claims(store: Store, vectors: VectorTable) -> MachineClaims | StoreClaims:
    """Keep the texts apart that others embed at the same time into the same table."""
    known = vectors.watch().known
    if store.objects is None:
        return MachineClaims(vectors.uri, known)
    return StoreClaims(store.objects, PurePosixPath(vectors.uri).stem, known)


def _spent(store: Store, corpus: CorpusSettings, run_id: str | None) -> float:
    """US dollars that the run has spent on earlier batches, where that matters."""
    bounded = run_id is not None and corpus.max_cost_per_run is not None
    return spend_of(store, corpus.name, run_id=run_id).cost_usd if bounded else 0.0
