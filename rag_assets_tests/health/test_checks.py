"""The checks as a whole: what is kept of them, and that one does not stop the others."""

import os
from pathlib import Path

from rag_assets.config import EvaluationSettings
from rag_assets.health.checks import CHECKS, checks_of, examine
from rag_assets.health.measuring import measure
from rag_assets.health.view import View
from rag_assets.storing.health import CheckResult, health_over_time
from rag_assets_tests.workbench import Workbench


def test_names_differ_and_evaluations_have_checks_where_there_are_questions(bench: Workbench):
    names = [one.name for one in CHECKS]
    assert len(set(names)) == len(names)
    without = {one.name for one in checks_of(bench.corpus)}
    bench.configure(evaluation=EvaluationSettings(questions="q.jsonl"))
    assert {one.name for one in checks_of(bench.corpus)} - without == {"enough_questions_are_answered"}


def test_a_whole_corpus_passes_all(bench: Workbench):
    assert [one.check.name for one in measure(View(bench.store, bench.corpus)) if not one.verdict.passed] == []


def test_measurements_are_kept_the_newest_first(bench: Workbench):
    measure(View(bench.store, bench.corpus, run_id="first"))
    bench.write("c.md", "cherries")
    bench.ingest()
    measure(View(bench.store, bench.corpus, run_id="second"))
    second, first = health_over_time(bench.store, "notes")
    assert (second.run_id, first.run_id) == ("second", "first")
    assert [one.figures["index_version"] for one in (second, first)] == [2, 1]
    assert [one.figures["chunks_indexed"] for one in (second, first)] == [4, 3]
    assert "answer_rate" not in second.figures
    assert (second.failed, second.figures["coverage"], second.figures["agreement"]) == ({}, 1.0, 1.0)
    assert second.checks["the_published_index_agrees_with_the_tables"] == CheckResult(
        passed=True, severity="error", summary="4 rows compared, and nothing is wrong."
    )


def test_a_check_that_cannot_look_fails_alone(bench: Workbench):
    """A damaged table is seen by whoever reads it, and the measurement is kept all the same."""
    for file in (Path(bench.store.documents("notes").uri) / "data").iterdir():
        os.truncate(file, 40)
    found = {one.check.name: one.verdict for one in measure(View(bench.store, bench.corpus))}
    assert found["every_document_is_indexed"].summary.startswith("it cannot be told: ")
    assert not found["nothing_needs_mending"].passed
    assert found["the_disk_has_room"].passed
    (kept,) = health_over_time(bench.store, "notes")
    assert "nothing_needs_mending" in kept.failed


def test_only_what_is_asked_is_looked_at(bench: Workbench):
    one = next(one for one in CHECKS if one.name == "the_disk_has_room")
    (found,) = examine(View(bench.store, bench.corpus), [one])
    assert (found.check, found.verdict.passed) == (one, True)
