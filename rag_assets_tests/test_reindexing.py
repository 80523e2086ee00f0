"""Documents are made again in batches: what is current is left alone, and a batch that fails stops no other."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assets.config import ChunkingSettings
from rag_assets.defs.code_location import build_definitions
from rag_assets.embedding.providers import make_provider
from rag_assets.reindexing import Batch, choose, reindex, time_to_go_on_with
from rag_assets.storing.ledger import known_documents
from rag_assets.storing.publishing import publish
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import REPOSITORY, Platform
from rag_assets_tests.test_cases_failures import logged, provider_process
from rag_assets_tests.workbench import Workbench, make_workbench

OTHER_CHUNKING = {"strategy": "paragraph", "max_tokens": 90, "overlap_tokens": 0}
NAMES = [f"{letter}.md" for letter in "abcdef"]


@pytest.fixture
def six(platform: Platform) -> Platform:
    """Six documents of one paragraph each, published; sent to the provider: six texts. Made without Dagster: quicker."""
    for name in NAMES:
        platform.write(name, f"The text of {name[0] * 3}.\n")
    ingest(platform)
    return platform


def ingest(platform: Platform) -> None:
    store, corpus = platform.store, platform.notes
    documents = choose(store, corpus).documents
    provider = make_provider(corpus.embedding)
    batches = list(reindex(store, corpus, provider, documents, batch_size=500, run_id="run"))
    assert [batch.problem for batch in batches] == [None]
    assert publish(store, corpus, run_id="run").moved


def another_model(platform: Platform, **keys: Any) -> None:
    assert platform.fake is not None
    embedding = {"provider": "openai", "base_url": platform.fake.base_url, "model": "another", "max_retries": 0}
    platform.configure(embedding={**embedding, "max_inputs_per_request": 2, **keys})


def run(platform: Platform, *options: str) -> tuple[int, dict[str, Any]]:
    outcome = platform.run("reindex", "--json", *options)
    assert outcome.status in (0, 2), outcome.err
    return outcome.status, outcome.json


def indexed_at(platform: Platform) -> Mapping[str, datetime | None]:
    return {name: one.indexed_at for name, one in known_documents(platform.store.documents("notes")).items()}


def found(platform: Platform) -> list[str]:
    return sorted(row["document"] for row in platform.rows())


def metadata_of(platform: Platform, *, observed: bool = False) -> list[dict[str, Any]]:
    """What `published_index` says of itself, the newest first."""
    with platform.instance() as instance:
        fetch = instance.fetch_observations if observed else instance.fetch_materializations
        entries = [one.event_log_entry for one in fetch(dg.AssetKey(["notes", "published_index"]), limit=10).records]
    events = [entry.asset_observation if observed else entry.asset_materialization for entry in entries]
    return [{label: value.value for label, value in event.metadata.items()} for event in events if event]


class TestEverythingAgain:
    def test_goes_on_where_it_was_stopped(self, six: Platform, monkeypatch: pytest.MonkeyPatch):
        sent, before = six.embedded, indexed_at(six)
        batches = []

        def stopped(*arguments: Any, **keys: Any) -> Any:
            batches.append(arguments)
            if len(batches) == 3:
                raise KeyboardInterrupt
            return read(*arguments, **keys)

        from rag_assets.materializing.documents import read_documents as read

        time.sleep(1)  # the time is told in seconds
        begun = time_to_go_on_with()
        with monkeypatch.context() as patched:
            patched.setattr("rag_assets.reindexing.read_documents", stopped)
            outcome = six.run("reindex", "--all", "--batch", "2")
        assert outcome.status != 0
        assert "--older-than 20" in outcome.err
        then = indexed_at(six)
        assert [name for name in NAMES if then[name] != before[name]] == NAMES[:4]

        status, report = run(six, "--older-than", begun)
        assert (status, report["chosen"], report["remade"], report["current"]) == (0, 2, 2, 4)
        assert six.embedded == sent
        assert {name: at for name, at in indexed_at(six).items() if name in NAMES[:4]} == {
            name: then[name] for name in NAMES[:4]
        }
        status, report = run(six, "--older-than", begun)
        assert (status, report["chosen"], report["run_id"]) == (0, 0, None)

    def test_takes_a_time_of_any_zone(self, six: Platform):
        assert run(six, "--older-than", "2026-01-31")[1]["chosen"] == 0
        tomorrow = datetime.now(timezone(timedelta(hours=9))) + timedelta(days=1)
        assert run(six, "--older-than", tomorrow.isoformat())[1]["remade"] == 6

    def test_takes_what_is_stale_along(self, six: Platform):
        six.write("c.md", "Another text of c.\n")
        assert run(six, "--older-than", "2026-01-31")[1]["remade"] == 1


class TestWhatIsCurrent:
    def test_is_left_alone(self, six: Platform):
        before, sent = indexed_at(six), six.embedded
        status, report = run(six)
        assert (status, report["chosen"], report["current"], report["run_id"]) == (0, 0, 6, None)
        assert indexed_at(six) == before
        assert six.embedded == sent

    def test_is_left_alone_beside_what_changed(self, six: Platform):
        before = indexed_at(six)
        six.write("c.md", "Another text of c.\n")
        status, report = run(six)
        assert (status, report["remade"], report["current"], report["texts_embedded"]) == (0, 1, 5, 1)
        after = indexed_at(six)
        assert {name for name in NAMES if after[name] != before[name]} == {"c.md"}
        assert "Another text of c." in [row["text"] for row in six.rows()]

    def test_is_made_again_when_a_person_says_so_and_nothing_is_embedded(self, six: Platform):
        before, sent = indexed_at(six), six.embedded
        status, report = run(six, "--all", "--documents", "[ab].md", "--batch", "1")
        assert (status, report["remade"], report["batches"], report["current"]) == (0, 2, 2, 0)
        assert (report["texts_embedded"], report["texts_reused"], six.embedded) == (0, 2, sent)
        after = indexed_at(six)
        assert {name for name in NAMES if after[name] != before[name]} == {"a.md", "b.md"}
        assert found(six) == NAMES


class TestAnotherGeneration:
    def test_a_change_of_chunking_embeds_nothing_and_switches_at_the_end(self, six: Platform):
        sent, old = six.embedded, six.status()["generation"]
        six.configure(chunking=OTHER_CHUNKING)
        status, report = run(six, "--batch", "2")
        assert (status, report["remade"], report["batches"], report["moved"]) == (0, 6, 3, True)
        assert six.embedded == sent
        assert six.status()["generation"] == report["generation"] != old
        assert report["generation_progress"] == 1.0

    def test_a_part_of_the_documents_is_shown_and_the_old_model_answers_meanwhile(self, six: Platform):
        another_model(six)
        status, report = run(six, "--documents", "[a-c].md", "--batch", "2")
        assert (status, report["remade"], report["moved"], report["generation_progress"]) == (0, 3, False, 0.5)
        assert "lacks 3 of 6 documents" in report["waiting"]
        assert found(six) == NAMES
        assert six.ask("What is the text of fff?")["embedding_model"] == "openai/fake"
        shown = six.status()
        assert shown["generation_progress"] == 0.5
        assert shown["generation"] != shown["configured_generation"] == report["generation"]
        assert "a new generation is being built, 50.0% of the documents are in it" in six.run("status").out
        assert metadata_of(six)[0]["generation_progress"] == 0.5
        progress = [one["generation_progress"] for one in metadata_of(six, observed=True)]
        assert progress == [0.5, pytest.approx(2 / 6)]

        status, report = run(six)
        assert (report["remade"], report["current"], report["texts_embedded"], report["moved"]) == (3, 3, 3, True)
        assert six.status()["generation_progress"] == 1.0
        assert six.ask("What is the text of fff?")["embedding_model"] == "openai/another"

    def test_switching_back_embeds_nothing(self, six: Platform):
        old = six.notes.embedding.model_dump(mode="json", exclude_none=True)
        another_model(six)
        run(six)
        sent = six.embedded
        six.configure(embedding=old)
        assert run(six)[1]["moved"]
        assert six.embedded == sent
        assert six.ask("What is the text of fff?")["embedding_model"] == "openai/fake"


class TestAFailingBatch:
    def test_stops_no_other_and_can_be_run_again_alone(self, six: Platform, fake: FakeOpenAI):
        another_model(six)
        fake.fail_next(500)
        outcome = six.run("reindex", "--json", "--batch", "2")
        report = outcome.json
        assert outcome.status == 2
        assert (report["remade"], report["left"], report["stopped"]) == (4, 2, None)
        [failed] = report["failed_batches"]
        assert (failed["batch"], failed["documents"], failed["first"], failed["last"]) == (1, 2, "a.md", "b.md")
        assert "500" in failed["reason"]
        assert found(six) == NAMES

        before, sent = indexed_at(six), six.embedded
        status, report = run(six, "--failed")
        assert (status, report["chosen"], report["remade"], report["texts_embedded"]) == (0, 2, 2, 2)
        assert sorted(fake.embedded_texts[sent:]) == ["The text of aaa.", "The text of bbb."]
        assert report["moved"]
        after = indexed_at(six)
        assert {name for name in NAMES if after[name] != before[name]} == {"a.md", "b.md"}

    def test_what_the_others_made_of_the_same_generation_is_published(self, six: Platform, fake: FakeOpenAI):
        for name in NAMES:
            six.write(name, f"A new text of {name[0] * 3}.\n")
        fake.fail_next(400, code="model_not_found")
        status, report = run(six, "--batch", "3")
        assert (status, report["remade"], report["moved"]) == (2, 3, True)
        assert sorted(row["text"] for row in six.rows()) == [
            *(f"A new text of {letter * 3}." for letter in "def"),
            *(f"The text of {letter * 3}." for letter in "abc"),
        ]

    def test_a_document_that_is_set_aside_stops_not_even_its_batch(self, six: Platform, fake: FakeOpenAI):
        another_model(six)
        fake.refuse_texts_with("ccc")
        outcome = six.run("reindex", "--batch", "3")
        assert outcome.status == 2
        assert "5 of 6 documents made again" in outcome.out
        assert "c.md is set aside (embed): " in outcome.err
        fake.refuse_texts_with(None)
        status, report = run(six, "--failed")
        assert (status, report["remade"], report["texts_embedded"]) == (0, 1, 1)
        assert found(six) == NAMES

    @pytest.mark.parametrize(("status", "code"), [(401, "invalid_api_key"), (429, "insufficient_quota")])
    def test_what_would_fail_all_of_them_ends_it_at_the_second(
        self, six: Platform, fake: FakeOpenAI, status: int, code: str
    ):
        another_model(six)
        fake.fail_next(status, code=code, times=100)
        sent = len(fake.requests)
        outcome = six.run("reindex", "--batch", "1")
        assert len(fake.requests) == sent + 2
        assert outcome.status == 2
        lines = outcome.err.strip().splitlines()
        assert [line.split(" failed ")[0] for line in lines[:2]] == ["rag-assets: batch 1", "rag-assets: batch 2"]
        assert lines[2].endswith("would fail as well and were not begun; 6 documents left")
        fake.recover()
        assert found(six) == NAMES

    def test_a_provider_that_is_down_is_not_asked_for_ever(self, six: Platform, fake: FakeOpenAI):
        another_model(six)
        fake.fail_next(503, times=100)
        sent = len(fake.requests)
        report = run(six, "--batch", "1")[1]
        assert len(fake.requests) == sent + 5
        assert (report["left"], "503" in report["stopped"]) == (6, True)

    def test_the_budget_bounds_all_batches_together(self, six: Platform, fake: FakeOpenAI):
        """Each batch of two costs $0.008; the budget holds two of them."""
        fake.count_tokens = lambda text: 4
        another_model(six, usd_per_million_tokens=1000.0)
        six.configure(max_cost_per_run=0.02)
        report = run(six, "--batch", "2")[1]
        assert report["remade"] < 6
        assert report["cost_usd"] <= 0.02
        assert "max_cost_per_run is $0.0200; nothing more was sent" in report["failed_batches"][0]["reason"]


class TestTheJob:
    @pytest.fixture
    def execute(self, six: Platform, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dg.ExecuteInProcessResult]:
        def execute(**config: Any) -> dg.ExecuteInProcessResult:
            for name, value in six.environment.items():
                monkeypatch.setenv(name, value)
            job = build_definitions(six.settings).resolve_job_def("notes_reindex")
            with six.instance() as instance:
                return job.execute_in_process(run_config=config, instance=instance, raise_on_error=False)

        return execute

    def test_materializes_what_it_made_and_publishes(
        self, six: Platform, execute: Callable[..., dg.ExecuteInProcessResult]
    ):
        another_model(six)
        result = execute(batch_size=4)
        assert result.success
        assert result.output_for_node("notes_reindex_documents")["remade"] == 6
        with six.instance() as instance:
            for asset in ("documents", "chunks", "embeddings", "index"):
                event = instance.get_latest_materialization_event(dg.AssetKey(["notes", asset]))
                assert event is not None
                assert event.run_id == result.run_id, asset
                assert set(instance.get_materialized_partitions(dg.AssetKey(["notes", asset]))) == set(NAMES)
            last = instance.fetch_materializations(dg.AssetKey(["notes", "embeddings"]), limit=1).records[0]
            assert last.asset_materialization is not None
            assert last.asset_materialization.metadata["texts_embedded"].value == 1
        assert metadata_of(six)[0]["moved"] is True

    def test_fails_at_the_end_when_a_batch_failed_and_says_which(
        self, six: Platform, fake: FakeOpenAI, execute: Callable[..., dg.ExecuteInProcessResult]
    ):
        another_model(six)
        fake.fail_next(500)
        result = execute(batch_size=2)
        assert not result.success
        [event] = [event for event in result.all_events if event.is_step_failure]
        failure = event.step_failure_data.user_failure_data
        assert failure is not None
        assert (failure.description or "").startswith(
            "1 of 3 batches failed, and 2 of 6 documents are still to be made: "
        )
        assert execute(failed=True).success
        assert found(six) == NAMES
        assert six.status()["generation_progress"] == 1.0

    def test_refuses_what_makes_no_sense(self, six: Platform, execute: Callable[..., dg.ExecuteInProcessResult]):
        assert not execute(failed=True, all=True).success
        assert not execute(documents="nothing/**").success
        assert not execute(older_than="yesterday").success

    def test_holds_the_sensor_while_it_works(self, six: Platform):
        from rag_assets.defs.runs import runs_under_way

        job = six.definitions().resolve_job_def("notes_reindex")
        with six.instance() as instance:
            run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
            under_way = runs_under_way(instance, six.store, six.notes)
        assert [one.run_id for one in under_way] == [run.run_id]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--failed", "--all"), "failed and all exclude each other"),
        (("--older-than", "2026-01-31", "--all"), "older_than says itself what is made again"),
        (("--older-than", "yesterday"), "'yesterday' is no time; write it such as 2026-01-31"),
        (
            ("--documents", "nothing/**"),
            "no document of notes matches 'nothing/**'; rag-assets status notes --documents",
        ),
        (("--documents", "a**"), "'a**' is not a glob"),
        (("--batch", "0"), "batch"),
    ],
)
def test_what_makes_no_sense_is_told(six: Platform, options: tuple[str, ...], said: str):
    outcome = six.run("reindex", *options)
    assert (outcome.status, said in outcome.err) == (1, True), outcome.err


class TestWithoutDagster:
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Workbench:
        bench = make_workbench(tmp_path)
        for name in NAMES:
            bench.write(name, f"The text of {name[0] * 3}.")
        bench.ingest()
        bench.configure(chunking=ChunkingSettings(strategy="paragraph", max_tokens=90, overlap_tokens=0))
        return bench

    def batches(self, bench: Workbench, *, size: int = 2) -> list[Batch]:
        documents = choose(bench.store, bench.corpus).documents
        return list(reindex(bench.store, bench.corpus, bench.provider, documents, batch_size=size, run_id="run"))

    def test_a_kill_in_the_middle_loses_no_batch_that_was_done(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch):
        calls = []

        def killed(*arguments: Any, **keys: Any) -> Any:
            calls.append(arguments)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return embed(*arguments, **keys)

        from rag_assets.materializing.embeddings import embed_documents as embed

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("rag_assets.reindexing.embed_documents", killed)
            self.batches(bench)
        before = {name: one.indexed_at for name, one in bench.known.items()}
        assert choose(bench.store, bench.corpus).documents == ["c.md", "d.md", "e.md", "f.md"]
        assert len(bench.search("text")) == 6

        assert [batch.problem for batch in self.batches(bench)] == [None, None]
        after = {name: one.indexed_at for name, one in bench.known.items()}
        assert {name for name in NAMES if after[name] == before[name]} == {"a.md", "b.md"}
        assert bench.publish().moved
        assert choose(bench.store, bench.corpus).idle

    def test_a_batch_that_fails_unexpectedly_is_told_with_its_kind(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ):
        def broken(*arguments: Any, **keys: Any) -> Any:
            raise ValueError("half a\ntable")

        monkeypatch.setattr("rag_assets.reindexing.chunk_documents", broken)
        batches = self.batches(bench, size=1)
        assert [batch.problem for batch in batches] == ["unexpected ValueError: half a table"] * 5
        assert [batch.is_last_straw for batch in batches] == [False, False, False, False, True]

    def test_no_memory_is_nobody_elses_fault(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch):
        def full(*arguments: Any, **keys: Any) -> Any:
            raise MemoryError

        monkeypatch.setattr("rag_assets.reindexing.chunk_documents", full)
        with pytest.raises(MemoryError):
            self.batches(bench)

    def test_a_publication_that_a_kill_prevented_is_due(self, bench: Workbench):
        self.batches(bench)
        choice = choose(bench.store, bench.corpus)
        assert (choice.documents, choice.publication_is_due, choice.idle) == ([], True, False)


@pytest.mark.slow
def test_a_killed_command_goes_on_where_it_was(tmp_path: Path):
    log = tmp_path / "embedded.jsonl"
    with provider_process(log, latency_seconds=0.3) as base_url:
        provider = {"provider": "openai", "base_url": base_url, "model": "fake", "max_inputs_per_request": 4}
        platform = Platform(tmp_path, options={"embedding": provider})
        for number in range(12):
            platform.write(f"{number:02}.md", f"The text of number{number}.\n")
        ingest(platform)
        platform.configure(embedding={**provider, "model": "another"})
        sent = len(logged(log))
        command = [sys.executable, "-c", "from rag_assets.cli import main; main()", "reindex", "--batch", "4"]
        process = subprocess.Popen(command, cwd=REPOSITORY, env=os.environ | platform.environment)
        deadline = time.monotonic() + 300
        while len(logged(log)) < sent + 8 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = indexed_at(platform)
        status, report = run(platform, "--batch", "4")
        after = indexed_at(platform)

    assert status == 0
    assert report["moved"]
    assert 0 < report["remade"] <= 8
    assert len([name for name in before if before[name] == after[name]]) == report["current"] >= 4
    assert len(logged(log)) <= sent + 12 + 4
