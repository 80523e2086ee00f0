"""Partitions come to the set that they belong to: those that Dagster lost, and those whose set is another one since `shards`
of the corpus was changed.

Tables and publications know no shards. So nothing is read, embedded or indexed for it: keys move, and Dagster is told what
became of each document, because its history stays with the asset that it had before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import partitioned_keys
from rag_assets.defs.partitions import (
    Shard,
    add_keys,
    by_shard,
    delete_misplaced,
    keys_of,
    misplaced,
    partition_key,
    partitions_name,
)
from rag_assets.defs.reporting import report_together
from rag_assets.storing.ledger import KnownDocument

# Four events a document, 2 ms of CPU: what one look of the sensor has time for.
MOVED_AT_ONCE = 2_000


@dataclass(frozen=True)
class Placed:
    """How many partitions were moved, and how many are still in a set that is not theirs."""

    moved: int = 0
    left: int = 0


def place_partitions(
    instance: dg.DagsterInstance,
    corpus: CorpusSettings,
    known: Mapping[str, KnownDocument],
    *,
    pending: Set[str] = frozenset(),
    gone: Set[str] = frozenset(),
) -> Placed:
    """Give the documents that are `known` their partitions in the sets where they belong; at most `MOVED_AT_ONCE` move.

    Those of `pending` get theirs with the run that makes them, those that are `gone` get none. A partition that moves is
    reported as materialized, with what is known of the document: it would count as missing, though nothing is to be made.
    A document that has one in its own set and in another loses the other when any has to move, because only then do we look
    there; at other times `doctor` finds it.
    """
    missing = sorted(name for name in _without_partition(instance, corpus, known) if name not in gone)
    if not missing:
        return Placed()
    elsewhere = misplaced(instance, corpus.name, shards=corpus.shards)
    holders = {document: holder for holder, members in elsewhere.items() for document in members}
    lost = [document for document in missing if document not in holders and document not in pending]
    begun = [document for document in missing if document in holders and document in pending]
    twice = holders.keys() & (known.keys() - gone - set(missing))
    moving = [document for document in missing if document in holders and document not in pending]
    moved = moving[:MOVED_AT_ONCE]
    # Whatever is interrupted is done again: a document that is in no set counts as lost the next time.
    report_together(instance, _materializations(corpus, [known[document] for document in moved], holders))
    delete_misplaced(instance, corpus.name, {*moved, *begun, *twice}, elsewhere)
    add_keys(instance, corpus.name, [*lost, *moved, *begun], shards=corpus.shards)
    return Placed(len(moved), len(moving) - len(moved))


def place_documents(instance: dg.DagsterInstance, corpus: CorpusSettings, documents: Sequence[str]) -> None:
    """Give `documents`, which are about to be made, their partitions in the sets where they belong."""
    missing = _without_partition(instance, corpus, documents)
    if missing:
        elsewhere = misplaced(instance, corpus.name, shards=corpus.shards)
        delete_misplaced(instance, corpus.name, set(missing), elsewhere)
        add_keys(instance, corpus.name, missing, shards=corpus.shards)


def _without_partition(instance: dg.DagsterInstance, corpus: CorpusSettings, documents: Iterable[str]) -> list[str]:
    present = keys_of(instance, corpus.name, shards=corpus.shards)
    return [
        document
        for shard, members in by_shard(documents, corpus.shards).items()
        for document in members
        if partition_key(document) not in present[shard]
    ]


def _materializations(
    corpus: CorpusSettings, moved: Sequence[KnownDocument], holders: Mapping[str, Shard]
) -> Iterator[dg.AssetMaterialization]:
    known = {one.document: one for one in moved}
    for shard, documents in by_shard(known, corpus.shards).items():
        for key in partitioned_keys(corpus.name, shard):
            for document in documents:
                yield dg.AssetMaterialization(
                    asset_key=key,
                    partition=partition_key(document),
                    description="Not made again: the partition has moved, because shards of the corpus was changed.",
                    metadata=_figures(known[document], partitions_name(corpus.name, holders[document])),
                )


def _figures(known: KnownDocument, moved_from: str) -> Mapping[str, dg.MetadataValue | str | int]:
    figures: dict[str, dg.MetadataValue | str | int] = {
        "document": known.document,
        "status": known.status,
        "moved_from": moved_from,
    }
    for name in ("stage", "reason", "title", "bytes", "chunks", "tokens"):
        value = getattr(known, name)
        if value is not None:
            figures[name] = value
    if known.run_id:
        figures["made_by"] = dg.MetadataValue.dagster_run(known.run_id)
    return figures
