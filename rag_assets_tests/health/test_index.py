"""Coverage and agreement of the published index, in stores that were really broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from rag_assets.config import HashingEmbedding, HealthSettings
from rag_assets.fingerprints import hash_text
from rag_assets.generations import generation_of
from rag_assets.health.agreement import index_agreement
from rag_assets.health.coverage import chunk_coverage
from rag_assets.health.verdicts import Verdict
from rag_assets.health.view import View
from rag_assets.materializing.index import remove_documents
from rag_assets.storing.publishing import publication_row, rollback
from rag_assets_tests.workbench import Workbench

Look = Callable[..., Verdict]


def index_of(bench: Workbench) -> lance.LanceDataset:
    return lance.dataset(bench.store.index("notes", generation_of(bench.corpus).id, dimensions=1).uri)


def publish_as_it_is(bench: Workbench) -> None:
    """Point readers at the newest rows, as nothing of ours would do without a look at them."""
    last = bench.published
    after = replace(last, version=last.version + 1, table_version=index_of(bench).version)
    bench.store.publications("notes").append(publication_row(after))


def reasons(verdict: Verdict) -> Sequence[tuple[Any, Any]]:
    return sorted((row["what"], row["document"]) for row in verdict.named)


def delete(bench: Workbench, where: str) -> None:
    index_of(bench).delete(where)


def insert(bench: Workbench, **columns: str) -> None:
    rows = index_of(bench).to_table(filter="document = 'b.md'")
    for name, value in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), pa.array([value]))
    index_of(bench).insert(rows)


def update(bench: Workbench, **columns: str) -> None:
    index_of(bench).update({name: f"'{value}'" for name, value in columns.items()}, where="document = 'b.md'")


def set_vector(bench: Workbench, values: np.ndarray) -> None:
    rows = index_of(bench).to_table(filter="document = 'b.md'")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.astype(np.float32)), len(values))
    rows = rows.set_column(rows.schema.get_field_index("vector"), rows.schema.field("vector"), vectors)
    index_of(bench).delete("document = 'b.md'")
    index_of(bench).insert(rows)


UNIT = np.eye(64)[0]
TAMPERED: Sequence[tuple[Callable[[Workbench], None], str, str]] = [
    (lambda bench: delete(bench, "document = 'b.md'"), "a chunk without a row", "b.md"),
    (lambda bench: insert(bench), "a row more than once", "b.md"),
    (lambda bench: insert(bench, chunk_id="other"), "a row of no chunk", "b.md"),
    (lambda bench: insert(bench, document="x.md", chunk_id="f" * 32), "a row of a document that is not known", "x.md"),
    (lambda bench: update(bench, text="oranges"), "text that is not that of its hash", "b.md"),
    (
        lambda bench: update(bench, text="oranges", text_hash=hash_text("oranges")),
        "another text than the chunk",
        "b.md",
    ),
    (lambda bench: set_vector(bench, 0 * UNIT), "a vector without a direction", "b.md"),
    (lambda bench: set_vector(bench, UNIT), "another vector than the stored one", "b.md"),
]


class TestCoverage:
    def test_every_chunk_is_there(self, bench: Workbench, look: Look):
        verdict = look(chunk_coverage)
        assert verdict.passed
        assert verdict.figures == {
            "chunks_expected": 3,
            "chunks_indexed": 3,
            "coverage": 1.0,
            "documents_uncovered": 0,
        }

    def test_a_document_that_lacks_rows_is_named(self, bench: Workbench, look: Look):
        delete(bench, "text = 'pears'")
        assert look(chunk_coverage).passed, "readers do not see it"
        publish_as_it_is(bench)
        verdict = look(chunk_coverage)
        assert not verdict.passed
        assert verdict.named == [{"document": "a.md", "expected": 2, "indexed": 1, "coverage": 0.5}]
        assert verdict.figures["coverage"] == pytest.approx(2 / 3)
        assert verdict.summary == "1 of 3 chunks are missing, of 1 document: rag-assets doctor notes --fix"

    def test_what_is_on_its_way_is_not_counted(self, bench: Workbench, look: Look):
        bench.write("c.md", "cherries")
        bench.update()
        assert look(chunk_coverage).figures["chunks_expected"] == 3
        bench.publish()
        assert look(chunk_coverage).figures["chunks_expected"] == 4


class TestAgreement:
    def test_every_row_is_what_it_should_be(self, bench: Workbench, look: Look):
        verdict = look(index_agreement)
        assert verdict.passed
        assert verdict.figures == {"rows_compared": 3, "rows_disagreeing": 0, "agreement": 1.0, "vectors_not_stored": 0}

    @pytest.mark.parametrize(("tamper", "reason", "document"), TAMPERED)
    def test_a_row_that_was_tampered_with_is_named(
        self, bench: Workbench, look: Look, tamper: Callable[[Workbench], None], reason: str, document: str
    ):
        tamper(bench)
        assert look(index_agreement).passed, "readers do not see it"
        publish_as_it_is(bench)
        verdict = look(index_agreement)
        assert not verdict.passed
        assert (reason, document) in reasons(verdict)
        assert {name for _, name in reasons(verdict)} == {document}
        assert verdict.figures["agreement"] < 1.0

    def test_nothing_is_wrong_while_a_run_changes_and_removes(self, bench: Workbench, look: Look):
        bench.write("b.md", "bilberries")
        (bench.folder / "a.md").unlink()
        bench.update()
        assert look(index_agreement).passed
        bench.publish()
        assert look(index_agreement).figures["rows_compared"] == 1

    def test_nothing_is_wrong_after_a_rollback(self, bench: Workbench, look: Look):
        bench.write("b.md", "bilberries")
        bench.write("c.md", "cherries")
        bench.ingest()
        remove_documents(bench.store, bench.corpus, ["c.md"])
        bench.publish()
        rollback(bench.store, "notes", 2)
        assert look(index_agreement).passed
        assert look(chunk_coverage).passed

    def test_nothing_is_wrong_after_a_rollback_to_a_rollback(self, bench: Workbench, look: Look):
        bench.write("c.md", "cherries")
        bench.ingest()
        rollback(bench.store, "notes", 1)
        bench.write("d.md", "dates")
        bench.ingest()
        assert rollback(bench.store, "notes", 3).changes["rolled_back_to"] == 1
        assert look(index_agreement).passed
        assert look(chunk_coverage).passed

    def test_nothing_is_wrong_while_another_generation_is_built(self, bench: Workbench, look: Look):
        bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
        assert look(index_agreement).passed
        bench.materialize("a.md")
        assert look(index_agreement).passed

    def test_keys_of_vectors_follow_the_template(self, bench: Workbench, look: Look):
        bench.configure(embed_template="{title}: {text}")
        bench.ingest()
        verdict = look(index_agreement)
        assert verdict.passed
        assert verdict.figures["vectors_not_stored"] == 0

    def test_a_sample_is_compared_and_another_one_the_next_day(self, bench: Workbench, look: Look):
        for number in range(20):
            bench.write(f"{number}.md", f"text number {number}")
        bench.ingest()
        delete(bench, "document = '7.md'")
        publish_as_it_is(bench)
        bench.configure(health=HealthSettings(sample=5))
        days = [look(index_agreement, now=datetime.now(UTC) + timedelta(days=day)) for day in range(40)]
        assert all(verdict.figures["rows_compared"] <= 6 for verdict in days)
        assert {verdict.passed for verdict in days} == {True, False}
        assert reasons(next(one for one in days if not one.passed)) == [("a chunk without a row", "7.md")]

    def test_a_run_that_writes_meanwhile_is_no_fault(self, bench: Workbench):
        """What is known of the documents was read before a run, and the rows after it."""
        view = View(bench.store, bench.corpus)
        assert "b.md" in view.known
        bench.write("a.md", "apples")
        bench.ingest()
        assert view.published.version == 2  # type: ignore[union-attr]
        assert index_agreement(view).passed
        assert chunk_coverage(view).passed
        delete(bench, "document = 'b.md'")
        publish_as_it_is(bench)
        view = View(bench.store, bench.corpus)
        assert "b.md" in view.known
        bench.materialize("a.md")
        assert not chunk_coverage(view).passed, "to look again does not make it go away"

    def test_lost_vectors_are_no_fault_of_the_index(self, bench: Workbench, look: Look):
        vectors = bench.store.vectors(generation_of(bench.corpus).embedding)
        lance.dataset(vectors.uri).delete(f"text_hash = '{hash_text('bananas')}'")
        verdict = look(index_agreement)
        assert verdict.passed
        assert verdict.figures["vectors_not_stored"] == 1
