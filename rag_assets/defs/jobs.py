"""The job `C_ingest`: all assets of a corpus, for any number of documents, in one process; and what all jobs that write to
a corpus have in common.

A job has one set of partitions: a corpus of several shards has a job `C_ingest_07` for each.
"""

import re

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import check_keys, partitioned_keys, published_key
from rag_assets.defs.partitions import Shard, shard_label

Job = dg.JobDefinition | UnresolvedAssetJobDefinition

# Names the corpus of a run that writes to it: a limit of the run queue by this tag lets the second of two wait without a
# process, see deploy/dagster.yaml. Locks of the store keep them apart.
CORPUS_TAG = "rag_assets/corpus"


def ingest_job_name(corpus: str, shard: Shard = None) -> str:
    """The name of the job that materializes documents of `corpus`, or of a shard of it."""
    return f"{corpus}_ingest" if shard is None else f"{corpus}_ingest_{shard_label(shard)}"


def is_ingest_job(job: str, corpus: str) -> bool:
    """Whether `job` materializes documents of `corpus`, whatever number of shards it had then."""
    return re.fullmatch(rf"{re.escape(corpus)}_ingest(_\d\d)?", job) is not None


def ingest_job(corpus: CorpusSettings, shard: Shard = None) -> UnresolvedAssetJobDefinition:
    """`C_ingest` of `corpus`, or of a shard of it.

    Its steps share one process: a process a step would pay five times for importing Dagster and loading the model. Of the
    checks only those run that cost nothing beside an ingest; the others run at night.
    """
    return dg.define_asset_job(
        name=ingest_job_name(corpus.name, shard),
        selection=dg.AssetSelection.assets(
            *partitioned_keys(corpus.name, shard), published_key(corpus.name)
        ).without_checks()
        | dg.AssetSelection.checks(*check_keys(corpus, "ingest")),
        executor_def=dg.in_process_executor,
        tags={CORPUS_TAG: corpus.name},
        description=f"Read, cut, embed, index and publish documents of {corpus.name}"
        + ("." if shard is None else f", those of shard {shard_label(shard)}."),
    )
