"""Maintenance as a user meets it: a command, a job, a schedule."""

import dagster as dg
import pytest

from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform


@pytest.fixture
def edited(platform: Platform) -> Platform:
    """Three versions, of which retention keeps one."""
    for text in ("The Furka is high.", "The Furka is very high.", "The Furka is closed."):
        platform.write("a.md", f"{text}\n")
        platform.ingest()
    platform.configure(retention={"versions": 1})
    return platform


def test_the_command_tells_what_it_did(edited: Platform, fake: FakeOpenAI):
    sent = len(fake.embedded_texts)
    report = edited.run("maintain", "--json").json
    assert report["corpus"] == "notes"
    assert report["versions_dropped"] == [1, 2]
    assert (report["rows"], report["generations_reclaimed"], report["problem"]) == (1, [], None)
    assert (report["vectors_deleted"], report["vectors_unneeded"]) == (0, 2)
    assert report["bytes_after"] > 0
    assert len(fake.embedded_texts) == sent
    assert [row["text"] for row in edited.rows()] == ["The Furka is closed."]
    assert "the rows of version 1 of corpus notes are not kept any more" in edited.run("rollback", "1").err


def test_the_command_says_it_in_a_line(edited: Platform):
    printed = edited.run("maintain").out
    assert printed.startswith("notes: 1 row; ")
    assert "2 versions and 0 generations dropped; 0 vectors deleted, 2 not needed now" in printed
    edited.configure(retention={"vectors_days": None})
    assert "no vector is deleted: retention.vectors_days is null" in edited.run("maintain", "notes").err
    assert edited.run("maintain", "other").status == 1


def test_the_job_tells_the_same_in_its_metadata(edited: Platform):
    job = edited.definitions().resolve_job_def("notes_maintain")
    result = job.execute_in_process()
    assert result.success
    figures = result.output_for_node("notes_maintain_tables")
    assert figures["versions_dropped"] == [1, 2]
    output = next(e for e in result.all_events if e.event_type == dg.DagsterEventType.STEP_OUTPUT)
    metadata = output.step_output_data.metadata
    assert metadata["rows"].value == 1
    assert metadata["versions_dropped"].value == [1, 2]
    assert "problem" not in metadata


def test_the_schedule_asks_for_it_every_night_by_default(edited: Platform):
    definitions = edited.definitions()
    schedule = definitions.resolve_schedule_def("notes_maintenance_schedule")
    assert (schedule.cron_schedule, schedule.job_name) == ("0 3 * * *", "notes_maintain")
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING
    with edited.instance() as instance:
        asked = schedule.evaluate_tick(dg.build_schedule_context(instance=instance))
    assert len(asked.run_requests or []) == 1


def test_a_version_that_is_not_kept_is_dropped_without_maintenance_too(edited: Platform):
    edited.write("b.md", "Boats are for hire.\n")
    edited.ingest()
    kept = [one["kept"] for one in edited.run("versions", "--json").json["versions"]]
    assert kept == [True, False, False, False]
