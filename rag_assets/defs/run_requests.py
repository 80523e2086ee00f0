"""The runs that write documents of a corpus, as the sensor asks Dagster for them and the command line executes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import check_keys, partitioned_keys, published_key
from rag_assets.defs.jobs import ingest_job_name
from rag_assets.defs.partitions import Shard, move_to_end, shards_of
from rag_assets.defs.runs import PUBLICATION_TAG, presence_tags
from rag_assets.scanning import Presence

_RANGE_START_TAG = "dagster/asset_partition_range_start"
_RANGE_END_TAG = "dagster/asset_partition_range_end"


@dataclass(frozen=True)
class Batch:
    """Documents of one shard to materialize in one run, which `publishes` at its end or leaves that to a later one."""

    shard: Shard
    documents: Sequence[str]
    publishes: bool = True


def publishing(batches: Sequence[tuple[Shard, Sequence[str]]], size: int) -> list[Batch]:
    """Runs over `batches`, of which the last publishes, and each before it when `size` documents have come together: a few
    documents in each of many shards are published once."""
    runs, unpublished = [], 0
    for number, (shard, documents) in enumerate(batches, start=1):
        unpublished += len(documents)
        publishes = unpublished >= size or number == len(batches)
        unpublished = 0 if publishes else unpublished
        runs.append(Batch(shard, documents, publishes))
    return runs


def ingest_request(
    instance: dg.DagsterInstance,
    corpus: CorpusSettings,
    batch: Batch,
    *,
    presence: Presence,
    tags: Mapping[str, str] | None = None,
) -> dg.RunRequest:
    """The run that materializes `batch`, with `tags`, after a scan that saw the `presence` of the source. Its partitions
    become the last ones of their set."""
    first, last = move_to_end(instance, corpus.name, batch.documents, shard=batch.shard)
    alone = len(batch.documents) == 1
    return dg.RunRequest(
        job_name=ingest_job_name(corpus.name, batch.shard),
        partition_key=first if alone else None,
        tags={
            "rag_assets/documents": str(len(batch.documents)),
            **presence_tags(presence),
            **(tags or {}),
            **({} if alone else {_RANGE_START_TAG: first, _RANGE_END_TAG: last}),
        },
        asset_selection=None if batch.publishes else list(partitioned_keys(corpus.name, batch.shard)),
        asset_check_keys=None if batch.publishes else [],
    )


def publication_request(corpus: CorpusSettings) -> dg.RunRequest:
    """The run that publishes what is indexed, and makes nothing."""
    return dg.RunRequest(
        job_name=ingest_job_name(corpus.name, shards_of(corpus.shards)[0]),
        tags={PUBLICATION_TAG: "true"},
        asset_selection=[published_key(corpus.name)],
        # A run that selects assets and names no checks does all checks of these assets, those of the night too.
        asset_check_keys=list(check_keys(corpus, "ingest")),
    )
