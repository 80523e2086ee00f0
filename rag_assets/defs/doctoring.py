"""`rag-assets doctor`, the part that needs a Dagster instance: partitions, and the ingest that ends a repair."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.ingesting import Ingester
from rag_assets.defs.partitions import (
    delete_keys,
    delete_misplaced,
    document_of,
    keys_of,
    misplaced,
    partition_key,
    shard_of,
)
from rag_assets.defs.placing import place_partitions
from rag_assets.defs.runs import ingest_lock, runs_under_way
from rag_assets.doctoring import Finding, Kind, Repair, diagnose, fix_command
from rag_assets.errors import RagAssetsError, SourceError
from rag_assets.mending import mend
from rag_assets.reading.source import open_source
from rag_assets.storing.ledger import known_documents
from rag_assets.storing.publishing import latest_publication
from rag_assets.storing.stores import Store
from rag_assets.wording import have

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


@dataclass(frozen=True)
class Differences:
    """What partitions and documents of a corpus disagree about: known documents without a partition, documents of partitions
    that are neither known nor in the source, known documents with a partition in a set that is not theirs."""

    lost: Sequence[str] = ()
    left_over: Sequence[str] = ()
    misplaced: Sequence[str] = ()


def _look_at_partitions(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> list[Finding]:
    seen = differing_partitions(instance, store, corpus)
    told: list[tuple[Kind, str]] = []
    if seen.lost:
        told.append(("partitions_lost", f"{have(len(seen.lost), 'document')} no partition in this Dagster instance"))
    if seen.left_over:
        what = f"{have(len(seen.left_over), 'partition')} no document, such as {seen.left_over[0]}"
        told.append(("partitions_left_over", what))
    if seen.misplaced:
        what = f"{len(seen.misplaced):,} partitions are in sets that are not theirs with shards: {corpus.shards}"
        told.append(("partitions_misplaced", what))
    return [Finding(kind, corpus.name, what, fix_command(corpus.name)) for kind, what in told]


def differing_partitions(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> Differences:
    """Compare the partitions of `corpus` with its documents. A pending document may get its partition with the run that
    makes it."""
    known = known_documents(store.documents(corpus.name))
    present = keys_of(instance, corpus.name, shards=corpus.shards)
    elsewhere = {name for names in misplaced(instance, corpus.name, shards=corpus.shards).values() for name in names}
    lost = [
        name
        for name, one in known.items()
        if one.status != "pending"
        and name not in elsewhere
        and partition_key(name) not in present[shard_of(name, corpus.shards)]
    ]
    extra = {document_of(key) for keys in present.values() for key in keys} | elsewhere
    extra -= known.keys()
    if extra:
        try:
            extra -= open_source(corpus).list().entries.keys()
        except SourceError:
            extra = set()
    return Differences(sorted(lost), sorted(extra), sorted(elsewhere & known.keys()))


def _mend_partitions(
    instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings, found: Sequence[Finding]
) -> None:
    if not any(one.kind in ("partitions_lost", "partitions_left_over", "partitions_misplaced") for one in found):
        return
    known = known_documents(store.documents(corpus.name))
    pending = {name for name, one in known.items() if one.status == "pending"}
    while place_partitions(instance, corpus, known, pending=pending).left:
        pass
    seen = differing_partitions(instance, store, corpus)
    elsewhere = misplaced(instance, corpus.name, shards=corpus.shards)
    delete_misplaced(instance, corpus.name, set(seen.misplaced), elsewhere)
    delete_keys(instance, corpus.name, seen.left_over, shards=corpus.shards)
