"""The sensor `C_corpus_sensor`: what the folder holds now becomes at most one ingest, one a shard where the corpus has
several, and one removal run a tick.

It keeps no truth of its own. Each tick compares the listing with the `documents` table, so a change back and forth is
seen, a lost run is found again, and a deleted table is noticed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.jobs import Job
from rag_assets.defs.partitions import by_shard, shard_of
from rag_assets.defs.placing import Placed, place_partitions
from rag_assets.defs.removing import remove_job_name
from rag_assets.defs.resources import StoreResource
from rag_assets.defs.run_requests import Batch, ingest_request, publication_request, publishing
from rag_assets.defs.runs import (
    RETRY_TAG,
    backfill_under_way,
    hold_back_until,
    ingest_lock,
    note_request,
    runs_under_way,
)
from rag_assets.errors import SourceError, StoreError
from rag_assets.reading.source import open_source
from rag_assets.scanning import Presence, ReadingLimit, Scan, due_for_retry, scan
from rag_assets.storing.ledger import Standings, make_pending
from rag_assets.storing.publishing import publication_is_due
from rag_assets.storing.stores import Store

# A tick has 60 seconds, and there are other things to do in it. Ten thousand new times of modification take one to read.
_READING_SECONDS = 15.0


@dataclass(frozen=True)
class Plan:
    """What one tick asks for: documents to materialize, or one failed document alone, and removals."""

    batches: Sequence[Batch] = ()
    retry: str | None = None
    removed: Sequence[str] = ()


def plan(found: Scan, corpus: CorpusSettings, *, now: datetime) -> Plan:
    """Decide what to do about `found`. A failed document has its turn when nothing else is pending."""
    size = corpus.max_documents_per_run
    batches = [(shard, names[:size]) for shard, names in by_shard(found.pending, corpus.shards).items()]
    due = None if batches else due_for_retry(found.failed, max_attempts=corpus.max_attempts, now=now)
    return Plan(
        batches=publishing(batches, size),
        retry=due.document if due else None,
        removed=found.removed[: corpus.max_documents_per_run],
    )


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
        meanwhile = _publication_requests(context.instance, store, corpus, now=now) if corpus.shards > 1 else []
        idle = f"the last run failed; the next one may start at {until:%H:%M:%S} UTC"
        return _asked(store, corpus, meanwhile, idle=idle)
    limit = ReadingLimit(changed=corpus.max_documents_per_run * corpus.shards, seconds=_READING_SECONDS)
    settle = timedelta(seconds=corpus.settle_seconds)
    found = scan(store, corpus, open_source(corpus), settle=settle, limit=limit)
    pending, gone = set(found.pending), set(found.gone)
    placed = place_partitions(context.instance, corpus, found.known, pending=pending, gone=gone)
    make_pending(store.documents(corpus.name), found.lost)
    wanted = plan(found, corpus, now=now)
    removals_until = hold_back_until(context.instance, corpus, "removals") if wanted.removed else None
    if removals_until and now < removals_until:
        wanted = replace(wanted, removed=())
    requests: list[dg.RunRequest] = []
    if not wanted.batches and not wanted.removed:  # before a document is tried again, which may take many ticks
        requests = _publication_requests(context.instance, store, corpus, now=now, known=found.known)
    if not requests:
        requests = [
            *_ingest_requests(context.instance, corpus, wanted, found.presence),
            *_removal_requests(corpus, wanted),
        ]
    for name, reason in found.refused:
        context.log.warning("%s is passed over: %s", name, reason)
    if found.withheld:
        context.log.warning("deletions are withheld: %s", found.withheld)
    return _asked(store, corpus, requests, idle=_idle(found, placed, removals_until))


def _asked(
    store: Store, corpus: CorpusSettings, requests: Sequence[dg.RunRequest], *, idle: str
) -> dg.SensorResult | dg.SkipReason:
    """The result of a tick that asks for `requests`; where there are none, `idle` says why."""
    if not requests:
        return dg.SkipReason(idle)
    note_request(store, corpus, len(requests))
    return dg.SensorResult(run_requests=list(requests))


def _publication_requests(
    instance: dg.DagsterInstance,
    store: Store,
    corpus: CorpusSettings,
    *,
    now: datetime,
    known: Standings | None = None,
) -> list[dg.RunRequest]:
    """A run that only publishes, where readers miss something and no such run has just failed. It is asked for where no run
    that makes documents is, and so waits for none that is pending: that may be out of reach for days, or its shard fail."""
    until = hold_back_until(instance, corpus, "publications")
    if until and now < until:
        return []
    due = publication_is_due(store, corpus, known=known, beside_pending=True)
    return [publication_request(corpus)] if due else []


def _ingest_requests(
    instance: dg.DagsterInstance, corpus: CorpusSettings, wanted: Plan, presence: Presence
) -> list[dg.RunRequest]:
    if wanted.retry:
        # Without what readers see: the failure of one document would turn it red. A retry that succeeds is published next.
        batch = Batch(shard_of(wanted.retry, corpus.shards), [wanted.retry], publishes=False)
        return [ingest_request(instance, corpus, batch, presence=presence, tags={RETRY_TAG: "true"})]
    return [ingest_request(instance, corpus, batch, presence=presence) for batch in wanted.batches]


def _removal_requests(corpus: CorpusSettings, wanted: Plan) -> list[dg.RunRequest]:
    if not wanted.removed:
        return []
    config = {"documents": list(wanted.removed)}
    return [dg.RunRequest(job_name=remove_job_name(corpus.name), run_config=config)]


def _idle(found: Scan, placed: Placed, removals_until: datetime | None) -> str:
    parts = [f"{found.unchanged:,} documents are unchanged"]
    if placed.left:
        parts.append(f"{placed.moved:,} partitions moved to their shards, {placed.left:,} do so with the next ticks")
    if found.unsettled:
        parts.append(f"{len(found.unsettled):,} are still being written")
    if found.unread:
        parts.append(f"{len(found.unread):,} may have changed and are read by the next ticks")
    if found.failed:
        parts.append(f"{len(found.failed):,} are set aside")
    if found.removed and removals_until:
        parts.append(
            f"{len(found.removed):,} are gone; the last removal failed, the next is at {removals_until:%H:%M:%S} UTC"
        )
    if found.withheld:
        parts.append(f"deletions are withheld: {found.withheld}")
    return "; ".join(parts)
