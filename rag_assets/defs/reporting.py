"""How an asset tells Dagster what it did: metadata on each partition, a summary on the run, failures as failures.

`partition_metadata`, `log_together` and `report_together` are the adapters around what we use of Dagster that is private.
The public call in place of the first reads the whole partition range from the database for each document, which is quadratic
(178 ms of CPU a document instead of 11); those in place of the others write one event at a time (400 ms a document instead
of 7).
"""

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster._core.execution.plan.objects import StepFailureData

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import stage_key
from rag_assets.defs.partitions import document_of, partition_key, shard_of
from rag_assets.errors import RagAssetsError, Stage
from rag_assets.materializing.reports import StageReport
from rag_assets.monitoring.events import event

# What has become of a document that an asset passed; `index` tells it itself.
_STATUSES = {"documents": "read", "chunks": "cut", "embeddings": "embedded"}


def batch_of(context: dg.AssetExecutionContext) -> list[str]:
    """The documents of this run, in the order of their partitions."""
    return [document_of(key) for key in context.partition_keys]


def reason_of(failure: StepFailureData) -> str | None:
    """What a failed step said, in one line, without Dagster's frame around it; None where it said nothing."""
    if failure.user_failure_data and failure.user_failure_data.description:
        return failure.user_failure_data.description
    error = failure.error
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message.strip().splitlines()[0] if error is not None else None


@contextmanager
def failures_told() -> Iterator[None]:
    """Turn our errors into Dagster failures that show their sentence. They are not retried: the message says what to do."""
    try:
        yield
    except RagAssetsError as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error


def partition_metadata(context: dg.AssetExecutionContext, metadata: Mapping[str, Mapping[str, Any]]) -> None:
    """Attach metadata to the materialization of each document's partition: document → label → value."""
    by_key = {partition_key(document): values for document, values in metadata.items()}
    try:
        step = context.op_execution_context._step_execution_context
        accumulator = step._metadata_accumulator
        for key, values in by_key.items():
            accumulator = accumulator.with_additional_asset_metadata(context.asset_key, key, values)
        step._metadata_accumulator = accumulator
    except AttributeError:  # another Dagster: slower, and the same result
        for key, values in by_key.items():
            context.add_asset_metadata(values, partition_key=key)


def log_together(
    context: dg.OpExecutionContext, events: Sequence[dg.AssetMaterialization | dg.AssetObservation]
) -> None:
    """Write events of assets from an op that is no asset itself, at once, in one batch."""
    try:
        from dagster._core.events import DagsterEvent, DagsterEventBatchMetadata

        step = context._step_execution_context
        batch_id = str(uuid.uuid4())
    except (AttributeError, ImportError):  # another Dagster: slower, and when the op ends
        for event in events:
            context.log_event(event)
        return
    for number, event in enumerate(events, start=1):
        batch = DagsterEventBatchMetadata(batch_id, number == len(events))
        if isinstance(event, dg.AssetMaterialization):
            DagsterEvent.asset_materialization(step, event, batch)
        else:
            DagsterEvent.asset_observation(step, event, batch)


def report_together(instance: dg.DagsterInstance, events: Iterable[dg.AssetMaterialization]) -> None:
    """Write materializations that belong to no run, in batches."""
    written = list(events)
    try:
        _report_in_batch(instance, written)
    except (AttributeError, ImportError, TypeError):  # another Dagster: slower
        for event in written:
            instance.report_runless_asset_event(event)


def _report_in_batch(instance: dg.DagsterInstance, materializations: Sequence[dg.AssetMaterialization]) -> None:
    from dagster._core.events import (
        DagsterEvent,
        DagsterEventBatchMetadata,
        DagsterEventType,
        StepMaterializationData,
    )
    from dagster._core.instance.utils import RUNLESS_JOB_NAME, RUNLESS_RUN_ID

    batch_id = str(uuid.uuid4())
    for number, materialization in enumerate(materializations, start=1):
        instance.report_dagster_event(
            DagsterEvent(
                DagsterEventType.ASSET_MATERIALIZATION.value,
                job_name=RUNLESS_JOB_NAME,
                event_specific_data=StepMaterializationData(materialization),
            ),
            run_id=RUNLESS_RUN_ID,
            batch_metadata=DagsterEventBatchMetadata(batch_id, number == len(materializations)),
        )


def materializations_of(corpus: CorpusSettings, asset: str, result: StageReport) -> list[dg.AssetMaterialization]:
    """One materialization a document that passed, with what `result` says of it."""
    return [
        dg.AssetMaterialization(
            asset_key=stage_key(corpus.name, asset, shard_of(document, corpus.shards)),
            partition=partition_key(document),
            metadata=_of_document(asset, document, figures),
        )
        for document, figures in result.documents.items()
    ]


def report(context: dg.AssetExecutionContext, stage: Stage, result: StageReport) -> dict[str, Any]:
    """Attach what `result` says of each document, and return the summary of the run.

    A document that is alone in its run and was set aside fails the run, so that its partition turns red with the reason.
    """
    for document, error in result.failed.items():
        context.log.error("%s was set aside: %s", document, error.reason)
    asked = context.partition_key_range  # their number would be read from all keys of the corpus
    if asked.start == asked.end and result.failed:
        document, error = next(iter(result.failed.items()))
        raise dg.Failure(description=f"{document}: {error.reason}", allow_retries=False)
    corpus, *_, asset = context.asset_key.path
    metadata: dict[str, Mapping[str, Any]] = {
        document: _of_document(asset, document, figures) for document, figures in result.documents.items()
    }
    for document, error in result.failed.items():
        metadata[document] = {"document": document, "status": "failed", "stage": stage, "reason": error.reason}
    for document, reason in result.skipped.items():
        metadata[document] = {"document": document, "status": "skipped", "reason": reason}
    partition_metadata(context, metadata)
    tell_stage(corpus, context.run.run_id, asset, result)
    context.log.info(
        "%d documents passed, %d were set aside, %d were skipped",
        len(result.documents),
        len(result.failed),
        len(result.skipped),
    )
    return {"documents": len(result.documents), "set_aside": len(result.failed)}


def tell_stage(corpus: str, run_id: str, asset: str, result: StageReport) -> None:
    """Tell a machine what became of the documents of `corpus` on their way through `asset`."""
    ran = {"corpus": corpus, "run_id": run_id, "step": asset}
    for document, error in result.failed.items():
        what = f"{document} was set aside: {error.reason}"
        about = {"document": document, "reason": error.reason}
        event("document_set_aside", what, {**ran, **about}, level=logging.WARNING)
    counts = {"documents": len(result.documents), "set_aside": len(result.failed), "skipped": len(result.skipped)}
    event("stage_finished", f"{corpus}: {len(result.documents)} documents passed {asset}", {**ran, **counts})


def _of_document(asset: str, document: str, figures: Mapping[str, object]) -> dict[str, Any]:
    """What the page of a partition tells."""
    return {"document": document, "status": _STATUSES.get(asset), **_readable(figures)}


def _readable(figures: Mapping[str, object]) -> dict[str, Any]:
    """Figures as metadata: a link for the source, a fenced block for the preview, None left out."""
    values: dict[str, Any] = {}
    for label, value in figures.items():
        if value is None:
            continue
        if label == "source_uri":
            values[label] = dg.MetadataValue.url(str(value))
        elif label == "preview":
            fence = "`" * 8
            values[label] = dg.MetadataValue.md(f"{fence}\n{value}\n{fence}")
        else:
            values[label] = value
    return values
