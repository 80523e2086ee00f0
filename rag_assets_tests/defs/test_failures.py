"""The sensor that tells of failed runs."""

from collections.abc import Sequence

import dagster as dg
import pytest

from rag_assets.defs import failures
from rag_assets.defs.failures import failed_runs_sensor
from rag_assets.defs.runs import RETRY_TAG
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []

    def notify(settings: object, text: str) -> str | None:
        texts.append(text)
        return "nobody was told: the webhook cannot be reached"

    monkeypatch.setattr(failures, "notify", notify)
    return texts


@dg.op
def burn() -> None:
    raise OSError("the disk\nis on fire")


@dg.job
def heat() -> None:
    burn()


def fail(instance: dg.DagsterInstance, *, tags: dict[str, str]) -> dg.ExecuteInProcessResult:
    """A run that fails."""
    result = heat.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    assert not result.success
    return result


def tick(result: dg.ExecuteInProcessResult, instance: dg.DagsterInstance) -> object:
    event = next(one for one in result.all_events if one.event_type_value == "PIPELINE_FAILURE")
    context = dg.build_run_status_sensor_context(
        sensor_name="failed_runs_sensor", dagster_instance=instance, dagster_run=result.dagster_run, dagster_event=event
    )
    return failed_runs_sensor(None)(context.for_run_failure())


def test_a_failed_run_is_told_with_its_reason(platform: Platform, told: Sequence[str]):
    with platform.instance() as instance:
        result = fail(instance, tags={})
        tick(result, instance)
    (text,) = told
    assert text == f"rag_assets: run {result.run_id[:8]} of heat failed: OSError: the disk"


def test_a_document_that_fails_again_alone_is_not_told(platform: Platform, told: Sequence[str]):
    with platform.instance() as instance:
        skipped = tick(fail(instance, tags={RETRY_TAG: "true"}), instance)
    assert isinstance(skipped, dg.SkipReason)
    assert told == []


def test_the_reason_is_our_sentence(platform: Platform, told: Sequence[str], fake: FakeOpenAI):
    """Dagster's frame around it says only which step failed."""
    platform.write("a.md", "The text of apples.")
    fake.fail_next(401, code="invalid_api_key", times=9)
    with platform.instance() as instance:
        platform.run("ingest")
        (record,) = instance.get_run_records(dg.RunsFilter(job_name="notes_ingest"))
        run = record.dagster_run
        logs = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
        context = dg.build_run_status_sensor_context(
            sensor_name="failed_runs_sensor",
            dagster_instance=instance,
            dagster_run=run,
            dagster_event=logs[0].get_dagster_event(),
        )
        failed_runs_sensor(None)(context.for_run_failure())
    (text,) = told
    assert "of notes_ingest failed: " in text
    assert "OPENAI_API_KEY" in text


def test_it_sees_failures_in_the_history(platform: Platform, told: Sequence[str]):
    """As the daemon does it: the first look begins to watch, the next one tells what failed since."""
    definitions = platform.definitions()
    sensor = definitions.resolve_sensor_def("failed_runs_sensor")
    with platform.instance() as instance:

        def look(cursor: str | None) -> str | None:
            context = dg.build_sensor_context(instance=instance, definitions=definitions, cursor=cursor)
            return sensor.evaluate_tick(context).cursor

        cursor = look(None)
        platform.write("bad.md", "The text of apples.")
        platform.configure(embedding={"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "max_retries": 0})
        assert platform.run("ingest").status == 1
        look(cursor)
    (text,) = told
    assert "of notes_ingest failed: " in text


def test_it_watches_by_default(platform: Platform):
    sensor = platform.definitions().resolve_sensor_def("failed_runs_sensor")
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert sensor.sensor_type.value == "RUN_STATUS"
