"""What `deploy/` holds is valid by its own linters, agrees with the code, and starts: as processes, not in containers."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets_tests.platform import REPOSITORY, Platform
from rag_assets_tests.postgres import PostgresServer
from rag_assets_tests.reading.bucket import S3Server
from rag_assets_tests.serving import wait_until

DEPLOY = REPOSITORY / "deploy"
VERSION = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
HADOLINT = Path(sys.executable).parent / "hadolint"
OURS = ("bucket", "code_location", "webserver", "daemon")


def load(name: str) -> dict[str, Any]:
    value = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def run(*command: str | Path, **how: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **how)


# Linters and schemas


def compose_problems(path: Path) -> str:
    if find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed: pip install '.[dev]'")
    checked = run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", path)
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr


def test_the_compose_file_follows_the_compose_specification():
    assert compose_problems(DEPLOY / "compose.yaml") == ""


def test_a_wrong_compose_file_is_noticed(tmp_path: Path):
    wrong = load("compose.yaml")
    wrong["services"]["daemon"]["comand"] = "dagster-daemon run"
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(wrong), encoding="utf-8")
    assert "comand" in compose_problems(tmp_path / "compose.yaml")


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint is not installed: pip install '.[dev]'")
def test_the_dockerfile_is_without_findings(tmp_path: Path):
    assert run(HADOLINT, DEPLOY / "Dockerfile").stdout == ""
    (tmp_path / "Dockerfile").write_text("FROM python:latest\nRUN cd / && sudo pip install dagster\n", encoding="utf-8")
    assert "DL3007" in run(HADOLINT, tmp_path / "Dockerfile").stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", sorted(path.name for path in DEPLOY.glob("*.service")))
def test_a_systemd_unit_is_without_findings_and_starts_what_is_installed(unit: str, tmp_path: Path):
    text = (DEPLOY / unit).read_text(encoding="utf-8").replace("/srv/rag/.venv/bin", str(Path(sys.executable).parent))
    (tmp_path / unit).write_text(text, encoding="utf-8")
    assert run("systemd-analyze", "verify", tmp_path / unit).stderr == ""
    (tmp_path / unit).write_text(text.replace("Restart=on-failure", "Restart=sometimes"), encoding="utf-8")
    assert "sometimes" in run("systemd-analyze", "verify", tmp_path / unit).stderr


def test_every_key_of_the_values_is_one_of_the_chart():
    """The chart's schema lets unknown keys pass, so a slip of the pen would go unnoticed."""
    chart = os.environ.get("DAGSTER_CHART")
    if not chart:
        pytest.skip("DAGSTER_CHART names no folder that holds Dagster's Helm chart")
    known = yaml.safe_load((Path(chart) / "values.yaml").read_text(encoding="utf-8"))
    assert list(unknown_keys(load("values.yaml"), known)) == []
    assert list(unknown_keys({"dagsterDaemon": {"enabld": True}}, known)) == ["dagsterDaemon.enabld"]


# What the chart passes on as it is.
_FREE = {"additionalInstanceConfig", "env", "envSecrets", "image", "readinessProbe", "resources", "runK8sConfig"}
_FREE |= {"securityContext", "tagConcurrencyLimits", "volumeMounts", "volumes"}


def unknown_keys(values: Mapping[str, Any], known: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in values.items():
        if key not in known:
            yield f"{path}{key}"
        elif key not in _FREE and isinstance(value, dict):
            yield from unknown_keys(value, known[key], f"{path}{key}.")
        elif key == "deployments":
            for deployment in value:
                yield from unknown_keys(deployment, known[key][0], f"{path}{key}.")


# What one file says and another one has to agree with


def test_every_image_is_named_without_a_registry_and_ours_with_the_version():
    services = load("compose.yaml")["services"]
    assert {services[name]["image"] for name in OURS} == {f"rag-assets:${{RAG_ASSETS_VERSION:-{VERSION}}}"}
    values = load("values.yaml")
    ours = [values["dagsterDaemon"], values["dagsterWebserver"], *values["dagster-user-deployments"]["deployments"]]
    assert [(of["image"]["repository"], of["image"]["tag"]) for of in ours] == [("rag-assets", VERSION)] * 3
    froms = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    for image in [*froms, *(service["image"] for service in services.values())]:
        assert "." not in image.split("/")[0].split(":")[0], f"{image} names a registry"


def test_the_image_holds_what_is_copied_into_it():
    """A file that .dockerignore leaves out breaks the build, which is not run here."""
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    kept = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", dockerfile, re.MULTILINE)
        for source in [part for part in line.split() if not part.startswith("--")][:-1]
    ]
    assert sorted(copied) == sorted(kept)
    assert [source for source in copied if not (REPOSITORY / source).exists()] == []
    for extra in re.findall(r"ARG EXTRAS=(\S+)", dockerfile)[0].split(","):
        assert extra in (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")


def test_the_image_runs_without_rights_and_serves_the_code_location():
    dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    user = re.findall(r"^USER (\d+)$", dockerfile, re.MULTILINE)
    assert user == re.findall(r"--uid (\d+)", dockerfile)
    values = load("values.yaml")
    assert values["dagsterDaemon"]["securityContext"]["runAsUser"] == int(user[0])
    command = json.loads(re.findall(r"^CMD (.+)$", dockerfile, re.MULTILINE)[0])
    assert command == load("compose.yaml")["services"]["code_location"]["command"]


def test_secrets_come_from_the_environment_only():
    """Nothing in `deploy/` is a password; what is asked for is in env.example, empty."""
    compose = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{(\w+):\?", compose))
    assert asked == {"DAGSTER_PG_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert set(re.findall(r"^(\w+)=$", (DEPLOY / "env.example").read_text(encoding="utf-8"), re.MULTILINE)) == asked
    for name in ("dagster.yaml", "values.yaml"):
        for password in re.findall(r"password: (.+)", (DEPLOY / name).read_text(encoding="utf-8")):
            assert password == "{env: DAGSTER_PG_PASSWORD}"


def test_the_cluster_has_the_settings_of_the_compose_file():
    values, instance = load("values.yaml"), load("dagster.yaml")
    event_log = values["additionalInstanceConfig"]["event_log_storage"]
    for key in ("module", "class"):
        assert event_log[key] == instance["event_log_storage"][key]
    limits = values["concurrency"]["runs"]
    assert limits["tagConcurrencyLimits"] == instance["concurrency"]["runs"]["tag_concurrency_limits"]
    assert event_log["config"]["postgres_db"]["scheme"] == values["postgresql"]["postgresqlScheme"]
    assert event_log["config"]["postgres_db"]["hostname"] == values["postgresql"]["postgresqlHost"]
    dagster = re.findall(r"^dagster==(.+)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE)
    assert dagster == re.findall(r"--version (\S+)", (DEPLOY / "values.yaml").read_text(encoding="utf-8"))


def test_every_job_that_writes_to_a_corpus_is_counted_by_the_limit_of_the_queue(platform: Platform):
    key = load("dagster.yaml")["concurrency"]["runs"]["tag_concurrency_limits"][0]["key"]
    repository = platform.definitions().get_repository_def()
    tagged = {name for name in repository.job_names if repository.get_job(name).tags.get(key) == "notes"}
    assert tagged == {f"notes_{job}" for job in ("ingest", "remove", "reindex", "maintain", "rollback")}


# The services of the compose file, as processes


class Services:
    """The commands of compose.yaml, started on this machine with other hosts, ports and folders."""

    def __init__(self, platform: Platform, stack: ExitStack, *, bucket_url: str) -> None:
        self._services = load("compose.yaml")["services"]
        self._platform = platform
        self._stack = stack
        self._ports = {port: str(free_port()) for port in ("4000", "3000")}
        self.web = f"http://127.0.0.1:{self._ports['3000']}"
        self._workspace = platform.root / "workspace.yaml"
        text = (DEPLOY / "workspace.yaml").read_text(encoding="utf-8")
        self._workspace.write_text(text.replace("4000", self._ports["4000"]), encoding="utf-8")
        here = {"CODE_LOCATION_HOST": "127.0.0.1", "AWS_ENDPOINT_URL": bucket_url}
        here |= {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "nothing"}
        asked = {name: value for name, value in self._services["daemon"]["environment"].items() if value is not None}
        self.environment = {**os.environ, **platform.environment, **asked, **here, **platform.postgres}

    def command(self, service: str) -> Sequence[str]:
        places = {
            "0.0.0.0": "127.0.0.1",
            "/opt/dagster/dagster_home/workspace.yaml": str(self._workspace),
            **self._ports,
        }
        program, *arguments = [places.get(part, part) for part in self._services[service]["command"]]
        return [str(Path(sys.executable).parent / program), *arguments]

    def finish(self, service: str) -> None:
        done = run(*self.command(service), env=self.environment)
        assert done.returncode == 0, done.stderr

    def start(self, service: str) -> None:
        self._stack.enter_context(
            process(self.command(service), self.environment, self._platform.root / f"{service}.log")
        )

    def healthy(self, service: str) -> bool:
        """The health check of a container, by the command of the compose file or the image."""
        test = self._services[service].get("healthcheck", {}).get("test")
        if test is None:
            check = re.findall(r"HEALTHCHECK[^\[]+(\[.+\])", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))[0]
            test = ["CMD", *json.loads(check)]
        for port, other in self._ports.items():
            test = [part.replace(port, other) for part in test]
        program = Path(sys.executable).parent / test[1]
        return run(program, *test[2:], env=self.environment).returncode == 0

    def rag_assets(self, *arguments: str) -> dict[str, Any] | None:
        """What the command line prints as JSON; None where it fails, as it does before the first publication."""
        done = run(sys.executable, "-m", "rag_assets", *arguments, "--json", env=self.environment)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def searchable(self) -> set[str]:
        """The documents that a reader finds."""
        found = self.rag_assets("search", "lighthouse", "--mode", "vector")
        return {result["document"] for result in found["results"]} if found else set()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def process(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        started = subprocess.Popen(command, env=dict(environment), stdout=out, stderr=out, start_new_session=True)
        try:
            yield
        finally:
            started.terminate()
            try:
                started.wait(30)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


@pytest.mark.daemon
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_services_of_the_compose_file_make_a_folder_searchable(tmp_path: Path, postgres_server: PostgresServer):
    """Only PostgreSQL and the S3 server are others here."""
    if not all(find_spec(name) for name in ("moto", "flask", "s3fs")):
        pytest.skip("no S3 server: pip install '.[dev]'")
    platform = Platform(tmp_path, options={"scan_seconds": 1}, postgres=postgres_server.new_database())
    platform.write("harbour.md", "# The harbour\n\nThe lighthouse keeper is called Amara Osei.")
    platform.write("market.md", "# The market\n\nFish is sold on Fridays only.")
    with S3Server() as s3, ExitStack() as stack:
        services = Services(platform, stack, bucket_url=s3.url)
        services.finish("bucket")
        services.finish("bucket")
        for service in ("code_location", "webserver", "daemon"):
            services.start(service)
            wait_until(lambda service=service: services.healthy(service), f"{service} is healthy")  # type: ignore[misc]
        wait_until(lambda: services.searchable() == {"harbour.md", "market.md"}, "both documents are searchable")
        (platform.corpus / "market.md").unlink()
        wait_until(lambda: services.searchable() == {"harbour.md"}, "the deleted document is gone")
        answer = services.rag_assets("ask", "Who is the lighthouse keeper?")
    assert answer is not None
    assert answer["citations"][0]["document"] == "harbour.md"
    assert not platform.home.exists(), "all tables are in the bucket"
