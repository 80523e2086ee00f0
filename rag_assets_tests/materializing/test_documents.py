import json
from datetime import UTC, datetime
from typing import Any

import pytest

from rag_assets.config import HashingEmbedding
from rag_assets.errors import DocumentError, ProviderError
from rag_assets.materializing.reports import StageReport, set_aside
from rag_assets.reading.sources.folder import FolderSource
from rag_assets.scanning import due_for_retry
from rag_assets_tests.workbench import CORPUS, Workbench

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"


def row_of(bench: Workbench, document: str) -> dict[str, Any]:
    rows = bench.store.documents(CORPUS).read_where_in("document", [document]).to_pylist()
    assert len(rows) == 1
    row: dict[str, Any] = rows[0]
    return row


def test_a_document_is_kept_with_its_text_its_hashes_and_where_it_came_from(bench: Workbench):
    path = bench.write("sub/a.md", "---\nauthor: me\n---\n# Title\n\nZürich\n")
    report = bench.read("sub/a.md")
    row = row_of(bench, "sub/a.md")
    assert (row["title"], row["mime"], row["status"]) == ("Title", "text/markdown", "pending")
    assert row["text"] == "# Title\n\nZürich\n"
    assert row["first_line"] == 4
    assert json.loads(row["metadata"]) == {"author": "me"}
    assert row["source_uri"] == path.as_uri()
    assert (row["bytes"], row["modified_ns"]) == (path.stat().st_size, path.stat().st_mtime_ns)
    assert row["run_id"] == "run"
    assert report.documents["sub/a.md"]["title"] == "Title"
    assert report.total("characters") == 16


def test_documents_of_a_batch_are_written_in_one_commit(bench: Workbench):
    for name in "abc":
        bench.write(f"{name}.md", name)
    bench.read("a.md", "b.md", "c.md")
    first = bench.store.documents(CORPUS).open().version
    bench.read("a.md", "b.md", "c.md")
    assert bench.store.documents(CORPUS).open().version == first + 1


def test_one_bad_document_is_set_aside_with_its_reason_and_the_others_go_on(bench: Workbench):
    bench.write("good.md", "good")
    bench.write("bad.md", PNG)
    bench.write("odd.xyz", PNG)
    report = bench.read("bad.md", "gone.md", "good.md", "odd.xyz")
    assert list(report.documents) == ["good.md"]
    assert set(report.failed) == {"bad.md", "gone.md", "odd.xyz"}
    known = bench.known
    assert {name: known[name].status for name in known} == {
        "good.md": "pending",
        "bad.md": "failed",
        "gone.md": "failed",
        "odd.xyz": "failed",
    }
    assert (known["bad.md"].stage, known["bad.md"].attempts, known["bad.md"].retryable) == ("read", 1, False)
    assert (known["gone.md"].retryable, known["gone.md"].byte_hash) == (True, None)
    assert "a PNG image" in (known["bad.md"].reason or "")
    assert "include or exclude of the corpus leaves its name out" in (known["odd.xyz"].reason or "")


def test_a_document_that_cannot_be_read_any_more_keeps_its_last_good_text(bench: Workbench):
    bench.write("a.md", "good")
    bench.materialize("a.md")
    bench.write("a.md", PNG)
    bench.read("a.md")
    row = row_of(bench, "a.md")
    assert (row["status"], row["text"], row["bytes"]) == ("failed", "good", len(PNG))
    assert row["indexed_at"] is not None


def test_later_stages_pass_over_what_was_set_aside(bench: Workbench):
    bench.write("a.md", "good")
    bench.materialize("a.md")
    bench.write("a.md", PNG)
    bench.read("a.md")
    reason = bench.known["a.md"].reason
    skipped = {"a.md": f"set aside by an earlier stage (read): {reason}", "unknown.md": "it was not read yet"}
    for stage in (bench.chunk, bench.embed, bench.index):
        assert stage("a.md", "unknown.md") == StageReport(skipped=skipped)
    assert bench.store.chunks(CORPUS).read(["text"])["text"].to_pylist() == ["good"]


def test_failures_are_counted_per_content_and_forgotten_after_success(bench: Workbench):
    bench.write("a.md", PNG)
    bench.read("a.md")
    bench.read("a.md")
    assert bench.known["a.md"].attempts == 2
    bench.write("a.md", PNG + b"\x00")
    bench.read("a.md")
    assert bench.known["a.md"].attempts == 1
    bench.write("a.md", "good")
    bench.materialize("a.md")
    assert (bench.known["a.md"].attempts, bench.known["a.md"].reason) == (0, None)


def test_failures_are_counted_anew_with_another_configuration(bench: Workbench):
    bench.write("a.md", PNG)
    bench.read("a.md")
    bench.read("a.md")
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    bench.read("a.md")
    assert bench.known["a.md"].attempts == 1


def test_failures_of_a_later_stage_are_counted_though_reading_succeeds(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
):
    """Reading set the count back to nothing, so a text that the provider refused was tried again every 30 seconds for
    ever, a paid request each time."""

    def refuse(*_: object) -> object:
        raise DocumentError("it cannot be cut")

    monkeypatch.setattr("rag_assets.materializing.chunks.chunk_document", refuse)
    bench.write("a.md", "text")
    for attempts in (1, 2, 3):
        bench.materialize("a.md")
        known = bench.known["a.md"]
        assert (known.status, known.stage, known.attempts) == ("failed", "chunk", attempts)
    assert due_for_retry([known], max_attempts=3, now=datetime(2100, 1, 1, tzinfo=UTC)) is None
    assert due_for_retry([known], max_attempts=4, now=datetime(2100, 1, 1, tzinfo=UTC)) == known


def test_what_a_reader_trips_over_sets_one_document_aside_and_what_is_no_documents_fault_goes_up():
    failed: dict[str, DocumentError] = {}

    def trip() -> None:
        raise RecursionError("too deep")

    assert set_aside(trip, failed, "a.md") is None
    assert failed["a.md"].reason == "unexpected RecursionError: too deep"
    for error in (ProviderError("bad key"), MemoryError(), OSError(28, "No space left on device")):

        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)):
            set_aside(fail, failed, "b.md")
    assert set(failed) == {"a.md"}


def test_a_file_that_may_not_be_read_may_pass_later(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    bench.write("a.md", "text")

    def locked(*_: object) -> Any:
        raise DocumentError("it cannot be read: Permission denied; check its permissions", retryable=True)

    monkeypatch.setattr(FolderSource, "read", locked)
    assert bench.read("a.md").failed["a.md"].retryable is True
