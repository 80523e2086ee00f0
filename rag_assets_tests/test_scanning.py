import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.config import HashingEmbedding
from rag_assets.errors import DocumentError, SourceError
from rag_assets.generations import Generation
from rag_assets.reading import documents as reading_documents
from rag_assets.reading.source import Entry, Listing
from rag_assets.reading.sources.folder import FolderSource
from rag_assets.scanning import Scan, compare, due_for_retry, retry_delay
from rag_assets.storing.ledger import KnownDocument
from rag_assets_tests.workbench import Workbench, make_workbench, set_age

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"
GENERATION = Generation(id="g1", chunking="c", embedding="e", reader="1")
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return make_workbench(tmp_path)


def known_document(name: str, **columns: Any) -> KnownDocument:
    """An indexed document that was read a day after its file was written."""
    values: dict[str, Any] = {
        **dict.fromkeys(KnownDocument.__dataclass_fields__),
        "document": name,
        "status": "indexed",
        "attempts": 0,
        "byte_hash": "same",
        "bytes": 1,
        "modified_ns": int(LONG_AGO.timestamp() * 1e9),
        "read_at": LONG_AGO + timedelta(days=1),
        "reader": "1",
        "generation": "g1",
        "indexed_at": LONG_AGO + timedelta(days=1),
    }
    return KnownDocument(**{**values, **columns})


def known_documents(*names: str) -> dict[str, KnownDocument]:
    return {name: known_document(name) for name in names}


def listing_of(*names: str) -> Listing:
    return Listing({name: Entry(name, 1, int(LONG_AGO.timestamp() * 1e9)) for name in names})


def look(listing: Listing, known: Mapping[str, KnownDocument], **how: Any) -> Scan:
    return compare(listing, known, **{"generation": GENERATION, "byte_hash": never_read, **how})


def never_read(document: str) -> str:
    raise AssertionError(f"{document} was read")


def numbered(start: int, end: int) -> list[str]:
    return [f"{number:03}.md" for number in range(start, end)]


# What changed.


def test_every_file_is_new_to_an_empty_table(bench: Workbench):
    bench.write("b.md", "b")
    bench.write("a.md", "a")
    found = bench.scan()
    assert (found.scanned, found.pending, found.unchanged) == (2, ["a.md", "b.md"], 0)


def test_nothing_is_pending_after_an_ingest(bench: Workbench):
    bench.write("a.md", "a")
    bench.write("empty.md", "")
    bench.update()
    found = bench.scan()
    assert (found.pending, found.removed, found.unchanged) == ([], [], 2)


def test_unchanged_files_are_not_read():
    assert look(listing_of("a.md"), known_documents("a.md")).unchanged == 1


def test_a_change_there_and_back_is_seen_both_times(bench: Workbench):
    bench.write("a.md", "A")
    bench.update()
    bench.write("a.md", "B")
    assert bench.update().changed == ["a.md"]
    bench.write("a.md", "A")
    assert bench.update().changed == ["a.md"]
    assert bench.scan().pending == []


def test_a_change_there_and_back_between_two_scans_is_none(bench: Workbench):
    bench.write("a.md", "A")
    bench.update()
    bench.write("a.md", "B")
    bench.write("a.md", "A", seconds_ago=30)
    assert bench.scan().pending == []


def test_a_touched_file_is_made_again_by_nobody_and_read_once(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    path = bench.write("a.md", "A")
    bench.update()
    set_age(path, 30)
    found = bench.scan()
    assert (found.pending, list(found.touched), found.unchanged) == ([], ["a.md"], 1)
    assert bench.known["a.md"].modified_ns == path.stat().st_mtime_ns
    monkeypatch.setattr(FolderSource, "read", never_read)
    assert bench.scan().touched == {}


def test_an_edit_that_changes_neither_size_nor_time_is_seen_while_the_time_was_fresh(bench: Workbench):
    """A clock that ticks by the second gives two writes one time."""
    path = bench.write("a.md", "A", seconds_ago=0)
    moment = path.stat().st_mtime_ns
    bench.update()
    path.write_text("B")
    os.utime(path, ns=(moment, moment))
    assert bench.scan().changed == ["a.md"]


def test_an_edit_while_a_long_scan_goes_on_is_seen(bench: Workbench):
    """A scan used to note the time at its end as the time at which it had read a file; an edit after the reading, and
    within the same tick of the file's clock, was never seen."""
    path = bench.write("a.md", "A")
    bench.update()
    os.utime(path)
    moment = path.stat().st_mtime_ns
    bench.scan()
    read_at = bench.known["a.md"].read_at
    assert read_at is not None
    path.write_text("B")
    os.utime(path, ns=(moment, moment))
    assert bench.scan().changed == ["a.md"]


def test_what_is_noted_as_the_time_of_reading_is_before_the_reading(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    path = bench.write("a.md", "A")
    bench.update()
    set_age(path, 30)
    reads: list[datetime] = []
    real = FolderSource.read

    def read(source: FolderSource, document: str) -> Any:
        reads.append(datetime.now(UTC))
        return real(source, document)

    monkeypatch.setattr(FolderSource, "read", read)
    bench.scan()
    bench.materialize("a.md")
    read_at = bench.known["a.md"].read_at
    assert read_at is not None
    assert reads[0] <= read_at
    set_age(path, 20)
    bench.scan()
    noted = bench.known["a.md"].read_at
    assert noted is not None
    assert noted <= reads[-1]


def test_a_document_whose_run_died_is_pending_again(bench: Workbench):
    bench.write("a.md", "A")
    bench.read("a.md")
    assert bench.scan().added == ["a.md"]
    bench.materialize("a.md")
    bench.write("a.md", "B")
    bench.read("a.md")
    assert bench.scan().changed == ["a.md"]


def test_a_deleted_table_makes_every_document_pending(bench: Workbench):
    bench.write("a.md", "A")
    bench.ingest()
    bench.store.documents("notes").replace(["a.md"], bench.store.documents("notes").schema.empty_table())
    assert bench.scan().added == ["a.md"]


def test_another_model_makes_every_document_pending_and_another_speed_none(bench: Workbench):
    bench.write("a.md", "A")
    bench.update()
    bench.configure(max_documents_per_run=7, scan_seconds=1)
    assert bench.scan().pending == []
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    assert bench.scan().changed == ["a.md"]


# What the store offers to tell a change.


@pytest.mark.parametrize(
    ("revision", "known_revision", "modified_ns", "is_read"),
    [
        ("r1", "r1", 0, False),  # uploaded again, says the time; the same content, says the store
        ("r2", "r1", None, True),
        ("r1", None, None, False),  # read before the store offered revisions: size and time decide
        ("r1", None, 0, True),
        (None, "r1", None, False),
        (None, "r1", 0, True),
    ],
)
def test_revisions_are_compared_where_both_sides_have_one_else_size_and_time(
    revision: str | None, known_revision: str | None, modified_ns: int | None, is_read: bool
):
    listing = listing_of("a.md")
    time = listing.entries["a.md"].modified_ns if modified_ns is None else modified_ns
    listing.entries["a.md"] = Entry("a.md", 1, time, revision)
    read: list[str] = []

    def byte_hash(document: str) -> str:
        read.append(document)
        return "same"

    known = {"a.md": known_document("a.md", revision=known_revision)}
    found = look(listing, known, byte_hash=byte_hash)
    assert (found.unchanged, bool(read)) == (1, is_read)
    assert list(found.touched) == ([] if revision == known_revision else ["a.md"])


def test_a_fresh_time_is_no_matter_where_there_are_revisions():
    fresh = known_document("a.md", revision="r1", read_at=LONG_AGO)
    listing = Listing({"a.md": Entry("a.md", 1, int(LONG_AGO.timestamp() * 1e9), "r1")})
    assert look(listing, {"a.md": fresh}).touched == {}


def test_a_document_without_a_time_does_not_wait_to_settle():
    listing = Listing({"a.md": Entry("a.md", None, None, "r1")})
    assert look(listing, {}, settle=timedelta(days=10_000)).added == ["a.md"]


def test_a_document_that_could_not_be_read_is_looked_at_again_whatever_its_revision():
    failed = known_document(
        "a.md", status="failed", byte_hash=None, bytes=None, modified_ns=None, revision=None, read_at=None
    )
    listing = Listing({"a.md": Entry("a.md", None, None, "r1")})
    assert look(listing, {"a.md": failed}, byte_hash=lambda _: "now readable").changed == ["a.md"]


# Failed documents.


def test_a_failed_document_keeps_failing_quietly_until_its_content_changes(bench: Workbench):
    bench.write("a.md", PNG)
    bench.update()
    for _ in range(2):
        found = bench.scan()
        assert (found.pending, [document.document for document in found.failed]) == ([], ["a.md"])
    bench.write("a.md", "text now")
    found = bench.update()
    assert (found.pending, list(found.failed)) == (["a.md"], [])
    assert bench.known["a.md"].status == "indexed"


def test_a_failed_document_is_tried_again_by_another_reader(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    bench.write("a.md", PNG)
    bench.update()
    monkeypatch.setattr("rag_assets.generations.READER_VERSION", reading_documents.READER_VERSION + "+")
    assert bench.scan().pending == ["a.md"]


def test_a_failed_document_is_tried_again_with_another_configuration(bench: Workbench):
    bench.write("a.md", PNG)
    bench.update()
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    assert bench.scan().pending == ["a.md"]


def test_what_another_configuration_makes_again_did_not_change(bench: Workbench):
    """After a switch of the model every document was told as changed."""
    bench.write("same.md", "A")
    bench.write("edited.md", "B")
    bench.ingest()
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    bench.write("edited.md", "longer")
    bench.write("new.md", "C")
    found = bench.scan()
    assert (found.added, sorted(found.changed), found.outdated) == (["new.md"], ["edited.md", "same.md"], ["same.md"])
    bench.ingest()
    assert bench.scan().unchanged == 3


def test_a_file_that_cannot_be_read_is_told_once_by_a_run_and_then_waits(bench: Workbench):
    path = bench.write("a.md", "A")
    bench.update()
    path.write_text("longer")

    def locked(_: str) -> str:
        raise DocumentError("it cannot be read", retryable=True)

    source = FolderSource(name="notes", root=bench.folder, include=["**/*.md"], exclude=[])
    generation = Generation(id=bench.known["a.md"].generation or "", chunking="", embedding="", reader="1")
    found = compare(source.list(), bench.known, generation=generation, byte_hash=locked)
    assert found.changed == ["a.md"]
    failed = {
        "a.md": known_document("a.md", status="failed", stage="read", retryable=True, bytes=None, modified_ns=None)
    }
    assert [d.document for d in look(listing_of("a.md"), failed, byte_hash=locked).failed] == ["a.md"]


def test_a_file_that_can_be_read_again_is_taken_up_at_once(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    """Its permission was mended and its content was the old one: it stayed failed for ever, being unchanged."""
    bench.write("a.md", "A")
    bench.ingest()
    bench.write("a.md", "A", seconds_ago=30)

    def locked(*_: object) -> Any:
        raise DocumentError("it cannot be read: Permission denied; check its permissions", retryable=True)

    with monkeypatch.context() as patch:
        patch.setattr(FolderSource, "read", locked)
        assert bench.update().changed == ["a.md"]
        assert bench.known["a.md"].status == "failed"
        assert bench.scan().pending == []
    assert bench.texts("A", mode="vector") == ["A"]
    assert bench.update().changed == ["a.md"]
    assert (bench.known["a.md"].status, bench.known["a.md"].texts_embedded) == ("indexed", 0)


# Files that are being written.


@pytest.mark.parametrize(("seconds_ago", "waits"), [(1, True), (9, True), (11, False), (-5, True), (-3600, False)])
def test_a_file_waits_until_it_rests_and_a_clock_that_is_ahead_does_not_hold_it_for_ever(
    bench: Workbench, seconds_ago: float, waits: bool
):
    bench.write("a.md", "A", seconds_ago=seconds_ago)
    found = bench.scan(settle=timedelta(seconds=10))
    assert (found.unsettled, found.pending) == ((["a.md"], []) if waits else ([], ["a.md"]))


def test_a_file_that_waits_is_not_gone(bench: Workbench):
    path = bench.write("a.md", "A")
    bench.update()
    set_age(path, 0)
    found = bench.scan(settle=timedelta(seconds=10))
    assert (found.unsettled, found.removed, found.gone) == (["a.md"], [], [])


def test_a_time_in_the_future_is_noted_as_it_is(bench: Workbench):
    bench.write("a.md", "A", seconds_ago=-86_400)
    bench.update()
    assert bench.scan().unchanged == 1
    bench.write("a.md", "B", seconds_ago=-86_000)
    assert bench.scan().changed == ["a.md"]


# Deletions.


def test_one_of_two_that_is_gone_is_purged_at_once():
    found = look(listing_of("a.md"), known_documents("a.md", "b.md"))
    assert (found.removed, found.gone, found.withheld) == (["b.md"], ["b.md"], None)


def test_an_empty_root_withholds_every_deletion(bench: Workbench):
    path = bench.write("a.md", "A")
    bench.update()
    path.unlink()
    found = bench.scan()
    assert (found.removed, found.gone) == ([], ["a.md"])
    assert found.withheld == "the source lists no document, and 1 are known"
    assert bench.scan(confirm_deletions=True).removed == ["a.md"]


def test_a_missing_root_fails_the_scan_and_purges_nothing(bench: Workbench):
    bench.write("a.md", "A").unlink()
    bench.folder.rmdir()
    with pytest.raises(SourceError, match="does not exist"):
        bench.scan(confirm_deletions=True)


@pytest.mark.parametrize(
    ("left", "known", "withheld"),
    [
        (49, 100, True),
        (50, 100, False),
        (99, 100, False),
        (1, 11, False),
        (1, 12, True),
        (10, 20, False),
        (9, 20, True),
    ],
)
def test_an_implausible_share_of_deletions_is_withheld(left: int, known: int, withheld: bool):
    names = numbered(0, known)
    found = look(listing_of(*names[:left]), known_documents(*names))
    assert (found.withheld is not None) is withheld
    assert found.gone == names[left:]
    assert found.removed == ([] if withheld else names[left:])


def test_what_is_withheld_is_told_with_its_numbers_and_can_be_confirmed():
    known = known_documents(*numbered(0, 100))
    found = look(listing_of(*numbered(0, 49)), known)
    assert found.withheld == "51 of 100 documents are gone at once, more than max_share_deleted 0.5 allows"
    assert look(listing_of(*numbered(0, 49)), known, confirm_deletions=True).removed == numbered(49, 100)


def test_the_share_is_a_setting():
    known = known_documents(*numbered(0, 100))
    assert look(listing_of(*numbered(0, 5)), known, max_share_deleted=1.0).withheld is None
    assert look(listing_of(*numbered(0, 89)), known, max_share_deleted=0.1).withheld is not None


def test_a_folder_that_was_renamed_is_purged_at_once(bench: Workbench):
    for number in range(20):
        bench.write(f"old/{number}.md", str(number))
    bench.update()
    (bench.folder / "old").rename(bench.folder / "new")
    found = bench.update()
    assert found.withheld is None
    assert (len(found.added), len(found.removed)) == (20, 20)
    assert sum(document.texts_embedded or 0 for document in bench.known.values()) == 0


def test_a_known_document_that_cannot_be_looked_at_is_not_gone():
    """A file whose `stat` failed was refused by the listing, and for that its rows were purged."""
    listing = Listing({}, refused=[("a.md", "it cannot be looked at: Input/output error")])
    listing.entries.update(listing_of("b.md").entries)
    found = look(listing, known_documents("a.md", "b.md", "c.md"))
    assert (found.gone, found.removed) == (["c.md"], ["c.md"])
    assert list(found.refused) == [("a.md", "it cannot be looked at: Input/output error")]


@pytest.mark.parametrize(("left", "arrived", "withheld"), [(39, 0, False), (10, 0, False), (9, 0, True), (9, 1, False)])
def test_documents_below_a_folder_that_cannot_be_looked_into_are_no_loss(left: int, arrived: int, withheld: bool):
    """One deletion beside a large folder of that kind was withheld, because all in the folder counted as gone."""
    hidden = [f"locked/{name}" for name in numbered(0, 60)]
    names = numbered(0, 40)
    listing = listing_of(*names[:left], *numbered(50, 50 + arrived))
    listing = replace(listing, refused=[("locked/", "it cannot be looked into: Permission denied")])
    found = look(listing, known_documents(*hidden, *names), max_share_deleted=0.3)
    assert found.gone == names[left:]
    assert (found.withheld is not None) is withheld


NAMES = st.sets(st.sampled_from(numbered(0, 30)))


@given(listed=NAMES, known=NAMES, failed=NAMES, stale=NAMES, confirm=st.booleans())
def test_every_listed_document_has_one_verdict_and_only_what_is_not_listed_is_removed(
    listed: set[str], known: set[str], failed: set[str], stale: set[str], confirm: bool
):
    ledger = {
        name: known_document(
            name, status="failed" if name in failed else "indexed", generation="g0" if name in stale else "g1"
        )
        for name in known
    }
    found = look(listing_of(*sorted(listed)), ledger, confirm_deletions=confirm)
    verdicts = [*found.added, *found.changed, *found.unsettled, *(document.document for document in found.failed)]
    assert len(verdicts) == len(set(verdicts))
    assert len(verdicts) + found.unchanged == found.scanned == len(listed)
    assert set(found.added) == listed - known
    assert set(found.changed) == listed & known & stale
    assert set(found.gone) == known - listed
    assert found.removed == ([] if found.withheld else found.gone)
    assert not (confirm and found.withheld)


# Trying again.


def test_a_failed_document_rests_longer_each_time():
    assert [retry_delay(attempts).total_seconds() for attempts in (0, 1, 2, 3, 8, 100)] == [30, 30, 60, 120, 3600, 3600]


def test_the_document_that_waited_longest_is_tried_again_a_bounded_number_of_times():
    now = LONG_AGO + timedelta(seconds=100)
    failed = [
        known_document("early.md", attempts=1, attempted_at=LONG_AGO),
        known_document("late.md", attempts=1, attempted_at=LONG_AGO + timedelta(seconds=10)),
        known_document("spent.md", attempts=3, attempted_at=LONG_AGO - timedelta(days=1)),
        known_document("resting.md", attempts=2, attempted_at=LONG_AGO + timedelta(seconds=50)),
    ]
    due = due_for_retry(failed, max_attempts=3, now=now)
    assert due is not None
    assert due.document == "early.md"
    assert due_for_retry(failed[2:], max_attempts=3, now=now) is None
