"""The job `C_maintain`, and the schedule that asks for it every night: tables are compacted, and what nothing needs is
deleted."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.jobs import CORPUS_TAG
from rag_assets.defs.published_index import publication_metadata
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.storing.maintaining import maintain


def maintain_job(corpora: Mapping[str, CorpusSettings], corpus: CorpusSettings) -> dg.JobDefinition:
    """`C_maintain` of `corpus`, one of `corpora`."""

    # What readers see was verified and its indices brought up to date, moved or not: it is fresh.
    @dg.op(
        name=f"{corpus.name}_maintain_tables",
        description="Compact the tables, bring the search indices up to date, and delete the versions, generations and"
        " vectors that nothing needs any more. Readers and writers go on meanwhile.",
        out=dg.Out(dict),
    )
    def maintain_op(context: dg.OpExecutionContext, store: StoreResource) -> dg.Output[dict[str, Any]]:
        opened = store.open()
        with failures_told():
            done = maintain(opened, corpora, corpus, run_id=context.run_id)
        if done.published and done.published.published:
            context.log_event(
                dg.AssetMaterialization(
                    asset_key=[corpus.name, "published_index"],
                    metadata=publication_metadata(opened, corpus, done.published, run_id=context.run_id),
                )
            )
        for warning in filter(None, (done.problem, done.vectors.kept_because)):
            context.log.warning(warning)
        figures = done.figures
        return dg.Output(figures, metadata={name: value for name, value in figures.items() if value is not None})

    @dg.job(
        name=f"{corpus.name}_maintain",
        executor_def=dg.in_process_executor,
        tags={CORPUS_TAG: corpus.name},
        description=f"Compact the tables of {corpus.name} and delete what nothing needs any more.",
    )
    def maintain_tables() -> None:
        maintain_op()

    return maintain_tables


def maintenance_schedule(corpus: CorpusSettings, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """`C_maintenance_schedule` of `corpus`: every night at three.

    It runs by default: what it deletes, the retention of the corpus allows, and a platform that nobody looks after is the
    one that fills its disk.
    """
    return dg.ScheduleDefinition(
        name=f"{corpus.name}_maintenance_schedule",
        job=job,
        cron_schedule="0 3 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Look after the tables of {corpus.name} every night.",
    )
