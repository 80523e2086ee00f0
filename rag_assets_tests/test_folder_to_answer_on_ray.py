"""The specification again: tables on an object store, the Dagster instance on PostgreSQL, embedded by workers of a Ray
cluster of two nodes; and once more with every run launched there, as `deploy/dagster-ray.yaml` says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin

from rag_assets_tests import postgres, ray_cluster
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import REPOSITORY, Platform
from rag_assets_tests.postgres import PostgresServer
from rag_assets_tests.ray_cluster import RayCluster
from rag_assets_tests.reading.bucket import S3Server
from rag_assets_tests.serving import wait_until
from rag_assets_tests.test_folder_to_answer import (
    Town,
    test_a_bad_document_is_set_aside_in_a_batch_and_fails_alone_when_it_is_retried,  # noqa: F401
    test_a_folder_becomes_answers_and_stays_true_while_it_changes,
    test_a_tick_asks_for_a_bounded_number_of_documents,  # noqa: F401
    test_an_unpartitioned_check_lists_what_is_set_aside,  # noqa: F401
    test_scattered_changes_become_one_run,  # noqa: F401
    town,  # noqa: F401
)

pytestmark = pytest.mark.slow

INSTANCE = "deploy/dagster-ray.yaml"


@pytest.fixture(scope="module")
def cluster(postgres_server: PostgresServer, s3_server: S3Server) -> Iterator[RayCluster]:
    """Its nodes have the secrets, as the manual asks for."""
    why = ray_cluster.missing()
    if why:
        pytest.skip(why)
    secrets = {"DAGSTER_PG_PASSWORD": postgres.PASSWORD, "NO_PROXY": "127.0.0.1,localhost", **s3_server.environment}
    with ray_cluster.two_nodes(secrets, jobs=True) as running:
        yield running


@pytest.fixture
def platform(
    tmp_path: Path,
    fake: FakeOpenAI,
    postgres_server: PostgresServer,
    bucket_home: str,
    cluster: RayCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> Platform:
    """A platform whose only folder of this machine is that of its documents."""
    monkeypatch.setenv("RAY_JOBS_ADDRESS", cluster.jobs)
    asked = {"workers": 2, "cpus": 0.5, "address": cluster.address}
    embedding = {"provider": "openai", "base_url": fake.base_url, "model": "fake", "ray": asked}
    return Platform(
        tmp_path,
        fake,
        {"embedding": embedding},
        postgres=postgres_server.new_database(),
        home_uri=bucket_home,
        instance_settings=INSTANCE,
    )


class LaunchedTown(Town):
    """A town whose runs are launched, and waited for."""

    def _execute(self, request: dg.RunRequest) -> dg.DagsterRun:
        assert request.job_name is not None
        code = RepositoryPythonOrigin(
            executable_path=sys.executable,
            code_pointer=ModuleCodePointer("rag_assets.definitions", "defs"),
            entry_point=[sys.executable, "-m", "dagster"],
        )
        partition = {"dagster/partition": request.partition_key} if request.partition_key else {}
        run = self.instance.create_run_for_job(
            job_def=self.definitions.resolve_job_def(request.job_name),
            run_config=request.run_config or None,
            tags={**request.tags, **partition},
            asset_selection=frozenset(request.asset_selection) if request.asset_selection else None,
            job_code_origin=JobPythonOrigin(request.job_name, code),
        )
        self.instance.launch_run(run.run_id, None)  # type: ignore[arg-type]  # this launcher needs no workspace
        wait_until(lambda: self._run(run.run_id).is_finished, f"{request.job_name} is over")
        return self._run(run.run_id)

    def _run(self, run_id: str) -> dg.DagsterRun:
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run


@pytest.mark.timeout(900)
def test_a_folder_becomes_answers_with_every_run_on_the_cluster(
    platform: Platform, fake: FakeOpenAI, cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
):
    from ray.job_submission import JobSubmissionClient

    for name, value in platform.environment.items():  # of the process that launches
        monkeypatch.setenv(name, value)
    jobs = JobSubmissionClient(cluster.jobs)
    with platform.instance() as instance:
        test_a_folder_becomes_answers_and_stays_true_while_it_changes(LaunchedTown(platform, instance), fake)
        launched = {run.run_id for run in instance.get_runs() if run.job_name != "ask"}
        assert len(launched) == 7
        wait_until(
            lambda: all(jobs.get_job_status(f"dagster-run-{run}") == "SUCCEEDED" for run in launched),
            "every run was a job of the cluster",
        )
    shown = str([job.runtime_env for job in jobs.list_jobs()])
    assert "RAG_ASSETS_HOME" in shown
    assert postgres.PASSWORD not in shown, "what Ray shows holds no secret"


def test_all_but_the_launcher_is_as_without_ray():
    settings = [
        yaml.safe_load((REPOSITORY / name).read_text(encoding="utf-8")) for name in (INSTANCE, "deploy/dagster.yaml")
    ]
    launcher = settings[0].pop("run_launcher")
    assert (launcher["module"], launcher["class"]) == ("dagster_ray", "RayRunLauncher")
    assert settings[0] == settings[1]
