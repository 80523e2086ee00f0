"""Everything in `defs/`, put together for the corpora of one configuration."""

import dagster as dg

from rag_assets.config import Settings
from rag_assets.defs.asking import ask_job
from rag_assets.defs.chunks import chunks_asset
from rag_assets.defs.documents import documents_asset
from rag_assets.defs.embeddings import embeddings_asset
from rag_assets.defs.estimating import estimate_job
from rag_assets.defs.evaluation import evaluation_definitions
from rag_assets.defs.failures import failed_runs_sensor
from rag_assets.defs.health import health_definitions
from rag_assets.defs.index import index_asset
from rag_assets.defs.jobs import Job, ingest_job
from rag_assets.defs.maintaining import maintain_job, maintenance_schedule
from rag_assets.defs.partitions import shards_of
from rag_assets.defs.published_index import published_index_asset
from rag_assets.defs.reindexing import reindex_job
from rag_assets.defs.removing import remove_job
from rag_assets.defs.resources import EmbeddersResource, StoreResource
from rag_assets.defs.rolling_back import rollback_job
from rag_assets.defs.sensors import corpus_sensor


def build_definitions(settings: Settings) -> dg.Definitions:
    """The definitions for the corpora of `settings`."""
    partitioned = (documents_asset, chunks_asset, embeddings_asset, index_asset)
    parts = [dg.Definitions(jobs=[ask_job(settings)], sensors=[failed_runs_sensor(settings.notify)])]
    for corpus in settings.corpora.values():
        shards = shards_of(corpus.shards)
        requested: list[Job] = [*(ingest_job(corpus, shard) for shard in shards), remove_job(corpus)]
        maintenance = maintain_job(settings.corpora, corpus)
        parts += [evaluation_definitions(corpus), health_definitions(corpus, settings.notify)]
        parts.append(
            dg.Definitions(
                assets=[
                    *(make(corpus, shard) for shard in shards for make in partitioned),
                    published_index_asset(corpus),
                ],
                jobs=[*requested, reindex_job(corpus), estimate_job(corpus), rollback_job(corpus), maintenance],
                sensors=[corpus_sensor(corpus, requested)],
                schedules=[maintenance_schedule(corpus, maintenance)],
            )
        )
    shared = dg.Definitions(
        resources={"store": StoreResource(home=settings.home), "embedders": EmbeddersResource()},
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(*parts, shared)
