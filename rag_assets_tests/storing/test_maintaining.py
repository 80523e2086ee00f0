import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from rag_assets.config import ChunkingSettings, HashingEmbedding, RetentionSettings
from rag_assets.generations import generation_of
from rag_assets.storing import tables
from rag_assets.storing.maintaining import MaintenanceReport, maintain
from rag_assets.storing.publishing import find_kept, rollback
from rag_assets.storing.unneeded_vectors import generations_in
from rag_assets_tests.workbench import CORPUS, Workbench

OTHER_MODEL = HashingEmbedding(provider="hashing", dimensions=32)
OTHER_CUTS = ChunkingSettings(strategy="paragraph", max_tokens=90, overlap_tokens=0)


def look_after(bench: Workbench, *, days: float = 0) -> MaintenanceReport:
    """Maintenance so many days from now."""
    later = datetime.now(UTC) + timedelta(days=days)
    return maintain(bench.store, {CORPUS: bench.corpus}, bench.corpus, run_id="night", now=later)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads what was left."""
    monkeypatch.setattr(tables, "KEEP_VERSIONS_FOR", timedelta(0))


def test_a_corpus_that_was_never_ingested_is_left_alone(bench: Workbench):
    report = look_after(bench)
    assert (report.rows, report.bytes_after, report.published, report.problem) == (0, 0, None, None)
    assert not bench.store.publications(CORPUS).exists()


def test_maintenance_of_what_is_in_order_changes_nothing_that_readers_see(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    before = bench.published
    report = look_after(bench)
    assert bench.published == before
    assert (report.rows, report.versions_dropped, report.generations_reclaimed, report.problem) == (1, [], [], None)
    assert report.bytes_before > 0


@pytest.mark.usefixtures("at_once")
def test_many_edits_leave_room_behind_that_maintenance_gives_back(bench: Workbench):
    bench.configure(retention=RetentionSettings(versions=2))
    for number in range(8):
        bench.write("a.md", f"apples {number} " + "red " * 50)
        bench.ingest()
    report = look_after(bench)
    assert report.bytes_after < report.bytes_before / 2
    assert bench.store.documents(CORPUS).open().versions()[:-1] == []
    assert find_kept(bench.store, CORPUS, 7).version == 7
    rollback(bench.store, CORPUS)
    assert "apples 6" in bench.texts("apples")[0]


@pytest.mark.usefixtures("at_once")
def test_a_rollback_survives_maintenance_and_stays(bench: Workbench):
    for colour in ("red", "green", "blue"):
        bench.write("a.md", f"{colour} apples")
        bench.ingest()
    rollback(bench.store, CORPUS, 1)
    look_after(bench)
    report = look_after(bench, days=400)
    assert list(report.versions_dropped) == [1, 2, 3]
    assert (bench.published.version, bench.published.is_rollback) == (4, True)
    assert bench.texts("apples") == ["red apples"]


def test_an_index_that_disagrees_is_told_and_left_alone(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    index = bench.store.index(CORPUS, bench.published.generation, dimensions=1)
    index.replace(["a.md"], index.open().schema.empty_table())
    report = look_after(bench)
    assert report.problem is not None
    assert "a.md has 0 rows and 1 chunks" in report.problem
    assert bench.published.version == 1
    assert bench.texts("apples") == ["apples"]


def test_what_is_on_its_way_is_not_published_by_maintenance(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    bench.write("a.md", "pears")
    bench.write("b.md", "plums")
    found = bench.scan()
    bench.materialize("a.md")
    bench.read("b.md")
    assert found.pending == ["a.md", "b.md"]
    assert look_after(bench).published is None
    assert bench.texts("apples pears plums") == ["apples"]


# Generations.


def generations(bench: Workbench) -> Sequence[str]:
    return generations_in(bench.store, CORPUS)


@pytest.mark.usefixtures("at_once")
def test_an_abandoned_generation_is_reclaimed_a_day_later_and_coming_back_embeds_nothing(bench: Workbench):
    bench.configure(retention=RetentionSettings(versions=1))
    bench.write("a.md", "apples")
    bench.ingest()
    first, old = bench.corpus.embedding, bench.published.generation
    bench.configure(embedding=OTHER_MODEL)
    bench.ingest()
    assert look_after(bench).generations_reclaimed == []
    assert list(look_after(bench, days=1.1).generations_reclaimed) == [old]
    assert generations(bench) == [bench.published.generation]
    assert bench.texts("apples", mode="vector") == ["apples"]
    bench.configure(embedding=first)
    assert bench.update().pending == ["a.md"]
    assert bench.known["a.md"].texts_embedded == 0
    assert bench.publish().moved is True


def test_a_generation_that_a_kept_version_names_stays(bench: Workbench):
    bench.write("a.md", "apples")
    bench.ingest()
    old = bench.published.generation
    bench.configure(embedding=OTHER_MODEL)
    bench.ingest()
    assert look_after(bench, days=2).generations_reclaimed == []
    assert old in generations(bench)
    rollback(bench.store, CORPUS)
    assert bench.texts("apples", mode="vector") == ["apples"]


def test_a_generation_that_is_being_built_stays_however_long_it_takes(bench: Workbench):
    bench.write("a.md", "apples")
    bench.write("b.md", "pears")
    bench.ingest()
    bench.configure(chunking=OTHER_CUTS)
    bench.materialize("a.md")
    assert look_after(bench, days=50).generations_reclaimed == []
    assert generation_of(bench.corpus).id in generations(bench)


def test_a_generation_that_never_was_published_is_reclaimed_when_it_is_not_configured_any_more(bench: Workbench):
    bench.write("a.md", "apples")
    bench.write("b.md", "pears")
    bench.ingest()
    first = bench.corpus.chunking
    bench.configure(chunking=OTHER_CUTS)
    bench.materialize("a.md")
    half = generation_of(bench.corpus).id
    bench.configure(chunking=first)
    assert list(look_after(bench, days=2).generations_reclaimed) == [half]
    assert bench.texts("apples pears") == ["apples", "pears"]


@pytest.mark.usefixtures("at_once")
def test_a_table_in_which_somebody_tagged_a_version_is_theirs_to_delete(bench: Workbench):
    bench.configure(retention=RetentionSettings(versions=1))
    bench.write("a.md", "apples")
    bench.ingest()
    old = bench.store.index(CORPUS, bench.published.generation, dimensions=1)
    old.open().tags.create("before-the-audit", bench.published.table_version)
    bench.configure(embedding=OTHER_MODEL)
    bench.ingest()
    assert look_after(bench, days=2).generations_reclaimed == []
    assert old.exists()


def test_a_reader_in_a_loop_meets_no_error_while_maintenance_runs(bench: Workbench, home: str):
    bench.configure(retention=RetentionSettings(versions=1))
    bench.write("a.md", "apples 0")
    bench.ingest()
    seen: list[Sequence[str]] = []
    errors: list[Exception] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                seen.append(bench.texts("apples"))
            except Exception as error:
                errors.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 4 if "://" in home else 8):
        bench.write("a.md", f"apples {number}")
        bench.ingest()
        look_after(bench)
    ended.set()
    reader.join()
    assert errors == []
    assert all(len(texts) == 1 for texts in seen)
    assert seen
