"""Runs of a corpus: which are under way, which died without a word, and how long to hold back after failures."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Literal

import dagster as dg
from dagster._core.events import DagsterEventType
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.tags import TICK_ID_TAG

from rag_assets.config import CorpusSettings
from rag_assets.defs.jobs import ingest_job_name, is_ingest_job
from rag_assets.defs.partitions import shards_of
from rag_assets.defs.reindexing import reindex_job_name
from rag_assets.defs.removing import remove_job_name
from rag_assets.scanning import Presence
from rag_assets.storing.stores import Store

# Set on runs that the command line executes in its own process, which holds the lock of that name meanwhile.
COMMAND_LINE_TAG = "rag_assets/command_line"
# Set on the run that tries a set-aside document alone: its failure says nothing about the others.
RETRY_TAG = "rag_assets/retry"
# Set on a run that only publishes: its success does not say that documents can be made again.
PUBLICATION_TAG = "rag_assets/publication"
# Set on a run that a scan asked for: what the scan saw of the source, so that a check need not list it again.
_PRESENCE_TAG = "rag_assets/source"
# A run that works writes a line at least every quarter of a minute, but for one request and its bounded retries.
_SILENT_FOR = timedelta(minutes=20)
# Between a sensor's request and its run pass a second or two; a daemon that was stopped in between launches nothing.
_LAUNCHED_WITHIN = timedelta(seconds=20)
# Each further run of the same request is launched after the one before, and its partitions are noted first.
_LAUNCHED_AFTER = timedelta(seconds=5)

Series = Literal["documents", "publications", "removals"]
"""What runs do whose failures in a row count together."""

# Failures in a row beyond these change nothing.
_LOOKED_AT = 10

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


def note_request(store: Store, corpus: CorpusSettings, runs: int = 1) -> None:
    """Note that the sensor has just asked for so many `runs`, which Dagster will launch in a moment."""
    store.note(_request_note(corpus), str(runs))


def request_is_open(instance: dg.DagsterInstance, store: Store, corpus: CorpusSettings) -> bool:
    """Whether the sensor has asked for runs that Dagster has not launched yet."""
    note = store.noted(_request_note(corpus))
    if note is None:
        return False
    runs = int(note.text) if note.text.isdecimal() else 1
    within = _LAUNCHED_WITHIN + _LAUNCHED_AFTER * (runs - 1)
    if abs(datetime.now(UTC) - note.written_at) > within:  # a note from the future: the clock was set back
        return False
    since = dg.RunsFilter(created_after=note.written_at)
    return sum(_touches(record.dagster_run, corpus.name) for record in instance.get_run_records(since)) < runs


def _request_note(corpus: CorpusSettings) -> str:
    return f"{ingest_lock(corpus.name)}.requested"


def backfill_under_way(instance: dg.DagsterInstance, corpus: CorpusSettings) -> str | None:
    """The id of a backfill of the UI that still launches runs of the corpus: its ranges must not be moved."""
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        if any(key.path[0] == corpus.name for key in backfill.asset_selection or ()):
            return backfill.backfill_id
    return None


def hold_back_until(
    instance: dg.DagsterInstance, corpus: CorpusSettings, series: Series = "documents"
) -> datetime | None:
    """When the next run of `series` may start after failures in a row: 30 s after the first, doubling, at most an hour. Runs
    that the sensor asked for together, one a shard, fail together: they count as one. The runs that make documents, those
    that only publish, and those that remove documents do not hold each other back."""
    failures = 0
    ended: float | None = None
    for runs in _last_runs(instance, corpus, series):
        failed = [run for run in runs if run.dagster_run.status == dg.DagsterRunStatus.FAILURE]
        if not failed:
            break
        failures += 1
        ended = ended or max((run.end_time for run in failed if run.end_time), default=None)
    if not failures or ended is None:
        return None
    rest = min(timedelta(seconds=30 * 2 ** (failures - 1)), timedelta(hours=1))
    return datetime.fromtimestamp(ended, UTC) + rest


def _last_runs(instance: dg.DagsterInstance, corpus: CorpusSettings, series: Series) -> list[list[dg.RunRecord]]:
    """The last runs of `series`, those of one tick together, the newest first. Retries of one document are not among them.
    A run that was executed again from the UI, which puts it into the same tick, counts as it ended last."""
    records: list[dg.RunRecord] = []
    publications = series == "publications"
    tags = {PUBLICATION_TAG: "true"} if publications else {}
    ingests = [ingest_job_name(corpus.name, shard) for shard in shards_of(corpus.shards)]
    for job in [remove_job_name(corpus.name)] if series == "removals" else ingests:
        records += instance.get_run_records(dg.RunsFilter(job_name=job, tags=tags), limit=_LOOKED_AT)
    asked: dict[str, dict[str, dg.RunRecord]] = {}
    for record in sorted(records, key=lambda one: one.storage_id, reverse=True):
        run = record.dagster_run
        if RETRY_TAG not in run.tags and (PUBLICATION_TAG in run.tags) == publications:
            asked.setdefault(run.tags.get(TICK_ID_TAG, run.run_id), {}).setdefault(run.job_name, record)
    return [list(runs.values()) for runs in asked.values()]


def _touches(run: dg.DagsterRun, corpus: str) -> bool:
    if is_ingest_job(run.job_name, corpus) or run.job_name in (remove_job_name(corpus), reindex_job_name(corpus)):
        return True
    selection: Sequence[dg.AssetKey] = list(run.asset_selection or ())
    return any(key.path[0] == corpus for key in selection)


def _death(
    instance: dg.DagsterInstance, store: Store, corpus: str, run: dg.DagsterRun, *, holding_lock: bool
) -> str | None:
    if run.status == dg.DagsterRunStatus.QUEUED:
        return None
    if COMMAND_LINE_TAG in run.tags:
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


def presence_tags(presence: Presence) -> dict[str, str]:
    """The tags of a run that tell what the scan before it saw of the source."""
    return {_PRESENCE_TAG: json.dumps(asdict(presence))}


def presence_in(tags: Mapping[str, str]) -> Presence | None:
    """What `presence_tags` noted in `tags`, None where nothing is there."""
    try:
        return Presence(**json.loads(tags[_PRESENCE_TAG]))
    except (KeyError, TypeError, ValueError):
        return None
