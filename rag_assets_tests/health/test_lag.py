"""Ingestion lag: from the modification of a file until readers find it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from rag_assets.config import HashingEmbedding, HealthSettings
from rag_assets.health.lag import ingestion_lag
from rag_assets.health.verdicts import Verdict
from rag_assets_tests.workbench import Workbench, set_age

Look = Callable[..., Verdict]


def begin_long_ago(bench: Workbench, *, seconds: float = 1_000_000) -> None:
    """Make it look as if the corpus had been published for the first time some days ago."""
    table = bench.store.publications("notes")
    long_ago = datetime.now(UTC) - timedelta(seconds=seconds)
    table.open().update({"published_at": f"timestamp '{long_ago:%Y-%m-%d %H:%M:%S}'"}, where="version = 1")


def test_what_was_there_before_the_corpus_waited_for_nobody(bench: Workbench, look: Look):
    verdict = look(ingestion_lag)
    assert verdict.passed
    assert verdict.figures["lag_worst_seconds"] == 0.0


def test_a_change_took_from_its_modification_until_it_was_published(bench: Workbench, look: Look):
    begin_long_ago(bench)
    bench.write("a.md", "quinces", seconds_ago=600)
    bench.write("c.md", "cherries", seconds_ago=1_200)
    bench.ingest()
    verdict = look(ingestion_lag)
    assert verdict.passed
    assert 600 <= verdict.figures["lag_p50_seconds"] < 1_200
    assert 1_200 <= verdict.figures["lag_p95_seconds"] < 2_400
    assert verdict.figures["lag_p95_seconds"] == verdict.figures["lag_worst_seconds"]
    assert verdict.summary.startswith("3 changes of the last day: half were searchable within ")


def test_a_change_that_was_late_is_named(bench: Workbench, look: Look):
    begin_long_ago(bench)
    bench.write("a.md", "quinces", seconds_ago=7_200)
    bench.ingest()
    verdict = look(ingestion_lag)
    assert not verdict.passed
    assert verdict.figures["documents_late"] == 1
    assert [(row["document"], row["waits"]) for row in verdict.named] == [("a.md", "False")]
    bench.configure(health=HealthSettings(max_lag_seconds=8_000))
    assert look(ingestion_lag).passed


def test_a_change_that_waits_too_long_is_named(bench: Workbench, look: Look):
    begin_long_ago(bench)
    bench.write("new.md", "cherries", seconds_ago=3_000)
    assert look(ingestion_lag).passed
    set_age(bench.folder / "new.md", 4_000)
    verdict = look(ingestion_lag)
    assert [(row["document"], row["waits"]) for row in verdict.named] == [("new.md", "True")]
    assert "1 document took longer than 60 min, 1 of which still wait" in verdict.summary
    assert verdict.summary.endswith("rag-assets ingest notes")


def test_what_was_indexed_and_not_published_waits(bench: Workbench, look: Look):
    begin_long_ago(bench)
    bench.write("a.md", "quinces", seconds_ago=4_000)
    bench.update()
    assert [row["document"] for row in look(ingestion_lag).named] == ["a.md"]
    bench.configure(health=HealthSettings(max_lag_seconds=10_000))
    bench.publish()
    assert look(ingestion_lag).passed


def test_a_document_that_is_made_again_did_not_wait(bench: Workbench, look: Look):
    """A switch of the model makes every document again, months after it was modified."""
    begin_long_ago(bench)
    for name in ("a.md", "b.md"):
        set_age(bench.folder / name, 500_000)
    bench.update()
    table = bench.store.documents("notes").open()
    table.update({"text_since": "timestamp '2020-01-01 00:00:00'"}, where="true")
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    bench.ingest()
    assert bench.known["a.md"].text_since == datetime(2020, 1, 1, tzinfo=UTC)
    verdict = look(ingestion_lag)
    assert (verdict.passed, verdict.figures["lag_worst_seconds"]) == (True, 0.0)


def test_a_late_change_is_forgotten_after_a_day(bench: Workbench, look: Look):
    begin_long_ago(bench)
    bench.write("a.md", "quinces", seconds_ago=7_200)
    bench.ingest()
    assert look(ingestion_lag, now=datetime.now(UTC) + timedelta(hours=25)).passed


def test_four_scans_may_pass_where_they_are_rare(bench: Workbench, look: Look):
    begin_long_ago(bench)
    bench.write("new.md", "cherries", seconds_ago=10_000)
    assert not look(ingestion_lag).passed
    bench.configure(scan_seconds=3_600)
    assert look(ingestion_lag).passed


def test_a_text_that_waits_for_another_model_is_still_found(bench: Workbench, look: Look):
    begin_long_ago(bench)
    bench.write("c.md", "cherries", seconds_ago=600)
    bench.ingest()
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    assert bench.scan().outdated
    assert look(ingestion_lag, now=datetime.now(UTC) + timedelta(hours=2)).passed
