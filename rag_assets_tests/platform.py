"""A whole platform in a folder of its own: a corpus, tables, a Dagster instance, and a provider that counts.

Everything is driven as a user drives it: by the command line (in this process, so that it is quick), by the sensor, by
jobs.
"""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import yaml

from rag_assets import (
    cli,
    dagster_storage,  # noqa: F401  # first, so that the batch size it sets outlives the patched environment of a command
)
from rag_assets.config import CorpusSettings, Settings, load_settings
from rag_assets.defs.code_location import build_definitions
from rag_assets.storing.stores import Store
from rag_assets_tests.fakes import FakeOpenAI

REPOSITORY = Path(__file__).parent.parent
# A chunk a paragraph, so that a test can count: paragraphs, chunks, texts.
PARAGRAPHS = {"strategy": "paragraph", "max_tokens": 100, "overlap_tokens": 0}


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit status and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@dataclass
class Platform:
    """See the module. `corpus` is the folder of the only corpus, `notes`."""

    root: Path
    fake: FakeOpenAI | None = None
    options: dict[str, Any] = field(default_factory=dict)
    # What deploy/dagster.yaml asks the environment for: the Dagster instance is on that PostgreSQL server then.
    postgres: Mapping[str, str] = field(default_factory=dict)
    # An address of an object store; the tables are in the folder `home` without.
    home_uri: str | None = None
    # The settings of the Dagster instance, a file of the repository; without, those that fit `postgres`.
    instance_settings: str | None = None

    def __post_init__(self) -> None:
        self.corpus.mkdir(parents=True, exist_ok=True)
        self.dagster_home.mkdir(exist_ok=True)
        settings = self.instance_settings or ("deploy/dagster.yaml" if self.postgres else "dagster.yaml")
        shutil.copy(REPOSITORY / settings, self.dagster_home / "dagster.yaml")
        embedding: Mapping[str, Any] = {"provider": "hashing", "dimensions": 64}
        if self.fake is not None:
            embedding = {"provider": "openai", "base_url": self.fake.base_url, "model": "fake", "max_retries": 5}
        defaults = {"source": "corpus", "settle_seconds": 0, "chunking": PARAGRAPHS, "embedding": dict(embedding)}
        self.configure(**{**defaults, **self.options})

    @property
    def corpus(self) -> Path:
        return self.root / "corpus"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def dagster_home(self) -> Path:
        return self.root / "dagster"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "RAG_ASSETS_CONFIG": str(self.root / "corpora.yaml"),
            "RAG_ASSETS_HOME": self.home_uri or str(self.home),
            "DAGSTER_HOME": str(self.dagster_home),
            **self.postgres,
        }

    def configure(self, **keys: Any) -> None:
        """Set keys of the corpus in corpora.yaml."""
        path = self.root / "corpora.yaml"
        now = yaml.safe_load(path.read_text())["corpora"]["notes"] if path.exists() else {}
        path.write_text(yaml.safe_dump({"corpora": {"notes": {**now, **keys}}}))

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of the corpus, as it was some seconds ago, so that it counts as settled."""
        path = self.corpus / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def run(self, *arguments: str) -> Outcome:
        """`rag-assets` with `arguments`."""
        out, err = StringIO(), StringIO()
        with (
            mock.patch.dict(os.environ, self.environment),
            mock.patch("sys.argv", ["rag-assets", *arguments]),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                cli.main()
                status = 0
            except SystemExit as end:
                status = int(end.code or 0)
        return Outcome(status, out.getvalue(), err.getvalue())

    def ingest(self, *options: str) -> dict[str, Any]:
        """`rag-assets ingest --json`, which must have run."""
        outcome = self.run("ingest", "--json", *options)
        assert outcome.status in (0, 2), outcome.err
        return outcome.json

    def search(self, query: str, *options: str) -> list[dict[str, Any]]:
        """The results of `rag-assets search --json`."""
        outcome = self.run("search", query, "--json", "--top-k", "1000", *options)
        assert outcome.status == 0, outcome.err
        results = outcome.json["results"]
        assert isinstance(results, list)
        return results

    def rows(self) -> list[dict[str, Any]]:
        """All rows that a fresh reader sees, ordered by document and place."""
        rows = self.search("anything", "--mode", "vector")
        return sorted(rows, key=lambda row: (row["document"], row["ordinal"]))

    def ask(self, question: str, *options: str) -> dict[str, Any]:
        """`rag-assets ask --json`."""
        outcome = self.run("ask", question, "--json", *options)
        assert outcome.status == 0, outcome.err
        return outcome.json

    def status(self) -> dict[str, Any]:
        """`rag-assets status --documents --json`."""
        outcome = self.run("status", "--documents", "--json")
        assert outcome.status == 0, outcome.err
        return outcome.json

    @property
    def embedded(self) -> int:
        """How many texts the provider has embedded as documents or questions, ever."""
        assert self.fake is not None
        return len(self.fake.embedded_texts)

    @property
    def settings(self) -> Settings:
        with mock.patch.dict(os.environ, self.environment):
            return load_settings()

    @property
    def notes(self) -> CorpusSettings:
        return self.settings.corpus("notes")

    @property
    def store(self) -> Store:
        return Store(self.settings.home)

    def definitions(self) -> dg.Definitions:
        """The code location as Dagster loads it."""
        return build_definitions(self.settings)

    def instance(self) -> dg.DagsterInstance:
        """The Dagster instance; close it, or use it as a context."""
        with mock.patch.dict(os.environ, self.environment):
            return dg.DagsterInstance.from_config(str(self.dagster_home))

    def partitions(self) -> list[str]:
        """The partition keys of the corpus, in their order."""
        with self.instance() as instance:
            return list(instance.get_dynamic_partitions("notes_documents"))
