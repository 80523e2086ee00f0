"""The job `C_reindex`: documents are made again in one run, batch by batch, and published once at the end."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field

from rag_assets.config import CorpusSettings
from rag_assets.defs.jobs import CORPUS_TAG
from rag_assets.defs.placing import place_documents
from rag_assets.defs.published_index import asked_by_sensor, publication_metadata
from rag_assets.defs.reporting import failures_told, log_together, materializations_of, tell_stage
from rag_assets.defs.resources import EmbeddersResource, StoreResource
from rag_assets.progress import Heartbeat, reporting
from rag_assets.reindexing import Batch, Reindexed, choose, refuse_no_match, reindex, scope_of, time_to_go_on_with
from rag_assets.scoring.comparing import approval
from rag_assets.storing.publishing import publish
from rag_assets.storing.stores import Store

_REPORT = "report"
_SHOWN = 100


class ReindexConfig(dg.Config):
    """The root of the run configuration of `C_reindex`."""

    documents: str | None = Field(
        default=None, description="Only documents whose path matches this glob, such as guide/**/*.md."
    )
    failed: bool = Field(default=False, description="Only what was set aside, or begun and not finished.")
    all: bool = Field(default=False, description="Also documents that are current.")
    older_than: str | None = Field(
        default=None,
        description="Also current documents that were indexed before this time, such as 2026-01-31T12:00:00 (UTC).",
    )
    batch_size: int | None = Field(
        default=None, ge=1, description="Documents a batch; by default max_documents_per_run of the corpus."
    )


def reindex_job_name(corpus: str) -> str:
    """The name of the job that makes documents of `corpus` again."""
    return f"{corpus}_reindex"


def reindex_job(corpus: CorpusSettings) -> dg.JobDefinition:
    """`C_reindex` of `corpus`."""

    @dg.op(
        name=f"{corpus.name}_reindex_documents",
        description="Read, cut, embed and index what is not current, batch by batch; publish when all batches are done."
        " A batch that fails stops no other, and fails the run at the end.",
        out=dg.Out(dict),
    )
    def reindex_op(
        context: dg.OpExecutionContext, config: ReindexConfig, store: StoreResource, embedders: EmbeddersResource
    ) -> dg.Output[dict[str, Any]]:
        opened = store.open()
        with failures_told():
            scope = scope_of(failed=config.failed, everything=config.all, older_than=config.older_than)
            choice = choose(opened, corpus, scope=scope, documents=config.documents)
            refuse_no_match([corpus.name], config.documents, choice.matched)
            outcome = Reindexed(choice)
            if config.all:
                context.log.info(
                    "if this is stopped, older_than: %s instead of all goes on with it", time_to_go_on_with()
                )
            place_documents(context.instance, corpus, choice.documents)
            batches = reindex(
                opened,
                corpus,
                embedders.open_for_documents(corpus.embedding),
                choice.documents,
                batch_size=config.batch_size or corpus.max_documents_per_run,
                run_id=context.run_id,
                progress=reporting(Heartbeat(context.log.info)),
            )
            for batch in batches:
                outcome.add(batch)
                _tell(context, corpus, batch, outcome)
            resume = bool(choice.documents) and not asked_by_sensor(context.run)
            metadata = _publish(context, opened, corpus, resume=resume)
        report = outcome.report() | {name: metadata.get(name) for name in ("index_version", "moved", "waiting")}
        if outcome.failed_batches:
            raise dg.Failure(_failure(outcome), metadata=_metadata(report), allow_retries=False)
        return dg.Output(report, metadata=_metadata(report))

    @dg.config_mapping
    def choice_at_the_root(config: ReindexConfig) -> dg.RunConfig:
        return dg.RunConfig(ops={f"{corpus.name}_reindex_documents": config})

    @dg.job(
        name=reindex_job_name(corpus.name),
        config=choice_at_the_root,
        executor_def=dg.in_process_executor,
        tags={CORPUS_TAG: corpus.name},
        description=f"Make documents of {corpus.name} again that are not current, or others as well, in batches.",
    )
    def reindex_documents() -> None:
        reindex_op()

    return reindex_documents


def report_of(result: dg.ExecuteInProcessResult) -> Mapping[str, Any] | None:
    """What a run of `C_reindex` did, whether batches failed or not; None where it could not begin, or not publish."""
    for event in result.all_events:
        if event.is_step_failure and event.step_failure_data.user_failure_data:
            values: Mapping[str, Any] = event.step_failure_data.user_failure_data.metadata
        elif event.is_successful_output:
            values = event.step_output_data.metadata
        else:
            continue
        if _REPORT in values:
            report: Mapping[str, Any] = values[_REPORT].value
            return report
    return None


def _tell(context: dg.OpExecutionContext, corpus: CorpusSettings, batch: Batch, outcome: Reindexed) -> None:
    """Materializations of the documents of a batch that went through, and how far the generation is."""
    for asset, report in batch.reports.items():
        tell_stage(corpus.name, context.run_id, asset, report)
    if "index" in batch.reports:
        events = [
            event for asset, report in batch.reports.items() for event in materializations_of(corpus, asset, report)
        ]
        generation, share = outcome.choice.generation, outcome.generation_progress
        progress: dict[str, Any] = {
            "generation": generation,
            "generation_progress": share,
            "remade": outcome.remade,
        }
        log_together(context, [*events, dg.AssetObservation([corpus.name, "published_index"], metadata=progress)])
        context.log.info(
            "batch %d: %d of %d documents made again, %.1f %% are of generation %s",
            batch.number,
            outcome.remade,
            len(outcome.choice.documents),
            100 * share,
            generation,
        )
    for report in batch.reports.values():
        for document, error in report.failed.items():
            context.log.error("%s was set aside: %s", document, error.reason)
    if batch.problem is not None:
        context.log.error("batch %d (%d documents) failed: %s", batch.number, len(batch.documents), batch.problem)


def _publish(context: dg.OpExecutionContext, store: Store, corpus: CorpusSettings, *, resume: bool) -> dict[str, Any]:
    approve = approval(store, corpus, run_id=context.run_id, progress=reporting(Heartbeat(context.log.info)))
    result = publish(store, corpus, run_id=context.run_id, resume=resume, approve=approve)
    if result.waiting:
        context.log.warning("not published yet: %s", result.waiting)
    metadata = publication_metadata(store, corpus, result, run_id=context.run_id)
    log_together(context, [dg.AssetMaterialization([corpus.name, "published_index"], metadata=metadata)])
    return metadata


def _failure(outcome: Reindexed) -> str:
    chosen = len(outcome.choice.documents)
    reasons = list(dict.fromkeys(failed.reason for failed in outcome.failed_batches))
    and_so_on = f" (and {len(reasons) - 1} other reasons, see the log)" if len(reasons) > 1 else ""
    stopped = "; the batches after it would have failed as well and were not begun" if outcome.stopped else ""
    return (
        f"{len(outcome.failed_batches)} of {outcome.batches} batches failed, and {outcome.left} of {chosen}"
        f" documents are still to be made: {reasons[0]}{and_so_on}{stopped}"
    )


def _metadata(report: Mapping[str, Any]) -> dict[str, Any]:
    """`report` for the UI: its numbers, the failures as tables, and all of it as JSON."""
    plain = {name: value for name, value in report.items() if isinstance(value, str | int | float)}
    tables = {
        name: dg.MetadataValue.table([dg.TableRecord(row) for row in report[name][:_SHOWN]])
        for name in ("failed", "failed_batches")
        if report[name]
    }
    return {**plain, **tables, _REPORT: dg.MetadataValue.json(dict(report))}
