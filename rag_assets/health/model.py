"""Whether the index was made by one model, the configured one, and whether that one still makes the same vectors."""

import numpy as np
import pyarrow.compute as pc

from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.providers import embedding_identity
from rag_assets.fingerprints import fingerprint
from rag_assets.health.verdicts import Cell, Verdict, fails, passes
from rag_assets.health.view import View
from rag_assets.materializing.embedded_texts import COLUMNS, embedded_texts
from rag_assets.storing.ledger import count_made_with
from rag_assets.storing.publishing import embedding_for
from rag_assets.storing.spending import Spend, SpendLedger
from rag_assets.storing.unneeded_vectors import generations_in
from rag_assets.wording import count

# Servers that round, batch or move differ in the last bits; vectors of another model have a cosine of about 0 to these.
_SAME = 0.99
_ROWS = 100_000


def one_generation(view: View) -> Verdict:
    """Each index is made with one configuration of chunking, and with vectors of one model's size."""
    wrong: list[dict[str, Cell]] = []
    tables = generations_in(view.store, view.corpus.name)
    for generation in tables:
        table = view.store.index(view.corpus.name, generation, dimensions=1)
        found: set[str | None] = set()
        for rows in table.scan(["chunking"], rows=_ROWS):
            found.update(pc.unique(rows["chunking"]).to_pylist())
        expected = {view.generation.chunking} if generation == view.generation.id else found
        if len(found) > 1 or not found <= expected:
            others = ", ".join(sorted(str(one)[:12] for one in found - expected or found))
            wrong.append({"index": generation, "chunked with": others})
        size = view.store.vectors(view.generation.embedding).dimensions()
        here = table.open().schema.field("vector").type.list_size
        if generation == view.generation.id and size not in (None, here):
            wrong.append({"index": generation, "dimensions": here, "of the model": size or 0})
    if not wrong:
        return passes(f"{count(len(tables), 'index', 'indices')}, each of one configuration.")
    remedy = f"rag-assets reindex {view.corpus.name} --all"
    return fails(f"an index has rows of more than one configuration: {remedy}", named=wrong)


def configured_model(view: View) -> Verdict:
    """Readers see what the configured model made, cut as configured."""
    if view.published is None:
        return passes("Nothing is published yet.")
    share = count_made_with(view.known, view.generation.id) / len(view.known) if view.known else 1.0
    figures = {"generation_progress": share}
    if view.published.generation == view.generation.id:
        return passes(f"Generation {view.generation.id} is configured and published.", figures)
    made = fingerprint(embedding_identity(view.published.embedding))
    what = "another model" if made != view.generation.embedding else "another chunking"
    return fails(
        f"readers see generation {view.published.generation}, made with {what}; {share:.0%} of the documents are of the"
        f" configured {view.generation.id}: rag-assets ingest {view.corpus.name}, or correct the configuration",
        figures,
    )


def same_vectors(view: View) -> Verdict:
    """The model makes the vectors that it made: `health.probe_texts` texts of the index are embedded once more.

    A server that got another model under the same name, or other weights, has the same settings; only this tells it.
    """
    wanted = view.corpus.health.probe_texts
    if not wanted or view.published is None or view.index is None or view.published.generation != view.generation.id:
        return passes("Nothing was embedded to compare: see health.probe_texts.", {"probe_texts": 0})
    provider = view.provider_for(embedding_for(view.corpus, view.published))
    table, version = view.index
    dataset = table.open(version)
    rows = dataset.count_rows()
    places = sorted({int(place) for place in np.linspace(0, rows - 1, min(rows, wanted))})
    taken = dataset.take(places, columns=[*COLUMNS, "vector"])
    _, texts = embedded_texts(view.store, view.corpus, taken)
    whole = [at for at, text in enumerate(texts) if _fits(provider, text)]
    if not whole:
        return passes("No text is short enough to be embedded whole.", {"probe_texts": 0})
    done = provider.embed([texts[at] for at in whole], "document")
    with SpendLedger(view.store, corpus=view.corpus.name, run_id=view.run_id, model=provider.name) as spent:
        spent.add(Spend(requests=1, texts=len(whole), tokens=done.tokens, cost_usd=done.cost_usd))
    stored = np.array([taken["vector"][at].as_py() for at in whole], np.float32)
    figures: dict[str, int | float] = {"probe_texts": len(whole)}
    remedy = f"correct embedding of {view.corpus.name}, or its server; if the model changed for good, name it otherwise"
    if done.vectors.shape != stored.shape:
        sizes = f"{done.vectors.shape[1]} dimensions, and those of the index {stored.shape[1]}"
        return fails(f"{provider.name} makes vectors of {sizes}: {remedy}", figures)
    figures["lowest_cosine"] = lowest = float(np.einsum("ij,ij->i", done.vectors, stored).min())
    told = f"the vectors of {count(len(whole), 'text')} have a cosine of at least {lowest:.3f} to those of the index"
    if lowest < _SAME:
        return fails(f"{provider.name} is not the model that it was: {told}: {remedy}", figures)
    return passes(f"{told[0].upper()}{told[1:]}.", figures)


def _fits(provider: EmbeddingProvider, text: str) -> bool:
    """Whether `text` is embedded in one piece: windows are averaged by whoever sends them."""
    return bool(text.strip()) and provider.count_tokens(text) <= provider.limits.tokens_per_input
