"""The checks, the job and the schedules of a corpus as Dagster has them."""

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
import pytest

from rag_assets.defs import health
from rag_assets.defs.partitions import add_keys, delete_keys
from rag_assets.defs.runs import COMMAND_LINE_TAG, presence_in, presence_tags
from rag_assets.health.checks import CHECKS
from rag_assets.reading.source import Listing
from rag_assets.reading.sources.folder import FolderSource
from rag_assets.scanning import Presence
from rag_assets.storing.health import health_over_time
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform

PUBLISHED = dg.AssetKey(["notes", "published_index"])


@pytest.fixture
def town(platform: Platform) -> Platform:
    """Three documents that are published."""
    for name in ("apples", "bananas", "cherries"):
        platform.write(f"{name}.md", f"The text of {name}.")
    platform.ingest()
    return platform


@pytest.fixture
def instance(town: Platform) -> Iterator[dg.DagsterInstance]:
    with town.instance() as instance:
        yield instance


def do_all(town: Platform, instance: dg.DagsterInstance) -> Mapping[str, dg.AssetCheckEvaluation]:
    """Execute the job `notes_health`, and return what each check found."""
    result = town.definitions().resolve_job_def("notes_health").execute_in_process(instance=instance)
    assert result.success
    return {one.check_name: one for one in result.get_asset_check_evaluations()}


def test_the_job_does_every_check_where_its_asset_is(town: Platform, instance: dg.DagsterInstance):
    found = do_all(town, instance)
    expected = {one.name: one.asset for one in CHECKS if one.asset != "evaluation"}
    assert {name: one.asset_key.path[-1] for name, one in found.items()} == expected
    assert [name for name, one in found.items() if not one.passed] == []


def test_figures_are_kept_and_become_series_of_the_published_index(town: Platform, instance: dg.DagsterInstance):
    do_all(town, instance)
    (kept,) = health_over_time(town.store, "notes")
    assert (kept.figures["coverage"], kept.figures["documents"], kept.failed) == (1.0, 3, {})
    observed = instance.fetch_observations(PUBLISHED, limit=1).records[0].asset_observation
    assert observed is not None
    assert observed.metadata["coverage"].value == 1.0
    assert observed.metadata["lag_p95_seconds"].value == 0.0
    assert observed.metadata["chunks_indexed"].value == 3


def test_what_is_wrong_is_named_with_its_severity(town: Platform, instance: dg.DagsterInstance):
    delete_keys(instance, "notes", ["apples.md"])
    add_keys(instance, "notes", ["gone.md"])
    stuck = dg.DagsterRun(job_name="notes_ingest", status=dg.DagsterRunStatus.STARTED, tags={COMMAND_LINE_TAG: "true"})
    instance.add_run(stuck)
    found = do_all(town, instance)
    partitions = found["partitions_and_documents_are_the_same"]
    assert (partitions.passed, partitions.severity) == (False, dg.AssetCheckSeverity.WARN)
    table: Any = partitions.metadata["named"]
    assert [row.data["document"] for row in table.records] == ["apples.md", "gone.md"]
    assert f"such as {stuck.run_id[:8]} (the command line that executed it was killed)" in str(
        found["every_run_moves"].description
    )
    run = instance.get_run_by_id(stuck.run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.STARTED, "a check changes nothing"


def test_errors_of_the_job_are_told(
    town: Platform, instance: dg.DagsterInstance, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
):
    told: list[str] = []
    monkeypatch.setattr(health, "notify", lambda settings, text: told.append(text))
    do_all(town, instance)
    assert told == []
    fake.dimensions = 32
    do_all(town, instance)
    (text,) = told
    assert text.startswith("rag_assets: notes: not true: the_model_makes_the_vectors_that_it_made: ")


def test_an_ingest_does_only_the_checks_that_cost_nothing(town: Platform, instance: dg.DagsterInstance):
    town.write("dates.md", "The text of dates.")
    sent = town.embedded
    town.ingest()
    assert town.embedded - sent == 1
    record = instance.get_run_records(dg.RunsFilter(job_name="notes_ingest"), limit=1)[0]
    events = instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    names = {event.get_dagster_event().asset_check_evaluation_data.check_name for event in events}
    assert names == {"every_document_is_indexed", "no_deletion_is_withheld"}
    assert health_over_time(town.store, "notes") == []


def test_the_source_is_listed_by_the_scan_and_not_by_each_run(
    town: Platform, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    town.configure(max_documents_per_run=1)
    for name in ("dates", "elders", "figs"):
        town.write(f"{name}.md", f"The text of {name}.")
    listings: list[FolderSource] = []
    list_source = FolderSource.list

    def list_and_count(source: FolderSource) -> Listing:
        listings.append(source)
        return list_source(source)

    monkeypatch.setattr(FolderSource, "list", list_and_count)
    assert town.run("ingest").status == 0
    assert len(listings) == 2  # whether there is anything to do, and again when nobody else can do it
    assert len(instance.get_runs(dg.RunsFilter(job_name="notes_ingest"))) == 1 + 3
    assert said_of_deletions(instance) == [(True, "6 files are listed, and 0 gone.")] * 3 + [
        (True, "3 files are listed, and 0 gone.")
    ]


def test_a_run_tells_that_deletions_are_withheld_as_the_scan_before_it(town: Platform, instance: dg.DagsterInstance):
    for number in range(12):
        town.write(f"{number}.md", f"The text of {number}.")
    town.ingest()
    for number in range(12):
        (town.corpus / f"{number}.md").unlink()
    town.write("apples.md", "Another text of apples.")
    town.ingest()
    (passed, summary), (passed_before, _) = said_of_deletions(instance)[:2]
    assert (passed, passed_before) == (False, True)
    assert "12 of 15 documents are gone at once" in (summary or "")


def said_of_deletions(instance: dg.DagsterInstance) -> list[tuple[bool, str | None]]:
    """What each run said, the newest first."""
    key = dg.AssetCheckKey(PUBLISHED, "no_deletion_is_withheld")
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    events = [record.event.get_dagster_event() for record in records if record.event is not None]
    evaluations = [event.asset_check_evaluation_data for event in events]
    return [(one.passed, one.description) for one in evaluations]


@pytest.mark.parametrize("tags", [{}, {"rag_assets/source": "{"}, {"rag_assets/source": '{"files": 3}'}])
def test_a_run_that_no_scan_asked_for_tells_nothing_of_the_source(tags: dict[str, str]):
    assert presence_in(tags) is None
    assert presence_in(presence_tags(Presence(3, 2, "why"))) == Presence(3, 2, "why")


def test_a_check_can_be_done_alone(town: Platform, instance: dg.DagsterInstance):
    key = dg.AssetCheckKey(PUBLISHED, "every_chunk_is_in_the_published_index")
    job = dg.define_asset_job("one", selection=dg.AssetSelection.checks(key))
    definitions = dg.Definitions.merge(town.definitions(), dg.Definitions(jobs=[job]))
    result = definitions.resolve_job_def("one").execute_in_process(instance=instance)
    assert [one.check_name for one in result.get_asset_check_evaluations()] == [key.name]
    assert health_over_time(town.store, "notes") == []


def test_schedules_run_by_default_unless_they_may_cost_money(town: Platform):
    town.configure(evaluation={"questions": "questions.jsonl"})
    definitions = town.definitions()
    running, stopped = dg.DefaultScheduleStatus.RUNNING, dg.DefaultScheduleStatus.STOPPED
    schedules = {
        name: definitions.resolve_schedule_def(f"notes_{name}_schedule")
        for name in ("maintenance", "health", "evaluation")
    }
    assert {name: (one.cron_schedule, one.job_name) for name, one in schedules.items()} == {
        "maintenance": ("0 3 * * *", "notes_maintain"),
        "health": ("0 4 * * *", "notes_health"),
        "evaluation": ("0 5 * * *", "notes_evaluate"),
    }
    assert [one.default_status for one in schedules.values()] == [running, running, stopped]
    town.configure(embedding={"provider": "hashing", "dimensions": 64})
    local = town.definitions().resolve_schedule_def("notes_evaluation_schedule")
    assert local.default_status == running
    assert all(one.description for one in schedules.values())


def test_the_published_index_is_fresh_while_somebody_looks_after_it(town: Platform, instance: dg.DagsterInstance):
    """Maintenance materializes it every night, whether anything changed or not."""
    asset = town.definitions().resolve_asset_graph().get(PUBLISHED)
    policy = asset.freshness_policy
    assert policy is not None
    assert policy.fail_window.to_timedelta().total_seconds() == 50 * 3600  # type: ignore[attr-defined]
    before = instance.fetch_materializations(PUBLISHED, limit=10).records
    assert town.definitions().resolve_job_def("notes_maintain").execute_in_process(instance=instance).success
    after = instance.fetch_materializations(PUBLISHED, limit=10).records
    assert len(after) == len(before) + 1
