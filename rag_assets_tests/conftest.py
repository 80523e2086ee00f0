"""Fixtures that more than one folder uses."""

import itertools
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from rag_assets_tests import postgres
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.postgres import PostgresServer
from rag_assets_tests.reading.bucket import S3Server

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch, _cache: Path) -> None:
    """Tests see neither the keys nor the projects of whoever runs them, and leave their cache alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(_cache))
    openai = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
    for name in (*openai, "RAG_ASSETS_CONFIG", "RAG_ASSETS_HOME", "RAG_ASSETS_LOG", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests that want one; each makes a database of its own."""
    why = postgres.missing()
    if why:
        pytest.skip(why)
    with postgres.running_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server for all tests that want one; each makes a bucket of its own."""
    absent = [name for name in ("moto", "flask", "obstore") if find_spec(name) is None]
    if absent:
        pytest.skip(f"{' and '.join(absent)} not installed: pip install '.[dev]'")
    with S3Server(page=1_000) as server:
        yield server


@pytest.fixture
def bucket_home(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a new and empty home in a bucket, with the environment that it needs."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server.bucket(f'home{next(_NUMBERS)}').name}/store"


@pytest.fixture(params=["folder", "bucket"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A new and empty home, once a folder and once in a bucket."""
    if request.param == "folder":
        folder = tmp_path / "home"
        folder.mkdir()
        return str(folder)
    return str(request.getfixturevalue("bucket_home"))


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    """A provider that counts what it embeds and fails on command."""
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def platform(tmp_path: Path, fake: FakeOpenAI) -> Platform:
    """A platform whose embeddings come from `fake`, a chunk a paragraph."""
    return Platform(tmp_path, fake)


@pytest.fixture
def platform_with(tmp_path: Path, fake: FakeOpenAI) -> Callable[..., Platform]:
    """A platform with other keys in corpora.yaml."""

    def make(**options: Any) -> Platform:
        return Platform(tmp_path, fake, options)

    return make
