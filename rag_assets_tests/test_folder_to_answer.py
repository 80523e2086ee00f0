"""The specification: a folder becomes answers, and stays true while the folder changes.

Driven through the public definitions only: the sensor asks for runs, the jobs run, the job `ask` answers. If this passes,
the platform does what it is for.
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assets.records import Answer
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform

HARBOUR = """# The harbour

Ships enter the harbour through the northern gate.

The lighthouse keeper is called Amara Osei.
"""
MARKET = """# The market

The market opens at seven in the morning.

Fish is sold on Fridays only.
"""


class Town:
    """A platform driven by its own sensor and jobs in one Dagster instance."""

    def __init__(self, platform: Platform, instance: dg.DagsterInstance) -> None:
        self.platform = platform
        self.instance = instance
        self.definitions = platform.definitions()

    def tick(self) -> list[dg.DagsterRun]:
        """Evaluate the sensor once and execute every run that it asks for."""
        sensor = self.definitions.resolve_sensor_def("notes_corpus_sensor")
        context = dg.build_sensor_context(
            instance=self.instance, definitions=self.definitions, resources=self._resources(), sensor_name=sensor.name
        )
        result = sensor(context)
        if isinstance(result, dg.SkipReason):
            return []
        assert isinstance(result, dg.SensorResult)
        return [self._execute(request) for request in result.run_requests or ()]

    def ask(self, question: str) -> Answer:
        result = self.definitions.resolve_job_def("ask").execute_in_process(
            run_config={"question": question, "corpus": "notes"}, instance=self.instance
        )
        answer = result.output_for_node("generate")
        assert isinstance(answer, Answer)
        return answer

    def materialized(self, asset: str) -> set[str]:
        """Partitions of an asset that were materialized, ever."""
        return set(self.instance.get_materialized_partitions(dg.AssetKey(["notes", asset])))

    def runs_of(self, asset: str, partition: str) -> int:
        """How often a partition was materialized."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey(["notes", asset]), asset_partitions=[partition]), limit=100
        ).records
        return len(records)

    def metadata(self, asset: str, partition: str) -> dict[str, Any]:
        """What the last materialization of a partition says."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(asset_key=dg.AssetKey(["notes", asset]), asset_partitions=[partition]), limit=1
        ).records
        materialization = records[0].asset_materialization
        assert materialization is not None
        return {label: entry.value for label, entry in materialization.metadata.items()}

    def _resources(self) -> dict[str, Any]:
        return {"store": self.definitions.resources["store"]} if self.definitions.resources else {}

    def _execute(self, request: dg.RunRequest) -> dg.DagsterRun:
        assert request.job_name is not None
        result = self.definitions.resolve_job_def(request.job_name).execute_in_process(
            run_config=request.run_config or None,
            instance=self.instance,
            partition_key=request.partition_key,
            asset_selection=list(request.asset_selection) if request.asset_selection else None,
            tags={**(request.tags or {})},
            raise_on_error=False,
        )
        run = self.instance.get_run_by_id(result.run_id)
        assert run is not None
        return run


@pytest.fixture
def town(platform: Platform):
    with platform.instance() as instance:
        yield Town(platform, instance)


def test_a_folder_becomes_answers_and_stays_true_while_it_changes(town: Town, fake: FakeOpenAI):
    platform = town.platform

    # Add: both documents in one run, every stage of each on its own partition.
    platform.write("harbour.md", HARBOUR)
    platform.write("market.md", MARKET)
    runs = town.tick()
    assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS]
    for asset in ("documents", "chunks", "embeddings", "index"):
        assert town.materialized(asset) == {"harbour.md", "market.md"}
    assert town.metadata("documents", "harbour.md")["title"] == "The harbour"
    assert town.metadata("chunks", "harbour.md")["chunks"] == 2
    assert town.metadata("embeddings", "harbour.md")["texts_embedded"] == 2
    assert town.metadata("index", "market.md")["status"] == "indexed"
    assert sorted(fake.embedded_texts) == sorted(
        [
            "# The harbour\n\nShips enter the harbour through the northern gate.",
            "The lighthouse keeper is called Amara Osei.",
            "# The market\n\nThe market opens at seven in the morning.",
            "Fish is sold on Fridays only.",
        ]
    )

    # Ask: the answer cites the passage that holds it.
    answer = town.ask("Who is the keeper of the lighthouse?")
    assert answer.answered
    assert "Amara Osei" in answer.answer
    assert answer.citations[0].document == "harbour.md"
    assert "Amara Osei" in answer.citations[0].text
    assert (answer.index_version, answer.documents_indexed, answer.chunks_indexed) == (1, 2, 4)
    kept = platform.store.answers().read(["question", "run_id", "citations"]).to_pylist()
    assert [(row["question"], row["run_id"]) for row in kept] == [
        ("Who is the keeper of the lighthouse?", answer.run_id)
    ]

    # Nothing changed: nothing runs.
    assert town.tick() == []

    # Change one sentence: one partition, one text.
    before = len(fake.embedded_texts)
    platform.write("harbour.md", HARBOUR.replace("Amara Osei", "Tomas Lindqvist"))
    assert [run.status for run in town.tick()] == [dg.DagsterRunStatus.SUCCESS]
    assert fake.embedded_texts[before:] == ["The lighthouse keeper is called Tomas Lindqvist."]
    assert (town.runs_of("index", "harbour.md"), town.runs_of("index", "market.md")) == (2, 1)
    answer = town.ask("Who is the keeper of the lighthouse?")
    assert "Tomas Lindqvist" in answer.answer
    assert "Amara" not in answer.answer

    # Rename: nothing is embedded, citations show the new path.
    before = len(fake.embedded_texts)
    (platform.corpus / "harbour.md").rename(platform.corpus / "port.md")
    assert [run.job_name for run in town.tick()] == ["notes_ingest", "notes_remove"]
    assert fake.embedded_texts[before:] == []
    assert town.ask("Who is the keeper of the lighthouse?").citations[0].document == "port.md"
    assert sorted(town.instance.get_dynamic_partitions("notes_documents")) == ["market.md", "port.md"]

    # Delete: rows and partition go, the question is no longer answered.
    (platform.corpus / "port.md").unlink()
    assert [run.job_name for run in town.tick()] == ["notes_remove"]
    assert town.instance.get_dynamic_partitions("notes_documents") == ["market.md"]
    assert not town.ask("Who is the keeper of the lighthouse?").answered
    assert town.ask("When does the market open?").citations[0].document == "market.md"

    # A → B → A is seen both times, and the way back is free.
    platform.write("market.md", MARKET.replace("seven", "nine"))
    town.tick()
    before = len(fake.embedded_texts)
    platform.write("market.md", MARKET)
    assert [run.status for run in town.tick()] == [dg.DagsterRunStatus.SUCCESS]
    assert fake.embedded_texts[before:] == []
    assert "seven" in town.ask("When does the market open?").answer


def test_scattered_changes_become_one_run(town: Town):
    for number in range(10):
        town.platform.write(f"d{number}.md", f"Document number{number}.")
    town.tick()

    for number in (3, 7):
        town.platform.write(f"d{number}.md", f"Document number{number}, changed.")
    town.platform.write("new.md", "A new document.")
    runs = town.tick()

    assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS]
    assert runs[0].tags["dagster/asset_partition_range_start"] == "d3.md"
    assert runs[0].tags["dagster/asset_partition_range_end"] == "new.md"
    assert [town.runs_of("chunks", f"d{number}.md") for number in (2, 3, 4, 7)] == [1, 2, 1, 2]
    assert town.instance.get_dynamic_partitions("notes_documents")[-3:] == ["d3.md", "d7.md", "new.md"]


def test_a_tick_asks_for_a_bounded_number_of_documents(town: Town):
    town.platform.configure(max_documents_per_run=4)
    town.definitions = town.platform.definitions()
    for number in range(10):
        town.platform.write(f"d{number}.md", f"Document number{number}.")

    assert len(town.tick()) == 1
    assert len(town.materialized("index")) == 4
    assert len(town.tick()) == 1
    assert len(town.tick()) == 1
    assert town.tick() == []
    assert len(town.materialized("index")) == 10


def test_a_bad_document_is_set_aside_in_a_batch_and_fails_alone_when_it_is_retried(
    town: Town, monkeypatch: pytest.MonkeyPatch
):
    town.platform.write("good.md", "A good document.")
    town.platform.write("bad.txt", b"\x89PNG\r\n\x1a\n" + bytes(200))
    assert [run.status for run in town.tick()] == [dg.DagsterRunStatus.SUCCESS]
    assert town.metadata("documents", "bad.txt")["status"] == "failed"
    assert "PNG" in town.metadata("documents", "bad.txt")["reason"]
    assert {row["document"] for row in town.platform.rows()} == {"good.md"}
    assert town.tick() == [], "it waits before it is tried again"

    monkeypatch.setattr("rag_assets.scanning.retry_delay", lambda _attempts: __import__("datetime").timedelta(0))
    runs = town.tick()
    assert [run.status for run in runs] == [dg.DagsterRunStatus.FAILURE]
    assert runs[0].tags["dagster/partition"] == "bad.txt"
    for _ in range(5):
        town.tick()
    known = town.platform.status()["by_document"]
    assert [(d["document"], d["attempts"]) for d in known if d["status"] == "failed"] == [("bad.txt", 3)]


def test_an_unpartitioned_check_lists_what_is_set_aside(town: Town):
    town.platform.write("good.md", "A good document.")
    town.platform.write("bad.txt", b"\x89PNG\r\n\x1a\n" + bytes(200))
    town.tick()
    check = dg.AssetCheckKey(dg.AssetKey(["notes", "published_index"]), "every_document_is_indexed")
    record = town.instance.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    evaluation = record.event.dagster_event.event_specific_data  # type: ignore[union-attr]
    assert not evaluation.passed  # type: ignore[union-attr]
    assert "1 of 2" in (evaluation.description or "")  # type: ignore[union-attr]


def test_the_code_location_loads_as_dagster_loads_it(platform: Platform, monkeypatch: pytest.MonkeyPatch):
    for name, value in platform.environment.items():
        monkeypatch.setenv(name, value)
    repository = platform.definitions().get_repository_def()
    assert set(repository.job_names) >= {"ask", "notes_ingest", "notes_remove"}
    assert repository.has_sensor_def("notes_corpus_sensor")
    keys = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert keys == {"notes/documents", "notes/chunks", "notes/embeddings", "notes/index", "notes/published_index"}
    assert Path(platform.settings.home) == platform.home
