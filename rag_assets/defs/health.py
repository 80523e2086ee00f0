"""The checks of a corpus in Dagster, the job `C_health` that does all of them, and the schedule that asks for it.

What a check looks at is in `rag_assets.health`. All checks are one op: what several look at is read once.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from rag_assets.config import CorpusSettings, NotifySettings
from rag_assets.defs.assets import check_keys, checked_key
from rag_assets.defs.doctoring import differing_partitions
from rag_assets.defs.resources import EmbeddersResource, StoreResource
from rag_assets.defs.runs import presence_in, stuck_runs
from rag_assets.health.checks import Finding, checks_of, examine
from rag_assets.health.measuring import measurement_of
from rag_assets.health.view import InstanceFacts, View
from rag_assets.notifying import notify
from rag_assets.storing.health import keep_health
from rag_assets.storing.stores import Store

_SEVERITIES = {"error": dg.AssetCheckSeverity.ERROR, "warning": dg.AssetCheckSeverity.WARN}


def health_definitions(corpus: CorpusSettings, told: NotifySettings | None) -> dg.Definitions:
    """The checks, the job and the schedule of `corpus`. Failed checks of the job are told to `told`."""
    job = _health_job(corpus)
    return dg.Definitions(asset_checks=[_checks(corpus, told)], jobs=[job], schedules=[_health_schedule(corpus, job)])


def _checks(corpus: CorpusSettings, told: NotifySettings | None) -> dg.AssetChecksDefinition:
    checks = checks_of(corpus)

    @dg.multi_asset_check(
        name=f"{corpus.name}_checks",
        specs=[
            dg.AssetCheckSpec(
                one.name, asset=checked_key(corpus, one), description=f"{one.description} ({one.severity})"
            )
            for one in checks
        ],
        can_subset=True,
        description=f"Look whether {corpus.name} is as it should be.",
    )
    def look(
        context: dg.AssetCheckExecutionContext, store: StoreResource, embedders: EmbeddersResource
    ) -> Iterator[dg.AssetCheckResult]:
        opened, instance = store.open(), context.instance
        names = {key.name for key in context.op_execution_context.selected_asset_check_keys}
        view = View(
            opened,
            corpus,
            provider_for=embedders.open,
            instance_facts=lambda: _facts(instance, opened, corpus),
            run_id=context.run.run_id,
            presence=presence_in(context.run.tags),
        )
        found = []
        for one in examine(view, [check for check in checks if check.name in names]):
            found.append(one)
            yield _result(corpus, one)
        if len(found) == len(checks):
            _keep(context, view, found, told)

    return look


def _facts(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> InstanceFacts:
    differing = differing_partitions(instance, store, corpus)
    without = sorted([*differing.lost, *differing.misplaced])
    return InstanceFacts(without, differing.left_over, stuck_runs(instance, store, corpus))


def _result(corpus: CorpusSettings, found: Finding) -> dg.AssetCheckResult:
    check, verdict = found.check, found.verdict
    metadata: dict[str, dg.MetadataValue] = {
        name: dg.MetadataValue.float(_readable(value)) if isinstance(value, float) else dg.MetadataValue.int(value)
        for name, value in verdict.figures.items()
    }
    metadata["seconds"] = dg.MetadataValue.float(round(found.seconds, 3))
    if verdict.named:
        metadata["named"] = dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in verdict.named])
    return dg.AssetCheckResult(
        asset_key=checked_key(corpus, check),
        check_name=check.name,
        passed=verdict.passed,
        severity=_SEVERITIES[check.severity],
        description=verdict.summary or None,
        metadata=metadata,
    )


def _readable(value: float) -> float:
    """`value` to six digits: what a person compares."""
    return float(f"{value:.6g}")


def _keep(
    context: dg.AssetCheckExecutionContext, view: View, found: Sequence[Finding], told: NotifySettings | None
) -> None:
    """Add the measurement to the table `health`, and to the plots of `C/published_index`; tell of errors."""
    health = measurement_of(view, found)
    keep_health(view.store, health)
    # A plot of that name is there: the documents that readers find. Here, those that are set aside count as well.
    plotted = {name: value for name, value in health.figures.items() if name != "documents"}
    context.op_execution_context.log_event(dg.AssetObservation([view.corpus.name, "published_index"], metadata=plotted))
    errors = [one for one in found if not one.verdict.passed and one.check.severity == "error"]
    if not errors:
        return
    text = "\n".join(
        f"rag_assets: {view.corpus.name}: not true: {one.check.name}: {one.verdict.summary}" for one in errors
    )
    context.log.error(text)
    problem = notify(told, text)
    if problem:
        context.log.warning(problem)


def _health_job(corpus: CorpusSettings) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        name=f"{corpus.name}_health",
        selection=dg.AssetSelection.checks(*check_keys(corpus)),
        executor_def=dg.in_process_executor,
        description=f"Look at every row of {corpus.name}: do all its checks, and keep the figures in the table health.",
    )


def _health_schedule(corpus: CorpusSettings, job: UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """`C_health_schedule` of `corpus`: every night at four, after maintenance.

    It runs by default: it changes nothing and sends a handful of texts, and an index that nobody looks at is the one that is
    wrong.
    """
    return dg.ScheduleDefinition(
        name=f"{corpus.name}_health_schedule",
        job=job,
        cron_schedule="0 4 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Look every night whether the index of {corpus.name} is right.",
    )
