"""The sensor `C_corpus_sensor`: what the folder holds now becomes at most one ingest, one a shard where the corpus has
several, and one removal run a tick.

It keeps no truth of its own. Each tick compares the listing with the `documents` table, so a change back and forth is
seen, a lost run is found again, and a deleted table is noticed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import check_keys, partitioned_keys, published_key
from rag_assets.defs.jobs import Job, ingest_job_name
from rag_assets.defs.partitions import Shard, by_shard, move_to_end, shard_of, shards_of
from rag_assets.defs.placing import Placed, place_partitions
from rag_assets.defs.removing import remove_job_name
from rag_assets.defs.resources import StoreResource
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
from rag_assets.scanning import ReadingLimit, Scan, due_for_retry, scan
from rag_assets.storing.ledger import make_pending
from rag_assets.storing.publishing import publication_is_due
from rag_assets.storing.stores import Store

RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"
# A tick has 60 seconds, and there are other things to do in it. Ten thousand new times of modification take one to read.
_READING_SECONDS = 15.0


@dataclass(frozen=True)
class Batch:
    """Documents of one shard to materialize in one run, which `publishes` at its end or leaves that to a later one."""

    shard: Shard
    documents: Sequence[str]
    publishes: bool = True


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
    limit = ReadingLimit(changed=corpus.max_documents_per_run * corpus.shards, seconds=_READING_SECONDS)
    settle = timedelta(seconds=corpus.settle_seconds)
    found = scan(store, corpus, open_source(corpus), settle=settle, limit=limit)
    pending, gone = set(found.pending), set(found.gone)
    placed = place_partitions(context.instance, corpus, found.known, pending=pending, gone=gone)
    make_pending(store.documents(corpus.name), found.lost)
    wanted = plan(found, corpus, now=now)
    requests = [*_ingest_requests(context.instance, corpus, wanted), *_removal_requests(corpus, wanted)]
    if not requests and publication_is_due(store, corpus, known=found.known):
        # A run that selects assets and names no checks does all checks of these assets, those of the night too.
        requests = [
            dg.RunRequest(
                job_name=ingest_job_name(corpus.name, shards_of(corpus.shards)[0]),
                asset_selection=[published_key(corpus.name)],
                asset_check_keys=list(check_keys(corpus, "ingest")),
            )
        ]
    for name, reason in found.refused:
        context.log.warning("%s is passed over: %s", name, reason)
    if found.withheld:
        context.log.warning("deletions are withheld: %s", found.withheld)
    if not requests:
        return dg.SkipReason(_idle(found, placed))
    note_request(store, corpus, len(requests))
    return dg.SensorResult(run_requests=requests)


def _ingest_requests(instance: dg.DagsterInstance, corpus: CorpusSettings, wanted: Plan) -> list[dg.RunRequest]:
    if wanted.retry:
        # Without what readers see: the failure of one document would turn it red. A retry that succeeds is published next.
        batch = Batch(shard_of(wanted.retry, corpus.shards), [wanted.retry], publishes=False)
        return [_ingest_request(instance, corpus, batch, {RETRY_TAG: "true"})]
    return [_ingest_request(instance, corpus, batch, {}) for batch in wanted.batches]


def _ingest_request(
    instance: dg.DagsterInstance, corpus: CorpusSettings, batch: Batch, tags: Mapping[str, str]
) -> dg.RunRequest:
    first, last = move_to_end(instance, corpus.name, batch.documents, shard=batch.shard)
    alone = len(batch.documents) == 1
    return dg.RunRequest(
        job_name=ingest_job_name(corpus.name, batch.shard),
        partition_key=first if alone else None,
        tags={"rag_assets/documents": str(len(batch.documents)), **tags, **({} if alone else range_tags(first, last))},
        asset_selection=None if batch.publishes else list(partitioned_keys(corpus.name, batch.shard)),
        asset_check_keys=None if batch.publishes else [],
    )


def _removal_requests(corpus: CorpusSettings, wanted: Plan) -> list[dg.RunRequest]:
    if not wanted.removed:
        return []
    config = {"documents": list(wanted.removed)}
    return [dg.RunRequest(job_name=remove_job_name(corpus.name), run_config=config)]


def _idle(found: Scan, placed: Placed) -> str:
    parts = [f"{found.unchanged:,} documents are unchanged"]
    if placed.left:
        parts.append(f"{placed.moved:,} partitions moved to their shards, {placed.left:,} do so with the next ticks")
    if found.unsettled:
        parts.append(f"{len(found.unsettled):,} are still being written")
    if found.unread:
        parts.append(f"{len(found.unread):,} may have changed and are read by the next ticks")
    if found.failed:
        parts.append(f"{len(found.failed):,} are set aside")
    if found.withheld:
        parts.append(f"deletions are withheld: {found.withheld}")
    return "; ".join(parts)
