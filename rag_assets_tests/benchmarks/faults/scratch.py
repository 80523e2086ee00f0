"""A platform that may be broken: sixty documents, published three times, with a backup of the first publication."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from rag_assets.defs.doctoring import differing_partitions
from rag_assets.defs.runs import stuck_runs
from rag_assets.generations import generation_of
from rag_assets.health.checks import Finding, checks_of, examine
from rag_assets.health.view import InstanceFacts, View
from rag_assets.storing.publishing import latest_publication, publication_row
from rag_assets.storing.retention import hold
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import Workbench, set_age

DOCUMENTS = 60
_NAMES = ("Furka", "Grimsel", "Susten", "Gotthard", "Julier", "Albula", "Bernina", "Fluela")


@dataclass
class Scratch:
    """`platform` is the patient; `fake` is its provider; `backup` is its home as the first publication left it."""

    platform: Platform
    fake: FakeOpenAI
    backup: Path

    def look(self, *, only: str | None = None, later: timedelta = timedelta(0)) -> list[Finding]:
        """Do all checks, or the one called `only`, as if it were `later` by so much."""
        store, corpus = self.platform.store, self.platform.notes
        with self.platform.instance() as instance:

            def facts() -> InstanceFacts:
                seen = differing_partitions(instance, store, corpus)
                return InstanceFacts(seen.lost, seen.left_over, stuck_runs(instance, store, corpus))

            view = View(store, corpus, instance_facts=facts, now=datetime.now(UTC) + later)
            return list(examine(view, [one for one in checks_of(corpus) if only in (None, one.name)]))

    @property
    def bench(self) -> Workbench:
        """The steps of an ingest, one by one."""
        return Workbench(self.platform.corpus, self.platform.store, self.platform.notes)

    def folder(self, table: str) -> Path:
        """Where a table lies: `documents`, `chunks`, `index`, `publications` or `vectors`."""
        generation = generation_of(self.platform.notes)
        if table == "vectors":
            return Path(self.platform.store.vectors(generation.embedding).uri)
        name = f"index_{generation.id}" if table == "index" else table
        return Path(self.platform.store.corpus_uri("notes")) / f"{name}.lance"

    def table(self, name: str) -> lance.LanceDataset:
        """A table as any other program opens it."""
        return lance.dataset(self.folder(name))

    def rows(self, where: str) -> pa.Table:
        """Rows of the index."""
        return self.table("index").to_table(filter=where)

    def publish_as_it_is(self) -> None:
        """Point readers at the newest rows of the index, without a look at them."""
        store = self.platform.store
        latest = latest_publication(store, "notes")
        assert latest is not None
        index = store.index("notes", latest.generation, dimensions=1)
        after = replace(latest, version=latest.version + 1, table_version=int(index.open().version))
        hold(index, after.version, after.table_version)
        store.publications("notes").append(publication_row(after))

    def command(self, *arguments: str) -> None:
        """`rag-assets` with `arguments`, which must have mended or done what it was asked to."""
        outcome = self.platform.run(*arguments)
        if outcome.status != 0:
            raise RuntimeError(
                f"rag-assets {' '.join(arguments)} ended with {outcome.status}: {outcome.err}{outcome.out}"
            )


def newest(folder: Path) -> Path:
    """The file of `folder` that was written last."""
    return max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def prepare(root: Path, fake: FakeOpenAI) -> Scratch:
    """A platform in `root` that is as it should be."""
    questions = [{"id": f"q{n}", "question": f"How high is pass {n}?", "document": _name(n)} for n in range(4)]
    root.mkdir(parents=True, exist_ok=True)
    (root / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions), encoding="utf-8")
    platform = Platform(root, fake, _options(fake))
    fake.chat_reply = "It is as high as it says [1]."
    _write(platform, range(DOCUMENTS - 2))
    platform.ingest()
    shutil.copytree(platform.home, root / "backup")
    for numbers in ([DOCUMENTS - 2], [DOCUMENTS - 1, 0]):
        _write(platform, numbers, edition=2)
        platform.ingest()
    Scratch(platform, fake, root / "backup").command("evaluate")
    return Scratch(platform, fake, root / "backup")


def copy(whole: Scratch, root: Path) -> Scratch:
    """Another one like `whole`, in `root`."""
    shutil.copytree(whole.platform.root, root)
    return Scratch(Platform(root, whole.fake, _options(whole.fake)), whole.fake, root / "backup")


def _options(fake: FakeOpenAI) -> dict[str, Any]:
    server = {"provider": "openai", "base_url": fake.base_url, "max_retries": 0}
    return {
        "embedding": {**server, "model": "fake", "usd_per_million_tokens": 1_000},
        "generation": {**server, "model": "chat"},
        "evaluation": {"questions": "questions.jsonl"},
    }


def _name(number: int) -> str:
    return f"passes/{number:02}.md"


def _write(platform: Platform, numbers: Sequence[int], *, edition: int = 1) -> None:
    for number in numbers:
        name = _NAMES[number % len(_NAMES)]
        text = f"# Pass {number}\n\nThe {name} is {number} hundred metres high.\n\nEdition {edition}: it is pass {number}.\n"
        set_age(platform.write(_name(number), text), 60)
