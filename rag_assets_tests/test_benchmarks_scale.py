"""The benchmark of scale runs at a small size, and tells what it measured."""

from pathlib import Path

import pytest

from rag_assets.storing.ledger import known_documents
from rag_assets_tests.benchmarks.scale.filling import CHUNKS_A_DOCUMENT, fill, name_of, question
from rag_assets_tests.benchmarks.scale.growing import Cost, cost_of
from rag_assets_tests.benchmarks.scale.rows import measure_rows
from rag_assets_tests.benchmarks.scale.telling import as_markdown, as_svg, workers_as_markdown
from rag_assets_tests.benchmarks.scale.working import documents_per_second
from rag_assets_tests.workbench import CORPUS, make_workbench

SMALL = Cost(
    documents=1_000,
    cpu_ms=8.5,
    bookkeeping_ms=6.25,
    wall_ms=9.0,
    ingest_memory=450 * 2**20,
    tick_seconds=0.05,
    tick_cpu_seconds=0.04,
    tick_memory=260 * 2**20,
    question_ms=12.0,
    table_bytes=2_500,
    history_bytes=47_000,
)


@pytest.mark.slow
def test_a_document_a_tick_and_a_question_have_a_cost(tmp_path: Path):
    cost = cost_of(5, tmp_path / "five")
    assert cost.documents == 5
    assert 0 < cost.bookkeeping_ms < cost.cpu_ms
    assert min(cost.tick_seconds, cost.question_ms, cost.table_bytes, cost.history_bytes) > 0


@pytest.mark.slow
def test_processes_share_the_documents_of_one_corpus(tmp_path: Path):
    assert documents_per_second(2, 6, tmp_path / "two") > 0


@pytest.mark.slow
def test_rows_are_published_asked_changed_and_maintained(tmp_path: Path):
    report = measure_rows(80, tmp_path)
    assert [figure.what for figure in report.figures if figure.unit == "s"] == [
        "published for the first time, with all search indices",
        "50 questions",
        "8 rows changed and published",
        "maintained",
    ]
    assert all(figure.met for figure in report.figures if figure.goal)


def test_a_filled_corpus_is_one_that_was_ingested(tmp_path: Path):
    bench = make_workbench(tmp_path)
    fill(bench, range(3))
    report = bench.publish()
    assert report.published is not None
    assert (report.published.documents, report.published.chunks) == (3, 3 * CHUNKS_A_DOCUMENT)
    assert set(known_documents(bench.store.documents(CORPUS))) == {name_of(number) for number in range(3)}
    before = {passage.text for passage in bench.search(question(1), mode="vector", top_k=100)}
    fill(bench, range(1, 2), edition=1)
    assert bench.publish().changes is not None
    after = {passage.text for passage in bench.search(question(1), mode="vector", top_k=100)}
    assert len(after) == len(before) == 3 * CHUNKS_A_DOCUMENT
    assert len(after - before) == CHUNKS_A_DOCUMENT


def test_sizes_stand_side_by_side():
    table = as_markdown([SMALL, SMALL]).splitlines()
    assert table[0] == "| documents                        | 1,000 | 1,000 |"
    assert "| of which bookkeeping, ms         | 6.25  | 6.25  |" in table
    assert "| Dagster's history, kB a document | 47    | 47    |" in table
    picture = as_svg([SMALL, SMALL])
    assert picture.startswith("<svg ")
    assert picture.count("<polyline ") == 5
    assert "bookkeeping" in picture


def test_processes_are_told_beside_one():
    assert workers_as_markdown({1: 100.0, 2: 150.0}).splitlines()[-1] == (
        "| 2         | 150                | 1.50 ×     |"
    )
