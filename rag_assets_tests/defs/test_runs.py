"""The sensor and the command line keep out of each other's way, and dead runs do not hold up the corpus."""

import time
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import dagster as dg
import pytest

from rag_assets.defs.runs import (
    COMMAND_LINE_TAG,
    PUBLICATION_TAG,
    RETRY_TAG,
    hold_back_until,
    ingest_lock,
    note_request,
    request_is_open,
    runs_under_way,
)
from rag_assets.errors import RagAssetsError
from rag_assets.storing.stores import Store
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import Workbench, set_age


def make_run(
    instance: dg.DagsterInstance, *, job: str = "notes_ingest", status: dg.DagsterRunStatus, tags: dict[str, str]
) -> dg.DagsterRun:
    run = dg.DagsterRun(job_name=job, status=status, tags=tags)
    instance.add_run(run)
    return run


def tick(platform: Platform, instance: dg.DagsterInstance) -> dg.SensorResult | dg.SkipReason:
    definitions = platform.definitions()
    sensor = definitions.resolve_sensor_def("notes_corpus_sensor")
    context = dg.build_sensor_context(
        instance=instance,
        definitions=definitions,
        resources={"store": definitions.resources["store"]},  # type: ignore[index]
    )
    result = sensor(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def reason(result: dg.SensorResult | dg.SkipReason) -> str:
    assert isinstance(result, dg.SkipReason)
    return result.skip_message or ""


def test_a_run_of_the_corpus_is_under_way_and_one_of_another_is_not(platform: Platform):
    with platform.instance() as instance:
        make_run(instance, job="other_ingest", status=dg.DagsterRunStatus.NOT_STARTED, tags={})
        assert runs_under_way(instance, platform.store, platform.notes) == []
        run = make_run(instance, status=dg.DagsterRunStatus.NOT_STARTED, tags={})
        assert [one.run_id for one in runs_under_way(instance, platform.store, platform.notes)] == [run.run_id]


def test_the_sensor_waits_for_a_run_that_is_under_way(platform: Platform):
    platform.write("a.md", "Some text.")
    with platform.instance() as instance:
        make_run(instance, status=dg.DagsterRunStatus.NOT_STARTED, tags={})
        assert "is under way" in reason(tick(platform, instance))
        assert instance.get_dynamic_partitions("notes_documents") == []


def test_a_note_from_the_future_holds_nothing_up(platform: Platform):
    """The clock was set back after the sensor had noted that it asked for runs: ingests waited until it had caught up."""
    with platform.instance() as instance:
        note_request(platform.store, platform.notes)
        assert request_is_open(instance, platform.store, platform.notes)
        (note,) = (platform.home / "locks").glob("*.requested")
        set_age(note, -3600)
        assert not request_is_open(instance, platform.store, platform.notes)


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_a_run_of_a_killed_command_line_is_marked_as_failed(
    platform: Platform, place: str, request: pytest.FixtureRequest
):
    """After kill -9 the run stays `STARTED` in Dagster for ever; the lock of its process tells that it is dead."""
    store = platform.store if place == "folder" else Store(request.getfixturevalue("bucket_home"))
    with platform.instance() as instance:
        run = make_run(instance, status=dg.DagsterRunStatus.STARTED, tags={COMMAND_LINE_TAG: "true"})
        with store.lock(ingest_lock("notes")):
            assert len(runs_under_way(instance, store, platform.notes)) == 1
        assert runs_under_way(instance, store, platform.notes) == []
        dead = instance.get_run_by_id(run.run_id)
        assert dead is not None
        assert dead.status == dg.DagsterRunStatus.FAILURE


def test_a_request_of_the_sensor_is_seen_by_other_machines(platform: Platform, bucket_home: str):
    with platform.instance() as instance:
        assert not request_is_open(instance, Store(bucket_home), platform.notes)
        note_request(Store(bucket_home), platform.notes)
        assert request_is_open(instance, Store(bucket_home), platform.notes)
        make_run(instance, status=dg.DagsterRunStatus.NOT_STARTED, tags={})
        assert not request_is_open(instance, Store(bucket_home), platform.notes)


def test_a_run_that_is_silent_for_too_long_is_marked_as_failed(platform: Platform, monkeypatch: pytest.MonkeyPatch):
    with platform.instance() as instance:
        run = make_run(instance, status=dg.DagsterRunStatus.STARTED, tags={})
        instance.report_engine_event("a sign of life", run)
        assert len(runs_under_way(instance, platform.store, platform.notes)) == 1
        monkeypatch.setattr("rag_assets.defs.runs._SILENT_FOR", timedelta(seconds=0.01))
        time.sleep(0.05)
        assert runs_under_way(instance, platform.store, platform.notes) == []


def test_the_sensor_holds_back_longer_after_each_failure_in_a_row(platform: Platform, fake: FakeOpenAI):
    platform.write("a.md", "Some text.")
    platform.write("b.md", "Some more text.")
    fake.fail_next(401, code="invalid_api_key", times=100)
    with platform.instance() as instance:
        assert hold_back_until(instance, platform.notes) is None
        for failures, seconds in ((1, 30), (2, 60), (3, 120)):
            platform.run("ingest")
            until = hold_back_until(instance, platform.notes)
            assert until is not None
            assert 0 < seconds - (until - datetime.now(UTC)).total_seconds() < 20, failures
        assert "the next one may start at" in reason(tick(platform, instance))
        make_run(instance, status=dg.DagsterRunStatus.FAILURE, tags={RETRY_TAG: "true"})
        assert hold_back_until(instance, platform.notes) == until
        fake.recover()
        platform.ingest()
        assert hold_back_until(instance, platform.notes) is None


def test_a_run_that_was_executed_again_and_succeeded_ends_the_holding_back(platform: Platform):
    """From the UI: the new run has the tags of the failed one, the tick that asked for it among them."""
    with platform.instance() as instance:
        tags = {"dagster/tick": "8"}
        instance.report_run_failed(make_run(instance, status=dg.DagsterRunStatus.STARTED, tags=tags))
        assert hold_back_until(instance, platform.notes) is not None
        make_run(instance, status=dg.DagsterRunStatus.SUCCESS, tags=tags)
        assert hold_back_until(instance, platform.notes) is None


def test_a_run_that_only_publishes_neither_holds_back_an_ingest_nor_allows_it(platform: Platform):
    with platform.instance() as instance:
        instance.report_run_failed(make_run(instance, status=dg.DagsterRunStatus.STARTED, tags={}))
        held = hold_back_until(instance, platform.notes)
        assert held is not None
        assert hold_back_until(instance, platform.notes, "publications") is None
        publication = {PUBLICATION_TAG: "true"}
        make_run(instance, status=dg.DagsterRunStatus.SUCCESS, tags=publication)
        instance.report_run_failed(make_run(instance, status=dg.DagsterRunStatus.STARTED, tags=publication))
        assert hold_back_until(instance, platform.notes) == held
        assert hold_back_until(instance, platform.notes, "publications") is not None


def test_a_removal_that_fails_is_asked_for_at_growing_intervals_and_holds_nothing_else_back(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
):
    def cut_short(*_arguments: object, **_keys: object) -> NoReturn:
        raise RagAssetsError("the store is full")

    for name in ("a.md", "b.md"):
        platform.write(name, f"The text of {name}.")
    platform.ingest()
    (platform.corpus / "b.md").unlink()
    with platform.instance() as instance:
        job = platform.definitions().resolve_job_def("notes_remove")
        with monkeypatch.context() as patched:
            patched.setattr("rag_assets.defs.removing.remove_documents", cut_short)
            for failures, seconds in ((1, 30), (2, 60)):
                assert not job.execute_in_process(
                    run_config={"documents": ["b.md"]}, instance=instance, raise_on_error=False
                ).success
                until = hold_back_until(instance, platform.notes, "removals")
                assert until is not None
                assert 0 < seconds - (until - datetime.now(UTC)).total_seconds() < 20, failures
        assert f"1 are gone; the last removal failed, the next is at {until:%H:%M:%S} UTC" in reason(
            tick(platform, instance)
        )
        assert hold_back_until(instance, platform.notes) is None
        assert hold_back_until(instance, platform.notes, "publications") is None
        platform.write("c.md", "The text of c.")
        assert jobs_asked_for(platform, instance) == ["notes_ingest"]
        (platform.corpus / "c.md").unlink()
        passed = datetime.now(UTC)
        monkeypatch.setattr("rag_assets.defs.sensors.hold_back_until", lambda *_: passed)
        assert jobs_asked_for(platform, instance) == ["notes_remove"]
        assert job.execute_in_process(run_config={"documents": ["b.md"]}, instance=instance).success
        assert hold_back_until(instance, platform.notes, "removals") is None


def jobs_asked_for(platform: Platform, instance: dg.DagsterInstance) -> list[str | None]:
    result = tick(platform, instance)
    assert isinstance(result, dg.SensorResult)
    return [request.job_name for request in result.run_requests or ()]


def test_the_sensor_publishes_beside_a_pending_document_that_never_settles(platform: Platform):
    for name in ("a.md", "log.md"):
        platform.write(name, f"Old {name}.")
    platform.ingest()
    bench = Workbench(platform.corpus, platform.store, platform.notes)
    bench.write("log.md", "New log.md.")
    bench.read("log.md")  # by a run that died
    bench.write("a.md", "New a.md.", seconds_ago=100_000)
    bench.materialize("a.md")
    with platform.instance() as instance:
        assert jobs_asked_for(platform, instance) == ["notes_ingest"]
        platform.configure(settle_seconds=3_600)
        bench.write("log.md", "Newest log.md.", seconds_ago=0)
        result = tick(platform, instance)
        assert isinstance(result, dg.SensorResult)
        (request,) = result.run_requests or []
        assert request.asset_selection == [dg.AssetKey(["notes", "published_index"])]
        job = platform.definitions().resolve_job_def("notes_ingest")
        assert job.execute_in_process(instance=instance, asset_selection=list(request.asset_selection)).success
        assert [row["text"] for row in platform.rows()] == ["New a.md.", "Old log.md."]
        bench.write("log.md", "And again.", seconds_ago=0)
        assert "1 are still being written" in reason(tick(platform, instance))


def test_the_sensor_publishes_what_a_dead_run_left_unpublished(platform: Platform):
    platform.write("a.md", "Some text.")
    platform.write("b.md", "Some more text.")
    with platform.instance() as instance:
        definitions = platform.definitions()
        result = tick(platform, instance)
        assert isinstance(result, dg.SensorResult)
        request = (result.run_requests or [])[0]
        upstream = [dg.AssetKey(["notes", name]) for name in ("documents", "chunks", "embeddings", "index")]
        job = definitions.resolve_job_def("notes_ingest")
        assert job.execute_in_process(instance=instance, tags=request.tags, asset_selection=upstream).success
        assert platform.run("search", "text").status == 1

        again = tick(platform, instance)
        assert isinstance(again, dg.SensorResult)
        (request,) = again.run_requests or []
        assert request.asset_selection == [dg.AssetKey(["notes", "published_index"])]
        assert job.execute_in_process(instance=instance, asset_selection=list(request.asset_selection)).success
        assert len(platform.rows()) == 2
        assert "2 documents are unchanged" in reason(tick(platform, instance))


def test_the_sensor_tells_why_it_does_nothing(platform: Platform):
    with platform.instance() as instance:
        for number in range(30):
            platform.write(f"{number}.md", f"Text number{number}.")
        platform.ingest()
        for path in platform.corpus.iterdir():
            path.unlink()
        assert "deletions are withheld" in reason(tick(platform, instance))
        platform.corpus.rmdir()
        assert "does not exist" in reason(tick(platform, instance))
        assert len(platform.rows()) == 30


def test_a_new_dagster_home_gets_its_partitions_back(platform: Platform):
    platform.write("a.md", "Some text.")
    platform.write("b.md", "Some more text.")
    platform.ingest()
    with platform.instance() as instance:
        for key in ("a.md", "b.md"):
            instance.delete_dynamic_partition("notes_documents", key)
        tick(platform, instance)
        assert sorted(instance.get_dynamic_partitions("notes_documents")) == ["a.md", "b.md"]


def test_a_retry_leaves_what_readers_see_alone_and_is_published_when_it_succeeds(
    platform: Platform, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
):
    """One bad file turned the published index and its checks red in the graph, though readers missed nothing."""
    monkeypatch.setattr("rag_assets.scanning.retry_delay", lambda _attempts: timedelta(0))
    platform.write("good.md", "Some text.")
    platform.write("bad.md", "Some poison.")
    fake.refuse_texts_with("poison")
    platform.ingest()
    with platform.instance() as instance:
        job = platform.definitions().resolve_job_def("notes_ingest")
        published = dg.AssetKey(["notes", "published_index"])
        outcomes = []
        for refused in ("poison", None):
            fake.refuse_texts_with(refused)
            result = tick(platform, instance)
            assert isinstance(result, dg.SensorResult)
            (request,) = result.run_requests or []
            assert request.partition_key == "bad.md"
            selection = list(request.asset_selection or ())
            assert [key.path[-1] for key in selection] == ["documents", "chunks", "embeddings", "index"]
            assert request.asset_check_keys == [], (
                "else the checks of these assets are asked for, and fail with the run"
            )
            ran = job.execute_in_process(
                instance=instance,
                partition_key=request.partition_key,
                asset_selection=selection,
                tags=request.tags,
                raise_on_error=False,
            )
            outcomes.append(ran.success)
        assert outcomes == [False, True]
        assert [row["document"] for row in platform.rows()] == ["good.md"]

        result = tick(platform, instance)
        assert isinstance(result, dg.SensorResult)
        (request,) = result.run_requests or []
        assert request.asset_selection == [published]
        checks = [key.name for key in request.asset_check_keys or ()]
        assert checks == ["every_document_is_indexed", "no_deletion_is_withheld"]
        assert job.execute_in_process(instance=instance, asset_selection=[published]).success
        assert [row["document"] for row in platform.rows()] == ["bad.md", "good.md"]
