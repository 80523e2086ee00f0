"""The specification again, for a corpus whose partitions are several sets: one name and one index, whatever their number.

What a person does by the name of the corpus is the same; what is told apart here are the assets, jobs and runs.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from rag_assets.defs import placing
from rag_assets.defs.jobs import ingest_job_name
from rag_assets.defs.partitions import partitions_name, shard_of, shards_of
from rag_assets.defs.runs import hold_back_until, note_request, request_is_open, runs_under_way
from rag_assets.errors import StoreError
from rag_assets.storing.publishing import publications
from rag_assets_tests.fakes import FakeOpenAI, Refusal
from rag_assets_tests.platform import REPOSITORY, Platform
from rag_assets_tests.test_folder_to_answer import HARBOUR, MARKET, Town

STAGES = ("documents", "chunks", "embeddings", "index")
DAGSTER = (sys.executable, "-m", "dagster")
BAD = b"\x89PNG\r\n\x1a\n" + bytes(200)


class ShardedTown(Town):
    """A town whose documents are looked for in the shard that they belong to."""

    @property
    def shards(self) -> int:
        return self.platform.notes.shards

    def use(self, shards: int) -> None:
        """Change the number of shards, and load the code location again."""
        self.platform.configure(shards=shards)
        self.definitions = self.platform.definitions()

    def materialized(self, asset: str) -> set[str]:
        found = (self.instance.get_materialized_partitions(self.key(asset, one)) for one in shards_of(self.shards))
        return set().union(*found)

    def runs_of(self, asset: str, partition: str) -> int:
        return len(self._materializations(asset, partition))

    def metadata(self, asset: str, partition: str) -> dict[str, Any]:
        materialization = self._materializations(asset, partition)[0].asset_materialization
        assert materialization is not None
        return {label: entry.value for label, entry in materialization.metadata.items()}

    def partitions(self) -> dict[int | None, set[str]]:
        """The keys of each set that has any, of any number of shards."""
        possible = (None, *range(64))
        found = {one: set(self.instance.get_dynamic_partitions(partitions_name("notes", one))) for one in possible}
        return {shard: keys for shard, keys in found.items() if keys}

    def where_they_belong(self, *documents: str) -> dict[int | None, set[str]]:
        found: dict[int | None, set[str]] = {}
        for document in documents:
            found.setdefault(shard_of(document, self.shards), set()).add(document)
        return found

    @staticmethod
    def key(asset: str, shard: int | None) -> dg.AssetKey:
        return dg.AssetKey(["notes", asset] if shard is None else ["notes", f"{shard:02}", asset])

    def _materializations(self, asset: str, partition: str) -> list[dg.EventLogRecord]:
        key = self.key(asset, shard_of(partition, self.shards))
        wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
        return list(self.instance.fetch_materializations(wanted, limit=100).records)


@pytest.fixture
def make_town(platform_with: Callable[..., Platform]):
    towns = []

    def make(**options: Any) -> ShardedTown:
        platform = platform_with(**options)
        towns.append(ShardedTown(platform, platform.instance()))
        return towns[-1]

    yield make
    for town in towns:
        town.instance.dispose()


@pytest.fixture
def town(make_town: Callable[..., ShardedTown]) -> ShardedTown:
    return make_town(shards=4)


def reason(town: ShardedTown) -> str:
    """Why the sensor asks for nothing."""
    sensor = town.definitions.resolve_sensor_def("notes_corpus_sensor")
    context = dg.build_sensor_context(
        instance=town.instance,
        definitions=town.definitions,
        resources={"store": town.definitions.resources["store"]},  # type: ignore[index]
    )
    result = sensor(context)
    assert isinstance(result, dg.SkipReason), result
    return result.skip_message or ""


def successes(runs: list[dg.DagsterRun]) -> list[bool]:
    return [run.status == dg.DagsterRunStatus.SUCCESS for run in runs]


def test_a_folder_becomes_answers_and_stays_true_while_it_changes(
    make_town: Callable[..., ShardedTown], fake: FakeOpenAI
):
    shards = 16  # no two of its documents share one
    town = make_town(shards=shards)
    platform = town.platform
    platform.write("harbour.md", HARBOUR)
    platform.write("market.md", MARKET)
    runs = town.tick()
    assert all(successes(runs))
    belong = town.where_they_belong("harbour.md", "market.md")
    assert {run.job_name for run in runs} == {ingest_job_name("notes", shard) for shard in belong}
    assert len(runs) == 2
    for asset in STAGES:
        assert town.materialized(asset) == {"harbour.md", "market.md"}
    assert town.metadata("documents", "harbour.md")["title"] == "The harbour"
    assert town.metadata("embeddings", "harbour.md")["texts_embedded"] == 2
    assert town.metadata("index", "market.md")["status"] == "indexed"
    assert len(fake.embedded_texts) == 4

    answer = town.ask("Who is the keeper of the lighthouse?")
    assert (answer.citations[0].document, answer.index_version) == ("harbour.md", 1)
    assert (answer.documents_indexed, answer.chunks_indexed) == (2, 4)
    assert town.tick() == []

    before = len(fake.embedded_texts)
    platform.write("harbour.md", HARBOUR.replace("Amara Osei", "Tomas Lindqvist"))
    assert successes(town.tick()) == [True]
    assert fake.embedded_texts[before:] == ["The lighthouse keeper is called Tomas Lindqvist."]
    assert (town.runs_of("index", "harbour.md"), town.runs_of("index", "market.md")) == (2, 1)
    assert "Tomas Lindqvist" in town.ask("Who is the keeper of the lighthouse?").answer

    before = len(fake.embedded_texts)
    (platform.corpus / "harbour.md").rename(platform.corpus / "port.md")
    port = shard_of("port.md", shards)
    assert [run.job_name for run in town.tick()] == [f"notes_ingest_{port:02}", "notes_remove"]
    assert fake.embedded_texts[before:] == []
    assert town.ask("Who is the keeper of the lighthouse?").citations[0].document == "port.md"
    assert town.partitions() == town.where_they_belong("market.md", "port.md")

    (platform.corpus / "port.md").unlink()
    assert [run.job_name for run in town.tick()] == ["notes_remove"]
    assert town.partitions() == town.where_they_belong("market.md")
    assert not town.ask("Who is the keeper of the lighthouse?").answered

    platform.write("market.md", MARKET.replace("seven", "nine"))
    town.tick()
    before = len(fake.embedded_texts)
    platform.write("market.md", MARKET)
    assert successes(town.tick()) == [True]
    assert fake.embedded_texts[before:] == []
    assert "seven" in town.ask("When does the market open?").answer


def test_a_tick_asks_for_one_run_a_shard_which_are_published_together(town: ShardedTown):
    names = [f"d{number}.md" for number in range(10)]
    for name in names:
        town.platform.write(name, f"Document {name}.")
    runs = town.tick()
    sizes = {shard: len(members) for shard, members in sorted(town.where_they_belong(*names).items())}
    assert len(sizes) == 4
    assert [run.tags["rag_assets/documents"] for run in runs] == [str(size) for size in sizes.values()]
    assert all(successes(runs))
    assert len(publications(town.platform.store, "notes")) == 1
    assert {row["document"] for row in town.platform.rows()} == set(names)

    town.platform.write("d3.md", "Document d3.md, changed.")
    town.platform.write("d7.md", "Document d7.md, changed.")
    town.tick()
    assert [town.runs_of("chunks", f"d{number}.md") for number in (2, 3, 4, 7)] == [1, 2, 1, 2]


def test_a_run_takes_a_bounded_number_of_documents_and_publishes_when_as_many_wait(town: ShardedTown):
    town.platform.configure(max_documents_per_run=2)
    town.definitions = town.platform.definitions()
    names = [f"d{number}.md" for number in range(10)]  # 4, 3, 2 and 1 in a shard
    for name in names:
        town.platform.write(name, f"Document {name}.")
    assert Counter(shard_of(name, 4) for name in names) == {3: 4, 1: 3, 0: 2, 2: 1}

    assert [run.tags["rag_assets/documents"] for run in town.tick()] == ["2", "2", "1", "2"]
    assert [one.documents for one in publications(town.platform.store, "notes")] == [7, 4, 2]
    assert [run.tags["rag_assets/documents"] for run in town.tick()] == ["1", "2"]
    assert town.tick() == []
    assert {row["document"] for row in town.platform.rows()} == set(names)


def test_what_a_failed_run_leaves_unpublished_is_published_by_the_next_tick(
    town: ShardedTown, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
):
    """The last run of a tick publishes for those before it. When it fails, none of them is lost."""
    town.platform.write("a.md", "Some text.")  # shard 0
    town.platform.write("b.md", "Some poison.")  # shard 3, alone: it fails its run
    fake.refuse_texts_with("poison")
    assert successes(town.tick()) == [True, False]
    assert town.platform.run("search", "text").status == 1
    monkeypatch.setattr("rag_assets.defs.sensors.hold_back_until", lambda *_, **__: None)
    monkeypatch.setattr("rag_assets.scanning.retry_delay", lambda _attempts: timedelta(0))
    assert successes(town.tick()) == [True], "before b.md is tried again: that may take many ticks"
    assert [row["document"] for row in town.platform.rows()] == ["a.md"]
    check = dg.AssetCheckKey(dg.AssetKey(["notes", "published_index"]), "every_document_is_indexed")
    record = town.instance.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    evaluation = record.event.dagster_event.event_specific_data  # type: ignore[union-attr]
    assert "1 of 2" in (evaluation.description or "")  # type: ignore[union-attr]

    (retry,) = town.tick()
    assert (retry.job_name, retry.tags["dagster/partition"]) == ("notes_ingest_03", "b.md")
    assert retry.asset_selection == {ShardedTown.key(asset, 3) for asset in STAGES}


@pytest.fixture
def failing_shard(town: ShardedTown, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> ShardedTown:
    """A town of which shard 3 fails as a whole, each time: its document stays pending. Shard 0 has another."""
    refused = Refusal(401, "No money for poison.", "invalid_api_key")
    monkeypatch.setattr(fake, "refuse_inputs", lambda texts: refused if "poison" in " ".join(texts) else None)
    town.platform.write("a.md", "Some text.")  # shard 0, published by the run of shard 3
    town.platform.write("b.md", "Some poison.")  # shard 3
    return town


def test_what_one_shard_made_does_not_wait_for_another_that_fails_each_time(failing_shard: ShardedTown):
    """a.md was indexed, and no reader saw it for as long as the provider refused b.md: each tick asked for b.md alone."""
    town = failing_shard
    assert successes(town.tick()) == [True, False]
    assert town.platform.run("search", "text").status == 1
    held = hold_back_until(town.instance, town.platform.notes)
    assert held is not None
    (publication,) = town.tick()
    assert successes([publication]) == [True]
    assert publication.asset_selection == {dg.AssetKey(["notes", "published_index"])}
    assert [row["document"] for row in town.platform.rows()] == ["a.md"]
    assert hold_back_until(town.instance, town.platform.notes) == held, "b.md is as far from being embedded as before"
    assert "the last run failed" in reason(town)


def test_a_publication_that_fails_is_not_asked_for_by_each_tick(
    failing_shard: ShardedTown, monkeypatch: pytest.MonkeyPatch
):
    town = failing_shard
    town.tick()

    def fail(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("rag_assets.defs.published_index.publish", fail)
    assert successes(town.tick()) == [False]
    assert "the last run failed" in reason(town)


def test_the_command_line_publishes_what_it_made_before_a_shard_failed(failing_shard: ShardedTown):
    outcome = failing_shard.platform.run("ingest")
    assert outcome.status == 1
    assert "No money for poison" in outcome.err
    assert [row["document"] for row in failing_shard.platform.rows()] == ["a.md"]
    held = hold_back_until(failing_shard.instance, failing_shard.platform.notes)
    assert held is not None, "the publication does not hide that the ingest failed"


def test_the_command_line_does_the_checks_of_an_ingest_when_it_only_publishes(town: ShardedTown):
    """It did those of the night too, some of which read every table."""

    def checked(run_id: str) -> list[str]:
        logs = town.instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        return sorted(one.dagster_event.asset_check_evaluation_data.check_name for one in logs if one.dagster_event)

    town.platform.write("a.md", "Some text.")
    (run,) = town.tick()
    of_ingest = checked(run.run_id)
    assert "every_document_is_indexed" in of_ingest
    town.platform.write("a.md", "Some other text.")
    stages = [ShardedTown.key(asset, 0) for asset in STAGES]
    job = town.definitions.resolve_job_def("notes_ingest_00")
    assert job.execute_in_process(instance=town.instance, partition_key="a.md", asset_selection=stages).success
    (run_id,) = town.platform.ingest()["runs"]
    assert checked(run_id) == of_ingest


def test_a_partition_in_two_sets_loses_the_wrong_one_when_others_move(town: ShardedTown):
    town.platform.write("a.md", "Some text.")  # shard 0
    town.platform.write("b.md", "Some other text.")  # shard 3
    town.tick()
    town.instance.add_dynamic_partitions(partitions_name("notes", 2), ["a.md", "b.md"])
    town.instance.delete_dynamic_partition(partitions_name("notes", 3), "b.md")
    town.tick()
    assert town.partitions() == {0: {"a.md"}, 3: {"b.md"}}


@pytest.mark.parametrize("path", [[1, 4, 1], [4, 8]], ids=str)
def test_another_number_of_shards_moves_partitions_and_makes_nothing_again(
    make_town: Callable[..., ShardedTown], fake: FakeOpenAI, path: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(placing, "MOVED_AT_ONCE", 5)
    town = make_town(shards=path[0])
    names = [f"d{number}.md" for number in range(12)]
    for name in names:
        town.platform.write(name, f"Document {name}.")
    town.platform.ingest()
    rows, version, sent = town.platform.rows(), town.platform.status()["index_version"], len(fake.embedded_texts)

    for shards in path[1:]:
        before = {name: shard_of(name, town.shards) for name in names}
        town.use(shards)
        moved = [name for name in names if shard_of(name, shards) != before[name]]
        ticks = 0
        while town.partitions() != town.where_they_belong(*names):
            told = reason(town)
            ticks += 1
            assert ("partitions moved to their shards" in told) == (len(moved) > 5 * ticks)
        assert ticks == -(-len(moved) // 5)
        assert reason(town) == "12 documents are unchanged"
        for asset in STAGES:
            assert town.materialized(asset) == set(names)
            assert all(
                town.metadata(asset, name)["moved_from"] == partitions_name("notes", before[name]) for name in moved
            )
        assert town.metadata("index", moved[0])["status"] == "indexed"
        assert town.platform.run("doctor").out == "nothing is wrong\n"
    assert len(town.platform.ingest()["runs"]) == 0
    assert len(fake.embedded_texts) == sent
    assert town.platform.rows() == rows
    assert town.platform.status()["index_version"] == version

    town.platform.write("d0.md", "Document d0, changed.")
    assert successes(town.tick()) == [True]
    assert town.runs_of("index", "d0.md") >= 2


def test_documents_that_changed_while_shards_did_leave_no_partition_behind(town: ShardedTown):
    for name in ("a.md", "b.md", "d3.md", "bad.txt"):
        town.platform.write(name, BAD if name == "bad.txt" else f"Document {name}.")
    town.platform.ingest()
    town.use(8)  # moves a.md, and takes d3.md and new.md up
    town.platform.write("a.md", "Changed.")
    town.platform.write("new.md", "New.")
    (town.platform.corpus / "d3.md").unlink()
    assert all(successes(town.tick()))
    assert town.partitions() == town.where_they_belong("a.md", "b.md", "bad.txt", "new.md")
    town.use(1)
    town.tick()
    assert town.partitions() == town.where_they_belong("a.md", "b.md", "bad.txt", "new.md")
    assert town.metadata("documents", "bad.txt")["status"] == "failed"
    assert "PNG" in town.metadata("documents", "bad.txt")["reason"]


@pytest.mark.parametrize("command", ["ingest", "doctor --fix", "reindex --all"])
def test_the_command_line_moves_partitions_too(town: ShardedTown, fake: FakeOpenAI, command: str):
    names = [f"d{number}.md" for number in range(6)]
    for name in names:
        town.platform.write(name, f"Document {name}.")
    town.platform.ingest()
    if command == "ingest":  # which opens Dagster only where there is something to do
        names.append("new.md")
        town.platform.write("new.md", "Document d0.md.")
    sent = len(fake.embedded_texts)
    town.use(3)
    found = town.platform.run("doctor", "notes")
    moving = sum(shard_of(f"d{number}.md", 4) != shard_of(f"d{number}.md", 3) for number in range(6))
    assert f"{moving} partitions are in sets that are not theirs with shards: 3" in found.out
    words = command.split()
    assert town.platform.run(words[0], "notes", *words[1:]).status == 0
    assert town.partitions() == town.where_they_belong(*names)
    assert town.platform.run("doctor").out == "nothing is wrong\n"
    assert len(fake.embedded_texts) == sent


def test_what_a_person_does_by_the_name_of_the_corpus_is_the_same(town: ShardedTown, fake: FakeOpenAI):
    platform = town.platform
    names = [f"d{number}.md" for number in range(8)]
    for name in names:
        platform.write(name, f"Document {name}.\n\nIts colour is shade{name[1]}.")
    assert platform.run("ingest", "notes", "--dry-run").status == 0
    report = platform.ingest("notes")
    assert (report["added"], report["chunks"], len(report["runs"])) == (8, 16, 4)
    assert platform.status()["index_version"] == 1, "four runs, one publication"
    assert town.partitions() == town.where_they_belong(*names)
    assert platform.search("shade5")[0]["document"] == "d5.md"

    assert platform.run("remove", "notes", "d1.md", "--yes").status in (0, 1)
    sent = len(fake.embedded_texts)
    assert platform.run("reindex", "notes", "--all").status == 0
    assert (len(fake.embedded_texts), town.runs_of("index", "d0.md")) == (sent, 2)

    platform.write("d2.md", "Changed.")
    assert platform.ingest("notes")["changed"] == 1
    versions = platform.run("versions", "notes", "--json").json["versions"]
    assert platform.run("rollback", str(versions[-1]["version"]), "--corpus", "notes").status == 0
    history = platform.run("status", "notes", "--json").json
    assert history["documents"]["indexed"] == 8


def test_the_nightly_health_job_shows_its_checks_on_what_readers_see(town: ShardedTown):
    town.platform.write("a.md", "Some text.")
    town.platform.ingest()
    result = town.definitions.resolve_job_def("notes_health").execute_in_process(instance=town.instance)
    evaluations = result.get_asset_check_evaluations()
    assert {one.asset_key.to_user_string() for one in evaluations} == {"notes/published_index"}
    assert [one.check_name for one in evaluations if not one.passed] == []


def test_runs_of_a_tick_that_fail_together_hold_back_once(town: ShardedTown):
    with town.instance as instance:
        assert hold_back_until(instance, town.platform.notes) is None
        ended = datetime.now(UTC)
        for tick in ("8", "9"):
            for shard in range(4):
                run = dg.DagsterRun(job_name=f"notes_ingest_{shard:02}", tags={"dagster/tick": tick})
                instance.add_run(run)
                instance.report_run_failed(run)
        until = hold_back_until(instance, town.platform.notes)
        assert until is not None
        assert 60 <= (until - ended).total_seconds() < 80, "the second failure in a row, not the eighth"


def test_only_the_shard_that_was_executed_again_counts_as_succeeded(town: ShardedTown):
    with town.instance as instance:
        jobs, tags = ("notes_ingest_00", "notes_ingest_01"), {"dagster/tick": "8"}
        for job in jobs:
            run = dg.DagsterRun(job_name=job, tags=tags)
            instance.add_run(run)
            instance.report_run_failed(run)
        for job, held in zip(jobs, (True, False), strict=True):
            instance.add_run(dg.DagsterRun(job_name=job, tags=tags, status=dg.DagsterRunStatus.SUCCESS))
            assert (hold_back_until(instance, town.platform.notes) is not None) == held


def test_runs_of_any_shard_are_runs_of_the_corpus(town: ShardedTown):
    with town.instance as instance:
        instance.add_run(dg.DagsterRun(job_name="other_ingest_01", status=dg.DagsterRunStatus.NOT_STARTED))
        assert runs_under_way(instance, town.platform.store, town.platform.notes) == []
        for job in ("notes_ingest_01", "notes_ingest_63", "notes_ingest"):  # of other numbers of shards as well
            instance.add_run(dg.DagsterRun(job_name=job, status=dg.DagsterRunStatus.NOT_STARTED))
        assert len(runs_under_way(instance, town.platform.store, town.platform.notes)) == 3


def test_a_request_is_open_until_all_of_its_runs_are_launched(town: ShardedTown):
    with town.instance as instance:
        store, notes = town.platform.store, town.platform.notes
        note_request(store, notes, 2)
        for job, is_open in (("notes_ingest_00", True), ("notes_ingest_01", False)):
            instance.add_run(dg.DagsterRun(job_name=job, status=dg.DagsterRunStatus.NOT_STARTED))
            assert request_is_open(instance, store, notes) == is_open


def test_runs_of_two_shards_at_once_lose_nothing(
    make_town: Callable[..., ShardedTown], fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
):
    """As Dagster's queue starts them: processes that read, embed, index and publish beside each other."""
    town = make_town(shards=2)
    names = [f"d{number}.md" for number in range(24)]
    for name in names:
        town.platform.write(name, f"Document {name}.\n\nThe same sentence everywhere.")
    requests: list[dg.RunRequest] = []
    monkeypatch.setattr(town, "_execute", requests.append)
    town.tick()
    assert len(requests) == 2
    execute = [*DAGSTER, "job", "execute", "-m", "rag_assets.definitions"]
    processes = [
        subprocess.Popen(
            [*execute, "-j", str(request.job_name), "--tags", json.dumps(request.tags)],
            cwd=REPOSITORY,
            env={**os.environ, **town.platform.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for request in requests
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    monkeypatch.undo()

    assert town.tick() == []
    assert len(town.platform.rows()) == 24 * 2
    assert {one["status"] for one in town.platform.status()["by_document"]} == {"indexed"}
    assert Counter(fake.embedded_texts).most_common(1)[0][1] <= 2, "the sentence that both have, at most once each"
    assert town.platform.run("doctor").out == "nothing is wrong\n"


def test_the_code_location_has_assets_and_a_job_for_each_shard(make_town: Callable[..., ShardedTown]):
    town = make_town(shards=3)
    repository = town.definitions.get_repository_def()
    labels = ("00", "01", "02")
    assert {name for name in repository.job_names if "ingest" in name} == {f"notes_ingest_{one}" for one in labels}
    keys = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert keys == {"notes/published_index", *(f"notes/{one}/{asset}" for one in labels for asset in STAGES)}
    groups = {repository.asset_graph.get(key).group_name for key in repository.asset_graph.get_all_asset_keys()}
    assert groups == {"notes", "notes_00", "notes_01", "notes_02"}
    parents = repository.asset_graph.get(dg.AssetKey(["notes", "published_index"])).parent_keys
    assert parents == {ShardedTown.key("index", one) for one in range(3)}

    done = subprocess.run(
        [*DAGSTER, "definitions", "validate", "-m", "rag_assets.definitions"],
        cwd=REPOSITORY,
        env={**os.environ, **town.platform.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
