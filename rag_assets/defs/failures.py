"""The sensor `failed_runs_sensor`: a run of this code location that failed is told, in the log and to a webhook."""

import dagster as dg

from rag_assets.config import NotifySettings
from rag_assets.defs.reporting import reason_of
from rag_assets.defs.runs import RETRY_TAG
from rag_assets.notifying import notify


def failed_runs_sensor(told: NotifySettings | None) -> dg.SensorDefinition:
    """The sensor, which tells `told`. It runs by default: without a webhook its log line is all that it costs."""

    @dg.run_failure_sensor(
        name="failed_runs_sensor",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Tells of each run that fails: in its log, and with a POST to the webhook of `notify`. A document that"
        " is set aside is tried again alone; such a run is not told, a check lists the document.",
    )
    def tell(context: dg.RunFailureSensorContext) -> dg.SkipReason | None:
        if RETRY_TAG in context.dagster_run.tags:
            return dg.SkipReason("a document that was set aside was tried again, and failed again")
        text = message(context)
        context.log.error(text)
        problem = notify(told, text)
        if problem:
            context.log.warning(problem)
        return None

    return tell


def message(context: dg.RunFailureSensorContext) -> str:
    """One line: which run of which job failed, and why."""
    run = context.dagster_run
    reasons = (reason_of(event.step_failure_data) for event in context.get_step_failure_events())
    reason = next(filter(None, reasons), context.failure_event.message or "it says nothing")
    return f"rag_assets: run {run.run_id[:8]} of {run.job_name} failed: {' '.join(reason.split())}"
