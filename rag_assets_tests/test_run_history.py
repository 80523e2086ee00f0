"""The last runs, read without Dagster from what Dagster really wrote."""

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rag_assets.run_history import last_runs
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform


def test_runs_are_told_newest_first_with_what_they_did_and_why_they_failed(platform: Platform, fake: FakeOpenAI):
    """Fails when Dagster changes how it keeps runs: then nothing would be told."""
    platform.write("a.md", "The kettle is red.")
    first = platform.ingest()["runs"][0]
    (platform.corpus / "a.md").unlink()
    platform.ingest("--confirm-deletions")
    platform.write("b.md", "The kettle is blue.")
    fake.fail_next(401, code="invalid_api_key")
    assert platform.run("ingest").status == 1
    found = last_runs(platform.dagster_home, "notes", count=10)
    assert [(run.job, run.outcome) for run in found] == [
        ("ingest", "failed"),
        ("remove", "succeeded"),
        ("ingest", "succeeded"),
    ]
    assert "embedding.api_key_env" in (found[0].reason or "")
    assert (found[2].run_id, found[2].reason) == (first, None)
    assert all(run.seconds is not None and 0 < run.seconds < 120 for run in found)
    assert found[0].created_at > found[2].created_at
    assert last_runs(platform.dagster_home, "notes", count=1) == found[:1]
    assert last_runs(platform.dagster_home, "note", count=10) == []
    printed = platform.run("status").out
    assert f"{found[0].run_id[:8]}  ingest failed in " in printed
    assert [run["outcome"] for run in platform.status()["runs"]] == ["failed", "succeeded", "succeeded"]


def history(home: Path, rows: list[tuple[str, str, str, str]]) -> Path:
    """A history that holds `rows` of run id, job, status and body."""
    (home / "history/runs").mkdir(parents=True)
    with sqlite3.connect(home / "history/runs.db") as runs:
        runs.execute(
            "CREATE TABLE runs (id INTEGER PRIMARY KEY, run_id, pipeline_name, status, run_body, create_timestamp,"
            " start_time, end_time)"
        )
        for row in rows:
            runs.execute(
                "INSERT INTO runs (run_id, pipeline_name, status, run_body, create_timestamp)"
                " VALUES (?, ?, ?, ?, '2026-11-30 01:02:03')",
                row,
            )
    runs.close()
    return home


def body(*corpora: str) -> str:
    keys = [{"__class__": "AssetKey", "path": [corpus, "chunks"]} for corpus in corpora]
    return json.dumps({"asset_selection": {"__frozenset__": keys}})


def test_runs_of_the_ui_and_of_other_corpora_are_told_apart(tmp_path: Path):
    home = history(
        tmp_path,
        [
            ("1", "__ASSET_JOB", "STARTED", body("notes")),
            ("2", "__ASSET_JOB", "SUCCESS", body("other")),
            ("3", "notes_2_ingest", "SUCCESS", "{}"),
            ("4", "notes_health", "CANCELED", "{}"),
            ("5", "ask", "SUCCESS", "{}"),
        ],
    )
    found = last_runs(home, "notes", count=10)
    assert [(run.run_id, run.job, run.outcome, run.seconds) for run in found] == [
        ("4", "health", "canceled", None),
        ("1", "materialize", "under way", None),
    ]
    assert found[0].created_at.isoformat() == "2026-11-30T01:02:03+00:00"


def test_runs_of_shards_are_ingests(tmp_path: Path):
    home = history(tmp_path, [("1", "notes_ingest_03", "SUCCESS", "{}"), ("2", "notes_2_ingest_03", "SUCCESS", "{}")])
    assert [(run.run_id, run.job) for run in last_runs(home, "notes", count=10)] == [("1", "ingest")]


@pytest.mark.parametrize("content", [None, b"no database"])
def test_where_no_history_can_be_read_nothing_is_told(tmp_path: Path, content: bytes | None):
    if content is not None:
        (tmp_path / "history").mkdir()
        (tmp_path / "history/runs.db").write_bytes(content)
    assert last_runs(tmp_path, "notes", count=10) == []
    assert content is not None or list(tmp_path.iterdir()) == []


def test_a_failure_whose_log_is_gone_has_no_reason(tmp_path: Path):
    [run] = last_runs(history(tmp_path, [("1", "notes_ingest", "FAILURE", "{}")]), "notes", count=10)
    assert (run.outcome, run.reason) == ("failed", None)


def test_status_and_metrics_do_not_import_dagster(platform: Platform):
    program = (
        "import sys; from rag_assets import cli; sys.argv = ['rag-assets', sys.argv[1]]\n"
        "try: cli.main()\n"
        "except SystemExit as end: print('status', end.code, 'dagster' in sys.modules)"
    )
    for command in ("status", "metrics"):
        done = subprocess.run(
            [sys.executable, "-c", program, command],
            env=os.environ | platform.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.endswith("status 0 False\n"), done.stderr
