"""Versions, findings of the doctor, money, answers, and what Dagster knows."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.config import EvaluationSettings
from rag_assets.health.answering import answer_rate
from rag_assets.health.money import monthly_spend
from rag_assets.health.platform import partitions, stuck_runs
from rag_assets.health.publishing import newest_version, nothing_to_mend
from rag_assets.health.verdicts import Verdict
from rag_assets.health.view import InstanceFacts
from rag_assets.records import ANSWERS, SPEND, Evaluation, Figures
from rag_assets.storing.evaluations import keep_evaluation
from rag_assets.storing.publishing import rollback
from rag_assets_tests.workbench import Workbench

Look = Callable[..., Verdict]
NOON = datetime(2026, 5, 15, 12, tzinfo=UTC)


class TestNewestVersion:
    def test_a_rollback_is_told(self, bench: Workbench, look: Look):
        bench.write("c.md", "cherries")
        bench.ingest()
        assert look(newest_version).passed
        rollback(bench.store, "notes", 1)
        verdict = look(newest_version)
        assert (verdict.passed, "a person rolled back to version 1" in verdict.summary) == (False, True)

    def test_rows_that_were_not_published_are_told(self, bench: Workbench, look: Look):
        bench.write("c.md", "cherries")
        bench.update()
        assert "holds something that readers do not see" in look(newest_version).summary
        bench.publish()
        assert look(newest_version).passed

    def test_they_are_told_beside_a_pending_document_that_no_run_can_make(self, bench: Workbench, look: Look):
        bench.write("b.md", "blueberries")
        bench.read("b.md")
        bench.write("c.md", "cherries")
        bench.materialize("c.md")
        assert look(newest_version).passed, "the run that makes b publishes"
        (bench.folder / "b.md").unlink()
        assert look(newest_version).passed, "the run that removes b publishes"
        for path in bench.folder.iterdir():
            path.unlink()
        assert "holds something that readers do not see" in look(newest_version).summary
        bench.folder.rmdir()
        assert "holds something that readers do not see" in look(newest_version).summary
        bench.publish()
        assert look(newest_version).passed

    def test_documents_without_a_publication_are_told(self, bench: Workbench, look: Look):
        shutil.rmtree(bench.store.publications("notes").uri)
        assert look(newest_version).summary == (
            "nothing is published, and 3 documents are known: rag-assets ingest notes"
        )

    def test_a_version_that_is_held_is_told(self, bench: Workbench, look: Look):
        settings = EvaluationSettings(questions="q.jsonl", block=True)
        bench.configure(evaluation=settings)
        index = bench.store.index("notes", bench.published.generation, dimensions=1)
        place: dict[str, Any] = {"generation": bench.published.generation, "table_version": index.open().version}
        keep_evaluation(bench.store, replace(evaluation(0.5), **place, held="it finds less"))
        assert look(newest_version).summary == "it finds less"


class TestMending:
    def test_a_damaged_file_is_found(self, bench: Workbench, look: Look):
        assert look(nothing_to_mend).passed
        (file,) = (Path(bench.store.chunks("notes").uri) / "data").iterdir()
        os.truncate(file, 40)
        verdict = look(nothing_to_mend)
        assert not verdict.passed
        assert verdict.summary.startswith("table chunks cannot be read (")
        assert verdict.named[0]["kind"] == "table_damaged"

    def test_a_home_that_cannot_be_written_to(
        self, bench: Workbench, look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("rag_assets.health.publishing.why_not_writable", lambda _: "Read-only file system")
        assert "cannot be written to (Read-only file system)" in look(nothing_to_mend).summary


class TestMoney:
    def spend(self, bench: Workbench, cost: float, *, at: datetime, corpus: str = "notes") -> None:
        row = {"spent_at": at, "corpus": corpus, "cost_usd": cost}
        bench.store.spend().append(pa.Table.from_pylist([row], schema=SPEND))

    def test_what_this_month_cost_is_compared_with_the_budget(self, bench: Workbench, look: Look):
        self.spend(bench, 2.0, at=NOON)
        self.spend(bench, 4.0, at=NOON - timedelta(days=20))
        self.spend(bench, 8.0, at=NOON, corpus="other")
        answer: Mapping[str, Any] = {"asked_at": NOON, "corpus": "notes", "usage": {"cost_usd": 1.0}}
        bench.store.answers().append(pa.Table.from_pylist([answer], schema=ANSWERS))
        verdict = look(monthly_spend, now=NOON)
        assert (verdict.passed, verdict.figures["spent_this_month_usd"]) == (True, 3.0)
        assert verdict.summary == "$3.0000 were spent since 1 May; no budget_per_month is set."
        bench.configure(budget_per_month=3.0)
        assert look(monthly_spend, now=NOON).passed
        bench.configure(budget_per_month=2.99)
        verdict = look(monthly_spend, now=NOON)
        assert not verdict.passed
        assert "and budget_per_month is $2.99: raise" in verdict.summary
        assert look(monthly_spend, now=NOON + timedelta(days=20)).passed

    @pytest.mark.parametrize(
        ("corpora", "cost"), [("notes, other", 1.0), ("other, notes", 0.0), ("notes_2, notes", 0.0), ("notes", 1.0)]
    )
    def test_an_answer_from_several_corpora_counts_for_the_first(
        self, bench: Workbench, look: Look, corpora: str, cost: float
    ):
        """It counted against no budget at all."""
        answer: Mapping[str, Any] = {"asked_at": NOON, "corpus": corpora, "usage": {"cost_usd": 1.0}}
        bench.store.answers().append(pa.Table.from_pylist([answer], schema=ANSWERS))
        assert look(monthly_spend, now=NOON).figures["spent_this_month_usd"] == cost


def evaluation(rate: float | None) -> Evaluation:
    values: dict[str, Any] = {**dict.fromkeys(Figures.__dataclass_fields__, 0.0), "answerable_accuracy": rate}
    return Evaluation(
        evaluated_at=datetime.now(UTC),
        corpus="notes",
        run_id="run",
        index_version=1,
        generation="g",
        table_version=1,
        embedding_model="m",
        answer_model=None,
        questions="q.jsonl",
        questions_hash="h",
        top_k=10,
        answerable=20,
        unanswerable=0,
        figures=Figures(**values),
    )


def test_questions_are_answered_or_not(bench: Workbench, look: Look):
    assert look(answer_rate).passed
    bench.configure(evaluation=EvaluationSettings(questions="q.jsonl"))
    assert look(answer_rate).figures == {}
    keep_evaluation(bench.store, evaluation(0.5))
    assert look(answer_rate).passed
    keep_evaluation(bench.store, evaluation(0.45))
    verdict = look(answer_rate)
    assert not verdict.passed
    assert verdict.summary == (
        "45% of 20 questions were answered with version 1, and evaluation.min_answer_rate is 0.5: see which, with"
        " rag-assets evaluate notes"
    )
    keep_evaluation(bench.store, replace(evaluation(0.9), held="it finds less"))
    assert look(answer_rate).figures == {"answer_rate": 0.45}


def test_what_dagster_knows(look: Look):
    assert look(partitions).passed
    assert look(stuck_runs).passed
    fine = InstanceFacts()
    assert look(partitions, instance_facts=lambda: fine).passed
    assert look(stuck_runs, instance_facts=lambda: fine).passed
    broken = InstanceFacts(["a.md"], ["gone.md"], {"0123456789": "its process is gone"})
    verdict = look(partitions, instance_facts=lambda: broken)
    assert not verdict.passed
    assert verdict.named == [
        {"document": "a.md", "lacks": "its partition"},
        {"document": "gone.md", "lacks": "its document"},
    ]
    verdict = look(stuck_runs, instance_facts=lambda: broken)
    assert "1 run of notes do not move, such as 01234567 (its process is gone)" in verdict.summary
    assert not verdict.passed
