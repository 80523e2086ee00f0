"""An ingest that failed half way and is taken up again, here, from Dagster or on another machine; and ingests at once."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import dagster as dg
import yaml

from rag_assets.config import load_settings
from rag_assets.defs.code_location import build_definitions
from rag_assets_tests.benchmarks.counting import CountingProvider
from rag_assets_tests.benchmarks.durability.editions import Edition, count, edition, write
from rag_assets_tests.benchmarks.durability.outcomes import Outcome, must_have_a_vector_a_text, outcome
from rag_assets_tests.benchmarks.durability.windows import WINDOW, platform_at
from rag_assets_tests.benchmarks.measuring import COMMAND_LINE, REPOSITORY
from rag_assets_tests.platform import Platform

_DOCUMENTS = 20
_LATENCY_SECONDS = 0.3  # so that 2,000 texts take much longer than one process may start after another


def ingest_job() -> dg.JobDefinition:
    """The job that ingests the corpus `notes` of the configuration in force."""
    return build_definitions(load_settings()).resolve_job_def("notes_ingest")


def run_again(root: Path, *, texts: int) -> Outcome:
    """The quota is spent half way; once there is more, the same command is run again."""
    with CountingProvider() as provider:
        platform, source = _failed_half_way(root / "again", provider, texts)
        platform.ingest()
        must_have_a_vector_a_text(platform)
        what = "a run that failed half way, then the same command"
        return outcome(what, platform, provider, source, texts=texts, allowed=texts + WINDOW)


def re_execute(root: Path, *, texts: int) -> Outcome:
    """The same, but the failed run is re-executed from its failure, as a button of the UI does."""
    with CountingProvider() as provider:
        platform, source = _failed_half_way(root / "re-executed", provider, texts)
        with mock.patch.dict(os.environ, platform.environment), platform.instance() as instance:
            failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))[0]
            result = dg.execute_job(
                dg.reconstructable(ingest_job),
                instance=instance,
                tags={name: value for name, value in failed.tags.items() if name.startswith("dagster/asset_partition")},
                reexecution_options=dg.ReexecutionOptions.from_failure(failed.run_id, instance),
                raise_on_error=True,
            )
            assert result.success
        must_have_a_vector_a_text(platform)
        what = "a run that failed half way, re-executed from Dagster"
        return outcome(what, platform, provider, source, texts=texts, allowed=texts + WINDOW)


def move(root: Path, *, texts: int) -> Outcome:
    """The same, but the store is moved to another machine half way, and again when it is done, without Dagster's history."""
    with CountingProvider() as provider:
        here, source = _failed_half_way(root / "here", provider, texts)
        there = _moved(here, root / "there")
        there.ingest()
        done = provider.sent
        elsewhere = _moved(there, root / "elsewhere")
        assert elsewhere.ingest()["runs"] == [], "an ingest of a moved store found something to do"
        assert provider.sent == done
        must_have_a_vector_a_text(elsewhere)
        what = "a run that failed half way, the store moved to another machine, and moved again when done"
        return outcome(what, elsewhere, provider, source, texts=texts, allowed=texts + WINDOW)


def race_two_corpora(root: Path, *, texts: int) -> Outcome:
    """Two corpora with the same texts, ingested at once by two processes."""
    with CountingProvider(latency_seconds=_LATENCY_SECONDS) as provider:
        platform = platform_at(root / "two-corpora", provider)
        path = platform.root / "corpora.yaml"
        notes = yaml.safe_load(path.read_text(encoding="utf-8"))["corpora"]["notes"]
        path.write_text(yaml.safe_dump({"corpora": {"notes": notes, "twins": notes}}), encoding="utf-8")
        source, paid = _new_edition_beside_an_old_one(platform, texts)
        _at_once(platform, ["ingest", "notes"], ["ingest", "twins"])
        what, allowed = "two corpora with the same texts, ingested at once", paid + 2 * WINDOW
        outcomes = [
            outcome(what, platform, provider, source, texts=paid, allowed=allowed, corpus=corpus)
            for corpus in ("notes", "twins")
        ]
        return max(outcomes, key=lambda one: one.lost + one.duplicated)


def race_one_corpus(root: Path, *, texts: int) -> Outcome:
    """One corpus, ingested at once by two processes."""
    with CountingProvider(latency_seconds=_LATENCY_SECONDS) as provider:
        platform = platform_at(root / "one-corpus", provider)
        source, paid = _new_edition_beside_an_old_one(platform, texts)
        _at_once(platform, ["ingest", "notes"], ["ingest", "notes"])
        what = "one corpus, ingested twice at once"
        return outcome(what, platform, provider, source, texts=paid, allowed=paid)


SCENARIOS: tuple[Callable[..., Outcome], ...] = (run_again, re_execute, move, race_two_corpora, race_one_corpus)


def _failed_half_way(root: Path, provider: CountingProvider, texts: int) -> tuple[Platform, Edition]:
    platform = platform_at(root, provider)
    source = edition(1, documents=_DOCUMENTS, texts=texts)
    write(platform, source)
    provider.quota = texts // 2
    assert platform.run("ingest").status == 1, "the run was to fail when the quota was spent"
    assert texts // 2 <= provider.sent < count(source)
    provider.quota = None
    return platform, source


def _new_edition_beside_an_old_one(platform: Platform, texts: int) -> tuple[Edition, int]:
    """Ingest an old edition, write a new one, and tell how many texts both have."""
    old = edition(0, documents=_DOCUMENTS, texts=_DOCUMENTS)
    write(platform, old)
    platform.ingest()
    new = edition(1, documents=_DOCUMENTS, texts=texts)
    write(platform, new)
    return new, count(old) + count(new)


def _moved(platform: Platform, root: Path) -> Platform:
    """`platform` on another machine: its tables, its files and its configuration under another path."""
    root.mkdir()
    for folder in (platform.home, platform.corpus):
        shutil.copytree(folder, root / folder.name)
    notes = yaml.safe_load((platform.root / "corpora.yaml").read_text(encoding="utf-8"))["corpora"]["notes"]
    return Platform(root, options={"embedding": notes["embedding"]})


def _at_once(platform: Platform, *commands: list[str]) -> None:
    """Run `rag-assets` once for each of `commands`, side by side."""
    processes = [
        subprocess.Popen(
            [sys.executable, *COMMAND_LINE, *command],
            cwd=REPOSITORY,
            env=os.environ | platform.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    said = [process.communicate()[1] for process in processes]
    for process, words in zip(processes, said, strict=True):
        if process.returncode:
            raise RuntimeError(f"rag-assets ingest ended with {process.returncode}: {words.strip()}")
