"""Mending what `doctoring.py` found: afterwards an ingest makes the rest again, from vectors that are there."""

from collections.abc import Sequence

from rag_assets.config import CorpusSettings
from rag_assets.doctoring import SALVAGED, Finding
from rag_assets.generations import generation_of
from rag_assets.storing.examining import drop_search_indices, move_aside, salvage
from rag_assets.storing.ledger import make_pending
from rag_assets.storing.publishing import publish_lock
from rag_assets.storing.restoring import (
    forget_chunks,
    restore_documents,
    restore_publications,
    restore_vectors,
)
from rag_assets.storing.stores import Store


def mend_damage(found: Sequence[Finding]) -> None:
    """Move damaged tables aside, and keep what can be read of those that cannot be made again."""
    for one in found:
        if one.kind == "table_damaged" and one.fixable and one.table is not None:
            broken = move_aside(one.table)
            if one.name in SALVAGED:
                salvage(broken, one.table)


def mend(store: Store, corpus: CorpusSettings, found: Sequence[Finding]) -> None:
    """Mend the findings of `corpus` as far as no document needs to be read again; those that do are pending afterwards.

    Damage is mended first, and what follows from it is found by the next look.
    """
    kinds = {one.kind for one in found}
    with store.lock(publish_lock(corpus.name)):
        mend_damage(found)
        if "table_damaged" in kinds:
            return
        if "pointer_lost" in kinds:
            restore_publications(store, corpus)
        if "documents_lost" in kinds or any(one.kind == "rows_disagree" and not one.documents for one in found):
            restore_documents(store, corpus)
            forget_chunks(store, corpus.name)
        if "vectors_lost" in kinds:
            restore_vectors(store, corpus)
        if "search_index_damaged" in kinds:
            drop_search_indices(store.index(corpus.name, generation_of(corpus).id, dimensions=1))
        make_pending(store.documents(corpus.name), sorted({name for one in found for name in one.documents}))
