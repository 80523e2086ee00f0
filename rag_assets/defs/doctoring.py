"""`rag-assets doctor`, the part that needs a Dagster instance: partitions, and the ingest that ends a repair."""

from collections.abc import Sequence

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.ingesting import Ingester
from rag_assets.defs.partitions import add_keys, delete_keys, document_of, partition_key, partitions_name
from rag_assets.defs.runs import ingest_lock, runs_under_way
from rag_assets.doctoring import Finding, Repair, diagnose, fix_command
from rag_assets.errors import RagAssetsError, SourceError
from rag_assets.mending import mend
from rag_assets.reading.source import open_source
from rag_assets.storing.ledger import known_documents
from rag_assets.storing.publishing import latest_publication
from rag_assets.storing.stores import Store

# Damage first, then what follows from it, then what follows from that.
_ROUNDS = 3
_BY_INGEST = ("pointer_wrong", "not_published")


def examine(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> list[Finding]:
    """What is wrong with `corpus`, its partitions included once its documents can be read."""
    found = diagnose(store, corpus)
    if not any(one.name == "documents" for one in found):
        found += _look_at_partitions(instance, store, corpus)
    return found


def repair(ingester: Ingester) -> Repair:
    """Mend what can be mended, then ingest. Nothing is mended while the source cannot be listed: it may be needed.

    Raises `RagAssetsError` while somebody else ingests the corpus.
    """
    instance, store, corpus = ingester.instance, ingester.store, ingester.corpus
    seen: dict[tuple[str, str], Finding] = {}
    try:
        with store.lock(ingest_lock(corpus.name), timeout_seconds=0):
            busy = runs_under_way(instance, store, corpus, holding_lock=True)
            if busy:
                raise RagAssetsError(
                    f"corpus {corpus.name}: run {busy[0].run_id[:8]} is under way; wait for it, or terminate it in the UI"
                )
            found = examine(instance, store, corpus)
            for _ in range(_ROUNDS):
                following = _BY_INGEST if seen else ()
                seen |= {(one.kind, one.what): one for one in found if one.kind not in following}
                if any(one.kind == "source_unreachable" for one in found):
                    return Repair(list(seen.values()), found)
                if all(one.kind in _BY_INGEST or not one.fixable for one in found):
                    break
                mend(store, corpus, found)
                _mend_partitions(instance, store, corpus, found)
                found = examine(instance, store, corpus)
    except TimeoutError:
        raise RagAssetsError(f"corpus {corpus.name}: another process ingests it; wait until it has ended") from None
    if not seen:
        return Repair([], [])
    before = latest_publication(store, corpus.name)
    ingested = ingester.ingest()
    left = examine(instance, store, corpus)
    after = latest_publication(store, corpus.name)
    ended = before.changes.get("rolled_back_to") if before and after and not after.is_rollback else None
    return Repair(list(seen.values()), left, ingested, ended)


def _look_at_partitions(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> list[Finding]:
    lost, left = differing_partitions(instance, store, corpus)
    found = []
    if lost:
        what = f"{len(lost):,} documents have no partition in this Dagster instance"
        found.append(Finding("partitions_lost", corpus.name, what, fix_command(corpus.name)))
    if left:
        what = f"{len(left):,} partitions have no document, such as {left[0]}"
        found.append(Finding("partitions_left_over", corpus.name, what, fix_command(corpus.name)))
    return found


def differing_partitions(
    instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings
) -> tuple[list[str], list[str]]:
    """Known documents without a partition, and documents of partitions that are neither known nor in the source. A
    pending document may get its partition with the run that makes it."""
    keys = set(instance.get_dynamic_partitions(partitions_name(corpus.name)))
    known = known_documents(store.documents(corpus.name))
    lost = [name for name, one in known.items() if one.status != "pending" and partition_key(name) not in keys]
    extra = {document_of(key) for key in keys} - known.keys()
    if extra:
        try:
            extra -= open_source(corpus).list().entries.keys()
        except SourceError:
            extra = set()
    return sorted(lost), sorted(extra)


def _mend_partitions(
    instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings, found: Sequence[Finding]
) -> None:
    kinds = {one.kind for one in found}
    if kinds & {"partitions_lost", "partitions_left_over"}:
        lost, left = differing_partitions(instance, store, corpus)
        add_keys(instance, corpus.name, lost)
        delete_keys(instance, corpus.name, left)
