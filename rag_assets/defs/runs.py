"""Runs of a corpus: which are under way, which died without a word, and how long to hold back after failures."""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.events import DagsterEventType
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.event_log import SqliteEventLogStorage

from rag_assets.config import CorpusSettings
from rag_assets.defs.jobs import ingest_job_name
from rag_assets.defs.partitions import add_keys, partition_key, partitions_name
from rag_assets.defs.reindexing import reindex_job_name
from rag_assets.defs.removing import remove_job_name
from rag_assets.scanning import Scan
from rag_assets.storing.ledger import known_documents
from rag_assets.storing.stores import Store

# Set on runs that the command line executes in its own process, which holds the lock of that name meanwhile.
COMMAND_LINE_TAG = "rag_assets/command_line"
# Set on the run that tries a set-aside document alone: its failure says nothing about the others.
RETRY_TAG = "rag_assets/retry"
# A run that works writes a line at least every quarter of a minute, but for one request and its bounded retries.
_SILENT_FOR = timedelta(minutes=20)
# Between a sensor's request and its run pass a second or two; a daemon that was stopped in between launches nothing.
_LAUNCHED_WITHIN = timedelta(seconds=20)

_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def ingest_lock(corpus: str) -> str:
    """The lock that the command line holds while it ingests `corpus`."""
    return f"ingest.{corpus}"


def runs_under_way(
    instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings, *, holding_lock: bool = False
) -> list[dg.DagsterRun]:
    """Runs that may write to `corpus` now. Runs whose process died are marked as failed, and not returned.

    `holding_lock`: the caller is the command line and has the lock, so any other run of the command line is dead.
    """
    alive = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=_UNDER_WAY)):
        run = record.dagster_run
        if not _touches(run, corpus.name):
            continue
        why = _death(instance, store, corpus.name, run, holding_lock=holding_lock)
        if why:
            instance.report_run_failed(run, f"{why}; its documents are still pending, and the next run takes them up")
        else:
            alive.append(run)
    return alive


def stuck_runs(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> dict[str, str]:
    """Runs of `corpus` that are under way and do not move, and why that is believed. They are left as they are."""
    records = instance.get_run_records(dg.RunsFilter(statuses=_UNDER_WAY))
    runs = [record.dagster_run for record in records if _touches(record.dagster_run, corpus.name)]
    deaths = {run.run_id: _death(instance, store, corpus.name, run, holding_lock=False) for run in runs}
    return {run_id: why for run_id, why in deaths.items() if why}


def note_request(store: Store, corpus: CorpusSettings) -> None:
    """Note that the sensor has just asked for runs, which Dagster will launch in a moment."""
    if store.locks:
        store.locks.mkdir(parents=True, exist_ok=True)
        (store.locks / f"{ingest_lock(corpus.name)}.requested").touch()


def request_is_open(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> bool:
    """Whether the sensor has asked for runs that Dagster has not launched yet."""
    note = store.locks / f"{ingest_lock(corpus.name)}.requested" if store.locks else None
    try:
        asked = note.stat().st_mtime if note else 0.0
    except OSError:
        return False
    if abs(time.time() - asked) > _LAUNCHED_WITHIN.total_seconds():  # a note from the future: the clock was set back
        return False
    since = dg.RunsFilter(created_after=datetime.fromtimestamp(asked, UTC))
    return not any(_touches(record.dagster_run, corpus.name) for record in instance.get_run_records(since))


def backfill_under_way(instance: dg.DagsterInstance, corpus: CorpusSettings) -> str | None:
    """The id of a backfill of the UI that still launches runs of the corpus: its ranges must not be moved."""
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        if any(key.path[0] == corpus.name for key in backfill.asset_selection or ()):
            return backfill.backfill_id
    return None


def add_lost_keys(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings, found: Scan) -> None:
    """Give known documents their partitions back, where the Dagster instance is new or lost them."""
    keys = set(instance.get_dynamic_partitions(partitions_name(corpus.name)))
    leaving = {*found.pending, *found.gone}
    known = sorted(known_documents(store.documents(corpus.name)))
    add_keys(instance, corpus.name, [name for name in known if name not in leaving and partition_key(name) not in keys])


def hold_back_until(instance: dg.DagsterInstance, corpus: CorpusSettings) -> datetime | None:
    """When the next run may start after failures in a row: 30 s after the first, doubling, at most an hour."""
    records = instance.get_run_records(dg.RunsFilter(job_name=ingest_job_name(corpus.name)), limit=10)
    failures = 0
    ended: datetime | None = None
    for record in records:
        if RETRY_TAG in record.dagster_run.tags:
            continue
        if record.dagster_run.status != dg.DagsterRunStatus.FAILURE:
            break
        failures += 1
        if ended is None and record.end_time:
            ended = datetime.fromtimestamp(record.end_time, UTC)
    if not failures or ended is None:
        return None
    return ended + min(timedelta(seconds=30 * 2 ** (failures - 1)), timedelta(hours=1))


def _touches(run: dg.DagsterRun, corpus: str) -> bool:
    if run.job_name in (ingest_job_name(corpus), remove_job_name(corpus), reindex_job_name(corpus)):
        return True
    selection: Sequence[dg.AssetKey] = list(run.asset_selection or ())
    return any(key.path[0] == corpus for key in selection)


def _death(
    instance: dg.DagsterInstance, store: Store, corpus: str, run: dg.DagsterRun, *, holding_lock: bool
) -> str | None:
    if run.status == dg.DagsterRunStatus.QUEUED:
        return None
    # An object store has no locks: there only silence tells.
    if COMMAND_LINE_TAG in run.tags and store.locks:
        if holding_lock:
            return "the command line that executed it was killed"
        try:
            with store.lock(ingest_lock(corpus), timeout_seconds=0):
                return "the command line that executed it was killed"
        except TimeoutError:
            return None
    if _process_is_gone(instance, run):
        return "its process is gone"
    last = instance.get_records_for_run(run.run_id, limit=1, ascending=False).records
    if last and datetime.now(UTC).timestamp() - last[0].timestamp > _SILENT_FOR.total_seconds():
        return f"it wrote nothing for {_SILENT_FOR.total_seconds() / 60:.0f} minutes"
    return None


def _process_is_gone(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the process that executes `run` died. Only known where runs are processes of this machine: with the default
    launcher, and an event log in local files. Elsewhere Dagster's run monitoring tells."""
    if not isinstance(instance.run_launcher, DefaultRunLauncher):
        return False
    if not isinstance(instance.event_log_storage, SqliteEventLogStorage):
        return False
    records = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.ENGINE_EVENT, ascending=False).records
    pids = [r.event_log_entry.get_dagster_event().pid for r in records if r.event_log_entry.is_dagster_event]
    worker = next((pid for pid in pids if pid is not None), None)
    if run.status != dg.DagsterRunStatus.STARTED or worker is None:
        return False
    try:
        os.kill(worker, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
