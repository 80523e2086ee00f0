"""The sensor `C_corpus_sensor`: what the folder holds now becomes at most one ingest and one removal run a tick.

It keeps no truth of its own. Each tick compares the listing with the `documents` table, so a change back and forth is
seen, a lost run is found again, and a deleted table is noticed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import asset_keys, check_keys
from rag_assets.defs.jobs import Job, ingest_job_name
from rag_assets.defs.partitions import move_to_end
from rag_assets.defs.removing import remove_job_name
from rag_assets.defs.resources import StoreResource
from rag_assets.defs.runs import (
    RETRY_TAG,
    add_lost_keys,
    backfill_under_way,
    hold_back_until,
    ingest_lock,
    note_request,
    runs_under_way,
)
from rag_assets.errors import SourceError, StoreError
from rag_assets.reading.source import open_source
from rag_assets.scanning import Scan, due_for_retry, scan
from rag_assets.storing.ledger import make_pending
from rag_assets.storing.publishing import publication_is_due
from rag_assets.storing.stores import Store

RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"


@dataclass(frozen=True)
class Plan:
    """What one tick asks for: documents to materialize in one run, or one failed document alone, and removals."""

    documents: Sequence[str] = ()
    retry: str | None = None
    removed: Sequence[str] = ()


def plan(found: Scan, corpus: CorpusSettings, *, now: datetime) -> Plan:
    """Decide what to do about `found`. A failed document has its turn when nothing else is pending."""
    documents = found.pending[: corpus.max_documents_per_run]
    due = None if documents else due_for_retry(found.failed, max_attempts=corpus.max_attempts, now=now)
    return Plan(
        documents=documents,
        retry=due.document if due else None,
        removed=found.removed[: corpus.max_documents_per_run],
    )


def range_tags(first_key: str, last_key: str) -> dict[str, str]:
    """The tags that make one run cover the partitions from `first_key` to `last_key`."""
    return {RANGE_START_TAG: first_key, RANGE_END_TAG: last_key}


def corpus_sensor(corpus: CorpusSettings, jobs: Sequence[Job]) -> dg.SensorDefinition:
    """`C_corpus_sensor` of `corpus`, for its jobs `C_ingest` and `C_remove`."""

    @dg.sensor(
        name=f"{corpus.name}_corpus_sensor",
        jobs=list(jobs),
        minimum_interval_seconds=corpus.scan_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Follows {corpus.source}: new and changed documents are materialized, vanished ones removed.",
    )
    def follow(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
        opened = store.open()
        try:
            with opened.lock(ingest_lock(corpus.name), timeout_seconds=0):
                return _tick(context, opened, corpus)
        except TimeoutError:
            return dg.SkipReason(f"the command line ingests {corpus.name}")
        except (SourceError, StoreError) as error:
            return dg.SkipReason(str(error))

    return follow


def _tick(context: dg.SensorEvaluationContext, store: Store, corpus: CorpusSettings) -> dg.SensorResult | dg.SkipReason:
    """Look at the corpus, holding its lock: nobody else moves its partitions meanwhile."""
    busy = runs_under_way(context.instance, store, corpus, holding_lock=True)
    if busy:
        return dg.SkipReason(f"run {busy[0].run_id[:8]} of {corpus.name} is under way")
    backfill = backfill_under_way(context.instance, corpus)
    if backfill:
        return dg.SkipReason(f"backfill {backfill} of {corpus.name} is under way")
    until = hold_back_until(context.instance, corpus)
    now = datetime.now(UTC)
    if until and now < until:
        return dg.SkipReason(f"the last run failed; the next one may start at {until:%H:%M:%S} UTC")
    found = scan(store, corpus, open_source(corpus), settle=timedelta(seconds=corpus.settle_seconds))
    add_lost_keys(context.instance, store, corpus, found)
    make_pending(store.documents(corpus.name), found.lost)
    wanted = plan(found, corpus, now=now)
    requests = [*_ingest_requests(context.instance, corpus, wanted), *_removal_requests(corpus, wanted)]
    if not requests and publication_is_due(store, corpus):
        # A run that selects assets and names no checks does all checks of these assets, those of the night too.
        requests = [
            dg.RunRequest(
                job_name=ingest_job_name(corpus.name),
                asset_selection=[dg.AssetKey([corpus.name, "published_index"])],
                asset_check_keys=list(check_keys(corpus, "ingest")),
            )
        ]
    for name, reason in found.refused:
        context.log.warning("%s is passed over: %s", name, reason)
    if found.withheld:
        context.log.warning("deletions are withheld: %s", found.withheld)
    if not requests:
        return dg.SkipReason(_idle(found))
    note_request(store, corpus)
    return dg.SensorResult(run_requests=requests)


def _ingest_requests(instance: dg.DagsterInstance, corpus: CorpusSettings, wanted: Plan) -> list[dg.RunRequest]:
    documents = list(wanted.documents) or ([wanted.retry] if wanted.retry else [])
    if not documents:
        return []
    first, last = move_to_end(instance, corpus.name, documents)
    tags = {"rag_assets/documents": str(len(documents))}
    if wanted.retry:
        # Without what readers see: the failure of one document would turn it red. A retry that succeeds is published next.
        return [
            dg.RunRequest(
                job_name=ingest_job_name(corpus.name),
                partition_key=first,
                asset_selection=list(asset_keys(corpus)[:-1]),
                asset_check_keys=[],
                tags=tags | {RETRY_TAG: "true"},
            )
        ]
    if len(documents) == 1:
        return [dg.RunRequest(job_name=ingest_job_name(corpus.name), partition_key=first, tags=tags)]
    return [dg.RunRequest(job_name=ingest_job_name(corpus.name), tags=tags | range_tags(first, last))]


def _removal_requests(corpus: CorpusSettings, wanted: Plan) -> list[dg.RunRequest]:
    if not wanted.removed:
        return []
    config = {"documents": list(wanted.removed)}
    return [dg.RunRequest(job_name=remove_job_name(corpus.name), run_config=config)]


def _idle(found: Scan) -> str:
    parts = [f"{found.unchanged:,} documents are unchanged"]
    if found.unsettled:
        parts.append(f"{len(found.unsettled):,} are still being written")
    if found.failed:
        parts.append(f"{len(found.failed):,} are set aside")
    if found.withheld:
        parts.append(f"deletions are withheld: {found.withheld}")
    return "; ".join(parts)
