"""Many documents at once: what a tick and a run do does not grow with those that are known already, nor do the runs with the
order of names. Counts, not clocks; what it costs is in docs/benchmarks.md."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assets import scanning
from rag_assets.dagster_storage import BatchedSqliteEventLogStorage
from rag_assets.reading.sources.folder import FolderSource
from rag_assets.storing.tables import Table
from rag_assets_tests.platform import Platform
from rag_assets_tests.test_folder_to_answer import Town
from rag_assets_tests.workbench import Workbench, make_workbench, set_age

PER_RUN = 4
NAMES = [f"{number * 7 % 24:02}.md" for number in range(24)]


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return Platform(tmp_path, options={"max_documents_per_run": PER_RUN})


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return make_workbench(tmp_path)


def write(platform: Platform, names: Sequence[str], what: str = "first") -> None:
    for name in names:
        set_age(platform.write(name, f"The {what} text of {name}.\n"), 60)


def count_calls(patch: pytest.MonkeyPatch, owner: type, method: str) -> Counter[str]:
    """Calls of `method` from now on, by their first argument."""
    calls = Counter[str]()
    plain = getattr(owner, method)

    def counting(self: Any, *arguments: Any, **named: Any) -> Any:
        calls[str(arguments[0]) if arguments else ""] += 1
        return plain(self, *arguments, **named)

    patch.setattr(owner, method, counting)
    return calls


class TestManyNewDocuments:
    def test_each_tick_asks_for_one_run_and_adds_no_other_keys(self, platform: Platform):
        write(platform, NAMES)
        with platform.instance() as instance:
            town = Town(platform, instance)
            seen = []
            while runs := town.tick():
                assert [run.status for run in runs] == [dg.DagsterRunStatus.SUCCESS]
                seen.append(len(instance.get_dynamic_partitions("notes_documents")))
        assert seen == [4, 8, 12, 16, 20, 24]

    @pytest.mark.parametrize("order", [sorted(NAMES), NAMES], ids=["sorted", "scattered"])
    def test_the_number_of_runs_does_not_depend_on_the_order_of_keys(self, platform: Platform, order: list[str]):
        with platform.instance() as instance:
            town = Town(platform, instance)
            # The keys are there already, in that order: a run covers neighbours, and moves them next to each other.
            instance.add_dynamic_partitions("notes_documents", order)
            write(platform, order)
            runs = 0
            while town.tick():
                runs += 1
        assert runs == len(NAMES) / PER_RUN

    def test_one_that_fails_keeps_no_other_of_its_run_from_readers(self, platform: Platform):
        write(platform, NAMES)
        platform.write("05.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
        result = platform.ingest()
        assert [one["document"] for one in result["failed"]] == ["05.md"]
        assert {row["document"] for row in platform.rows()} == set(NAMES) - {"05.md"}


def test_what_a_run_reads_of_all_documents_does_not_grow_with_the_runs(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
):
    """Each run read every column of all known documents twice, compared the source with them once more, and asked SQLAlchemy
    for all partition keys: at 40,000 documents a run took twice as long as the first."""
    write(platform, NAMES)
    wide: list[str] = []
    read = Table.read

    def noting(self: Table, columns: Sequence[str] | None = None, **how: Any) -> Any:
        if self.uri.endswith("/documents.lance") and how.get("where") is None and (columns is None or len(columns) > 5):
            wide.append(self.uri)
        return read(self, columns, **how)

    monkeypatch.setattr(Table, "read", noting)
    files = count_calls(monkeypatch, FolderSource, "read")
    lists = count_calls(monkeypatch, FolderSource, "list")
    keys = count_calls(monkeypatch, BatchedSqliteEventLogStorage, "get_dynamic_partitions")
    runs = len(NAMES) // PER_RUN
    platform.ingest()
    assert len(wide) <= 3  # before the first run and after the last, for the result
    assert files == dict.fromkeys(NAMES, 1)
    assert lists.total() <= 2 + runs
    assert keys.total() <= 4 + 20 * runs


class TestManyChanges:
    def test_a_tick_reads_no_more_changed_files_than_a_run_takes(
        self, platform: Platform, monkeypatch: pytest.MonkeyPatch
    ):
        """Each tick read every changed file, to make the first few of them: all of them as often as there were runs."""
        write(platform, NAMES)
        platform.ingest()
        write(platform, NAMES, "second")
        with platform.instance() as instance:
            town = Town(platform, instance)
            reads = count_calls(monkeypatch, FolderSource, "read")
            runs = 0
            while town.tick():
                runs += 1
                assert reads.total() <= 2 * PER_RUN
                reads.clear()
        assert runs == len(NAMES) / PER_RUN
        assert all("second" in row["text"] for row in platform.rows())

    def test_touched_files_are_read_within_the_time_of_a_tick_and_each_once(self, bench: Workbench):
        """Ten thousand files that were touched took longer to read than a tick may take, and none of it was noted."""
        names = [f"{number}.md" for number in range(5)]
        for name in names:
            bench.write(name, "A text.")
        bench.ingest()
        for name in names:
            set_age(bench.folder / name, 30)
        limit = scanning.ReadingLimit(changed=100, seconds=0.0)
        looks = [bench.scan(limit=limit) for _ in range(6)]
        assert [len(found.unread) for found in looks] == [4, 3, 2, 1, 0, 0]
        assert sorted(name for found in looks for name in found.touched) == names
        assert all(found.unchanged + len(found.unread) == 5 for found in looks)
        assert not any(found.pending or found.removed for found in looks)

    def test_new_times_are_noted_in_portions_that_fit_into_memory(
        self, bench: Workbench, monkeypatch: pytest.MonkeyPatch
    ):
        for number in range(5):
            bench.write(f"{number}.md", "A text.")
        bench.ingest()
        for number in range(5):
            set_age(bench.folder / f"{number}.md", 30)
        monkeypatch.setattr(scanning, "_ROWS_AT_ONCE", 3)
        written = count_calls(monkeypatch, Table, "rewrite")
        assert len(bench.scan().touched) == 5
        assert written.total() == 2
        monkeypatch.setattr(scanning, "_BYTES_AT_ONCE", 10)
        for number in range(5):
            set_age(bench.folder / f"{number}.md", 20)
        assert len(bench.scan().touched) == 5
        assert written.total() == 2 + 5
