"""The last runs of a corpus, read from the files of the Dagster instance: to import Dagster would take seconds.

Only an instance whose run storage is SQLite in its home, as ours is unless somebody changes it, can be read so; of any other
nothing is told. Nothing is written, and a file that is not as expected is no reason to fail.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["succeeded", "failed", "canceled", "under way"]

_OUTCOMES: dict[str, Outcome] = {"SUCCESS": "succeeded", "FAILURE": "failed", "CANCELED": "canceled"}
# Jobs that make, move or look at the index of a corpus; each is called after it.
_JOBS = ("ingest", "remove", "reindex", "maintain", "rollback", "health", "evaluate")
# What Dagster calls the job that materializes assets which were chosen in the UI.
_ASSET_JOB = "__ASSET_JOB"
_LOOKED_AT = 500
_FAILURES = ("STEP_FAILURE", "PIPELINE_FAILURE")


@dataclass(frozen=True)
class RunSummary:
    """A run: `job` without the name of the corpus, `materialize` for assets that were chosen in the UI. `seconds` is None
    while it is under way, or where it never began; `reason` says why it failed, where that can be told."""

    run_id: str
    job: str
    outcome: Outcome
    created_at: datetime
    seconds: float | None
    reason: str | None


def last_runs(dagster_home: Path, corpus: str, *, count: int) -> list[RunSummary]:
    """The last `count` runs of `corpus`, the newest first; none where no history can be read."""
    history = dagster_home / "history"
    try:
        with closing(_open(history / "runs.db")) as runs:
            found = []
            for row in runs.execute(
                "SELECT run_id, pipeline_name, status, create_timestamp, start_time, end_time, run_body FROM runs"
                " ORDER BY id DESC LIMIT ?",
                (_LOOKED_AT,),
            ):
                job = _job_of(corpus, row[1], row[6])
                if job:
                    found.append(_summary(history, job, *row[:6]))
                if len(found) == count:
                    break
            return found
    except (sqlite3.Error, ValueError, TypeError):
        return []


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1)


def _job_of(corpus: str, job: str, body: str) -> str | None:
    """What the run did for `corpus`, None where it is one of another."""
    if job == _ASSET_JOB:
        selected = json.loads(body).get("asset_selection") or {}
        keys = selected.get("__frozenset__", []) if isinstance(selected, dict) else []
        return "materialize" if any(key["path"][0] == corpus for key in keys) else None
    if re.fullmatch(rf"{re.escape(corpus)}_ingest_\d\d", job):  # of a shard
        return "ingest"
    return next((name for name in _JOBS if job == f"{corpus}_{name}"), None)


def _summary(
    history: Path, job: str, run_id: str, _: str, status: str, created: str, started: float | None, ended: float | None
) -> RunSummary:
    outcome = _OUTCOMES.get(status, "under way")
    return RunSummary(
        run_id=run_id,
        job=job,
        outcome=outcome,
        created_at=datetime.fromisoformat(created).replace(tzinfo=UTC),
        seconds=round(ended - started, 3) if started and ended else None,
        reason=_reason(history / "runs" / f"{run_id}.db") if outcome == "failed" else None,
    )


def _reason(path: Path) -> str | None:
    """What the step that failed first said, else what was said of the run."""
    try:
        with closing(_open(path)) as log:
            marks = ", ".join("?" * len(_FAILURES))
            query = f"SELECT event FROM event_logs WHERE dagster_event_type IN ({marks}) ORDER BY id"  # noqa: S608 - marks
            told = [line for (event,) in log.execute(query, _FAILURES) for line in _told(json.loads(event))]
    except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError):
        return None
    return told[0] if told else None


def _told(event: dict[str, Any]) -> Iterator[str]:
    """The sentences of an event of a failure, the best first."""
    failure = event["dagster_event"]["event_specific_data"] or {}
    said = (failure.get("user_failure_data") or {}).get("description")
    if said:
        yield str(said)
    error = failure.get("error")
    while error and error.get("cause"):
        error = error["cause"]
    if error and error.get("cls_name") == "DagsterExecutionInterruptedError":
        yield "it was interrupted"
    elif error:
        yield str(error["message"]).strip().splitlines()[0]
    elif event["dagster_event"].get("message"):
        yield str(event["dagster_event"]["message"])
