"""Files that are explained or not, types that fail, and clocks."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import lance
import pytest

from rag_assets.health.documents import clocks, error_rates, explained_files, set_aside, withheld_deletions
from rag_assets.health.verdicts import Verdict
from rag_assets.reading.sources.folder import FolderSource
from rag_assets_tests.workbench import Workbench, set_age

Look = Callable[..., Verdict]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def test_a_document_that_was_set_aside_is_listed_with_its_reason(bench: Workbench, look: Look):
    assert look(set_aside).passed
    bench.write("bad.md", PNG)
    bench.ingest()
    verdict = look(set_aside)
    assert (verdict.passed, verdict.summary) == (False, "1 of 4 documents are set aside")
    (row,) = verdict.named
    assert (row["document"], row["stage"]) == ("bad.md", "read")
    assert "image" in str(row["reason"])


def test_deletions_are_withheld_when_the_source_is_empty(bench: Workbench, look: Look):
    assert look(withheld_deletions).passed
    for path in bench.folder.iterdir():
        path.unlink()
    assert "the source lists no document, and 3 are known" in look(withheld_deletions).summary
    assert not look(withheld_deletions).passed


def test_no_file_is_read_to_tell_whether_deletions_are_withheld(
    bench: Workbench, look: Look, monkeypatch: pytest.MonkeyPatch
):
    """Every run ends with this check, and read all files that had changed and waited for their own run."""
    bench.write("a.md", "cherries")
    monkeypatch.setattr(FolderSource, "read", lambda _, document: pytest.fail(f"{document} was read"))
    assert look(withheld_deletions).summary == "3 files are listed, and 0 gone."
    assert look(set_aside).summary == "3 documents, none of which is set aside."


def test_a_file_is_explained_while_its_turn_may_come(bench: Workbench, look: Look):
    bench.write("old-but-new-here.md", "cherries", seconds_ago=1_000_000)
    assert look(explained_files).passed
    verdict = look(explained_files, now=datetime.now(UTC) + timedelta(hours=3))
    assert not verdict.passed
    assert verdict.named == [{"document": "old-but-new-here.md", "why": "pending for 3 h"}]


def test_a_document_set_aside_needs_a_reason(bench: Workbench, look: Look):
    bench.write("bad.md", PNG)
    bench.ingest()
    assert look(explained_files).passed
    lance.dataset(bench.store.documents("notes").uri).update({"reason": "''"}, where="document = 'bad.md'")
    assert look(explained_files).named == [{"document": "bad.md", "why": "set aside without a reason"}]


def test_a_type_fails_often(bench: Workbench, look: Look):
    """What could not be read has the type that its name promises."""
    for number in range(2):
        bench.write(f"scan{number}.pdf", b"%PDF-1.7 and no more")
    bench.ingest()
    assert look(error_rates).passed
    bench.write("scan2.pdf", b"%PDF-1.7 and no more")
    bench.ingest()
    verdict = look(error_rates)
    assert not verdict.passed
    assert "application/pdf (3 of 3)" in verdict.summary
    (row,) = verdict.named
    assert (row["type"], row["source"], row["documents"], row["failed"], row["error_rate"]) == (
        "application/pdf",
        "file",
        3,
        3,
        1.0,
    )
    assert str(row["reasons"]).startswith("3 × ")
    assert verdict.figures == {"documents_failed": 3, "error_rate": 0.5}


def test_a_few_failures_among_many_are_allowed(bench: Workbench, look: Look):
    for number in range(3):
        bench.write(f"bad{number}.md", PNG)
    for number in range(30):
        bench.write(f"good{number}.md", f"number {number}")
    bench.ingest()
    assert look(error_rates).passed


def test_files_and_versions_from_the_future(bench: Workbench, look: Look):
    assert look(clocks).passed
    set_age(bench.folder / "a.md", -90)
    assert look(clocks).passed
    set_age(bench.folder / "a.md", -10_000)
    verdict = look(clocks)
    assert verdict.named == [{"what": "a.md", "ahead": "3 h"}]
    set_age(bench.folder / "a.md", 60)
    assert look(clocks, now=datetime.now(UTC) - timedelta(hours=5)).named[-1] == {"what": "version 1", "ahead": "5 h"}
