import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance.fragment
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from rag_assets.errors import StoreError
from rag_assets.storing import objects
from rag_assets.storing.tables import Table, fragment_size, sql_literal
from rag_assets_tests.homes import delete_below, files_below, for_all
from rag_assets_tests.reading.bucket import S3Server

COUNTED = pa.schema([pa.field("number", pa.int64(), nullable=False), ("who", pa.string())])
SCHEMA = pa.schema([pa.field("document", pa.string(), nullable=False), ("text", pa.string())])

HOSTILE_NAMES = [
    "it's.md",
    "''; DROP TABLE documents; --.md",
    'a "quoted" name.md',
    "back\\slash.md",
    "trailing\\",
    "new\nline.md",
    "100%.md",
    "under_score.md",
    unicodedata.normalize("NFC", "café.md"),
    unicodedata.normalize("NFD", "café.md"),
    "A.md",
    "a.md",
    "😀.md",
    "e" * 250,
    " ",
    "NULL",
]


def table_at(home: str) -> Table:
    """In a bucket without the lock that processes of one machine share: its writers are on several."""
    return Table(f"{home}/t.lance", SCHEMA, lock=None if "://" in home else Path(home) / "t.lock")


def rows(document: str, *texts: str) -> pa.Table:
    return pa.table({"document": [document] * len(texts), "text": list(texts)}, schema=SCHEMA)


def texts_of(table: Table, document: str) -> list[str]:
    return sorted(table.read_where_in("document", [document], ["text"])["text"].to_pylist())


@pytest.fixture
def table(home: str) -> Table:
    return table_at(home)


def test_a_table_is_scanned_some_rows_at_a_time(table: Table, home: str):
    assert list(table.scan(["text"], rows=2)) == []
    assert files_below(home) == []
    version = table.replace(["a.md"], rows("a.md", "one", "two", "three"))
    table.replace(["b.md"], rows("b.md", "four"))
    assert [part["text"].to_pylist() for part in table.scan(["text"], where="document = 'a.md'", rows=2)] == [
        ["one", "two"],
        ["three"],
    ]
    assert sum(part.num_rows for part in table.scan(["text"], version=version, rows=2)) == 3


def test_a_missing_table_reads_as_empty_and_is_not_made_by_reading(table: Table, home: str):
    assert table.exists() is False
    assert table.read().num_rows == 0
    assert table.read(["text"]).column_names == ["text"]
    assert table.read_where_in("document", ["a"]).num_rows == 0
    assert files_below(home) == []


def test_new_rows_are_the_only_rows_of_their_documents(table: Table):
    table.replace(["a", "b"], pa.concat_tables([rows("a", "1", "2"), rows("b", "3")]))
    table.replace(["a"], rows("a", "4"))
    assert texts_of(table, "a") == ["4"]
    assert texts_of(table, "b") == ["3"]


def test_many_documents_are_replaced_in_one_commit(table: Table):
    names = [f"folder/document {number}.md" for number in range(10_001)]
    batch = pa.table({"document": names, "text": ["old"] * len(names)}, schema=SCHEMA)
    first = table.replace(names, batch)
    second = table.replace(names, batch.set_column(1, "text", pa.array(["new"] * len(names))))
    assert second == first + 1
    assert table.read(["text"])["text"].value_counts().to_pylist() == [{"values": "new", "counts": 10_001}]


def test_a_fragment_is_asked_for_its_own_rows_only(table: Table, monkeypatch: pytest.MonkeyPatch):
    """Each of a hundred fragments read the names of all thousand documents that were replaced: 1.1 s in place of 0.1."""
    names = [f"a document with a long name {number}.md" for number in range(40)]
    for start in range(0, 40, 10):
        table.append(pa.concat_tables([rows(name, "old") for name in names[start : start + 10]]))
    asked: list[str] = []
    delete = lance.fragment.LanceFragment.delete

    def noting(fragment: lance.fragment.LanceFragment, where: str) -> Any:
        asked.append(where)
        return delete(fragment, where)

    monkeypatch.setattr(lance.fragment.LanceFragment, "delete", noting)
    table.replace(names[::2], pa.concat_tables([rows(name, "new") for name in names[::2]]))
    assert len(asked) == 4
    assert all(names[0] not in where for where in asked)
    found = dict(zip(*(table.read()[column].to_pylist() for column in ("document", "text")), strict=True))
    assert found == {name: "new" if number % 2 == 0 else "old" for number, name in enumerate(names)}


def test_a_document_that_empties_leaves_no_row(table: Table):
    table.replace(["a", "b"], pa.concat_tables([rows("a", "1"), rows("b", "2")]))
    table.replace(["a"], SCHEMA.empty_table())
    assert table.read()["document"].to_pylist() == ["b"]


def test_nothing_to_do_makes_no_version(table: Table):
    version = table.replace(["a"], rows("a", "1"))
    assert table.replace([], SCHEMA.empty_table()) == version
    assert table.replace(["unknown"], SCHEMA.empty_table()) == version


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_replaced_and_its_neighbours_are_not(table: Table, name: str):
    neighbours = [other for other in HOSTILE_NAMES if other != name]
    table.replace(HOSTILE_NAMES, pa.concat_tables([rows(each, "old") for each in HOSTILE_NAMES]))
    table.replace([name], rows(name, "new", "newer"))
    assert texts_of(table, name) == ["new", "newer"]
    others = table.read_where_in("document", neighbours)
    assert sorted(others["document"].to_pylist()) == sorted(neighbours)
    assert set(others["text"].to_pylist()) == {"old"}


def test_any_name_is_a_key(home: str):
    numbers = itertools.count()
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)

    @for_all(home, examples=25, names=st.lists(text, unique=True, min_size=2, max_size=4))
    def check(names: list[str]) -> None:
        table = Table(f"{home}/{next(numbers)}.lance", SCHEMA)
        table.replace(names, pa.concat_tables([rows(name, "old") for name in names]))
        table.replace(names[:1], rows(names[0], "new"))
        found = dict(zip(*table.read().to_pydict().values(), strict=True))
        assert found == dict.fromkeys(names, "old") | {names[0]: "new"}

    check()


def test_a_quote_in_a_literal_is_doubled():
    assert sql_literal("it's") == "'it''s'"


def test_whatever_was_done_before_a_document_has_the_rows_it_was_given_last(home: str):
    numbers = itertools.count()
    replacement = st.tuples(st.lists(st.sampled_from("abcd"), unique=True, min_size=1), st.integers(0, 3))

    @for_all(
        home, examples=15, steps=st.lists(st.one_of(replacement, st.sampled_from(["compact", "index"])), max_size=10)
    )
    def check(steps: list[tuple[list[str], int] | str]) -> None:
        table = Table(f"{home}/{next(numbers)}.lance", SCHEMA)
        expected: dict[str, list[str]] = {}
        for number, step in enumerate(steps):
            if step == "compact":
                table.compact(more_than_fragments=1)
                table.clean_up(keep_versions_for=timedelta(0))
            elif step == "index":
                if table.open().count_rows():
                    table.open().create_scalar_index("document", "BTREE", replace=True)
            else:
                assert isinstance(step, tuple)
                names, count = step
                texts = [f"{number}.{row}" for row in range(count)]
                table.replace(names, pa.concat_tables([rows(name, *texts) for name in names]))
                expected |= dict.fromkeys(names, texts)
        for name, texts in expected.items():
            assert texts_of(table, name) == texts
        assert table.read().num_rows == sum(map(len, expected.values()))

    check()


def test_a_reader_sees_the_old_rows_or_the_new_of_every_document_and_never_half(table: Table):
    def generation(number: int) -> pa.Table:
        count = 3 + number % 3
        return pa.concat_tables([rows(name, *[str(number)] * count) for name in "ab"])

    table.replace(["a", "b"], generation(0))
    seen: list[list[str]] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            seen.append(table.read(["text"])["text"].to_pylist())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 30):
        table.replace(["a", "b"], generation(number))
    ended.set()
    reader.join()
    assert seen
    for texts in seen:
        assert len(set(texts)) == 1
        assert len(texts) == 2 * (3 + int(texts[0]) % 3)


# Several processes.


def write_own_documents(home: str, writer: int) -> None:
    for number in range(4):
        name = f"{writer}-{number}"
        table_at(home).replace(
            [name, f"{writer}-again"], pa.concat_tables([rows(name, "x", "y"), rows(f"{writer}-again", "z")])
        )


def write_shared_documents(home: str, writer: int) -> None:
    for number in range(4):
        texts = [f"{writer}.{number}"] * (writer + 1)
        table_at(home).replace(["a", "b"], pa.concat_tables([rows("a", *texts), rows("b", *texts)]))


def in_processes(work: Callable[[str, int], None], home: str, processes: int = 3) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(home, number)) for number in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
    assert [worker.exitcode for worker in workers] == [0] * processes


def test_writers_of_other_documents_lose_nothing_and_double_nothing(table: Table, home: str):
    in_processes(write_own_documents, home)
    expected = {f"{writer}-{number}": ["x", "y"] for writer in range(3) for number in range(4)}
    expected |= {f"{writer}-again": ["z"] for writer in range(3)}
    assert {name: texts_of(table, name) for name in expected} == expected
    assert table.read().num_rows == 27


def test_of_writers_of_the_same_new_documents_one_wins_whole(table: Table, home: str):
    in_processes(write_shared_documents, home)
    found = table.read().to_pydict()
    winner = set(found["text"])
    assert len(winner) == 1
    rows_each = int(winner.pop().split(".")[0]) + 1
    assert sorted(found["document"]) == ["a"] * rows_each + ["b"] * rows_each


def in_between_commits(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let `act` happen once, between the look of the next commit and the commit: what writers without a lock may do."""
    commit = Table._commit_update

    def act_and_commit(table: Table, *arguments: Any) -> int:
        monkeypatch.setattr(Table, "_commit_update", commit)
        act()
        return commit(table, *arguments)

    monkeypatch.setattr(Table, "_commit_update", act_and_commit)


@pytest.mark.parametrize("before", [[], ["old"], ["old", "another"]], ids=["empty", "one fragment", "two fragments"])
@pytest.mark.parametrize("mine", [["new"], ["old", "new"], ["another", "new"]], ids="+".join)
@pytest.mark.parametrize("theirs", [["new"], ["old", "new"]], ids="+".join)
def test_without_a_lock_new_documents_of_two_writers_are_not_doubled(
    home: str, monkeypatch: pytest.MonkeyPatch, before: list[str], mine: list[str], theirs: list[str]
):
    """Two commits that only add rows do not conflict in Lance, nor do two that replace rows of different fragments."""
    mine_at, theirs_at = (Table(f"{home}/unlocked.lance", SCHEMA) for _ in range(2))
    for name in before:
        mine_at.replace([name], rows(name, "before"))
    faster = pa.concat_tables([rows(name, "theirs", "theirs") for name in theirs])
    in_between_commits(monkeypatch, lambda: theirs_at.replace(theirs, faster))
    mine_at.replace(mine, pa.concat_tables([rows(name, "mine", "mine") for name in mine]))
    expected = {name: ["before"] for name in before} | {name: ["theirs"] * 2 for name in theirs}
    expected |= {name: ["mine"] * 2 for name in mine}
    assert {name: texts_of(mine_at, name) for name in expected} == expected


def test_rows_that_are_added_leave_what_is_indexed_indexed(home: str):
    table = Table(f"{home}/indexed.lance", SCHEMA)
    table.replace(["a", "b"], pa.concat_tables([rows("a", "x"), rows("b", "y")]))
    table.open().create_scalar_index("document", "BTREE")
    table.replace(["c"], rows("c", "z"))
    [index] = table.open().describe_indices()
    statistics = table.open().stats.index_stats(index.name)
    assert (statistics["num_indexed_rows"], statistics["num_unindexed_rows"]) == (2, 1)


def write_until_killed(home: str, working: Path) -> None:
    table = table_at(home)
    for number in range(1_000_000):
        texts = [str(number)] * (3 if number % 2 else 5)
        table.replace(["a", "b"], pa.concat_tables([rows("a", *texts), rows("b", *texts)]))
        working.touch()


def test_a_writer_that_is_killed_leaves_old_rows_or_new_ones_and_blocks_nobody(table: Table, home: str, tmp_path: Path):
    working = tmp_path / "working"
    for kill in range(3):
        working.unlink(missing_ok=True)
        command = (
            f"from pathlib import Path; from {__name__} import *; write_until_killed({home!r}, Path({str(working)!r}))"
        )
        with subprocess.Popen([sys.executable, "-c", command]) as writer:
            while not working.exists():
                assert writer.poll() is None
                time.sleep(0.01)
            time.sleep(0.05 + 0.013 * kill)
            os.kill(writer.pid, signal.SIGKILL)
        found = table.read().to_pydict()
        assert len(set(found["text"])) == 1
        per_document = 3 if int(found["text"][0]) % 2 else 5
        assert sorted(found["document"]) == ["a"] * per_document + ["b"] * per_document
    table.replace(["a"], rows("a", "after"))
    assert texts_of(table, "a") == ["after"]


def test_two_who_rewrite_the_same_rows_at_once_both_keep_their_change(table: Table):
    """Reading and writing used to be two steps: of two processes that set two columns of one document at the same
    time, one overwrote the other's column in 20 of 20 rounds."""
    table.replace(["a"], rows("a", ""))
    start = threading.Barrier(3)

    def add(letter: str) -> None:
        start.wait()
        for _ in range(5):
            table.rewrite(["a"], lambda old: rows("a", old["text"][0].as_py() + letter))

    threads = [threading.Thread(target=add, args=(letter,)) for letter in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts_of(table, "a")[0]) == ["x"] * 5 + ["y"] * 5 + ["z"] * 5


def test_without_a_lock_a_rewrite_that_lost_the_race_reads_again(home: str):
    """Writers on several machines do not wait for each other; the commit notices."""
    table = Table(f"{home}/t.lance", SCHEMA)
    table.replace(["a"], rows("a", "one"))
    attempts = []

    def change(old: pa.Table) -> pa.Table:
        text = old["text"][0].as_py()
        attempts.append(text)
        if len(attempts) == 1:
            Table(table.uri, SCHEMA).replace(["a"], rows("a", "two"))
        return rows("a", text + " and mine")

    table.rewrite(["a"], change)
    assert attempts == ["one", "two"]
    assert texts_of(table, "a") == ["two and mine"]


class TestAppendNext:
    """Rows that are counted, by writers on several machines: they share no lock."""

    def test_a_row_is_added_where_the_greatest_number_is_the_one_that_was_seen(self, home: str):
        table = counted_at(home)
        assert table.append_next(counted(1, "a"), column="number", greatest=0)
        assert table.append_next(counted(2, "b"), column="number", greatest=1)
        version = table.open().version
        for seen in (0, 1, 3):
            assert not table.append_next(counted(seen + 1, "late"), column="number", greatest=seen)
        assert table.open().version == version
        assert sorted(table.read().to_pylist(), key=lambda row: row["number"]) == [
            {"number": 1, "who": "a"},
            {"number": 2, "who": "b"},
        ]

    @pytest.mark.parametrize("seen", [0, 2])
    def test_of_two_who_saw_the_same_one_adds(self, home: str, monkeypatch: pytest.MonkeyPatch, seen: int):
        """The other one commits in the moment in which the first has looked and not committed."""
        table = counted_at(home)
        for number in range(1, seen + 1):
            table.append_next(counted(number, "before"), column="number", greatest=number - 1)
        faster = counted(seen + 1, "faster")
        in_between(monkeypatch, lambda: counted_at(home).append_next(faster, column="number", greatest=seen))
        assert not table.append_next(counted(seen + 1, "slower"), column="number", greatest=seen)
        found = table.read().to_pydict()
        assert sorted(found["number"]) == list(range(1, seen + 2))
        assert found["who"].count("faster") == 1

    def test_rows_that_are_merged_meanwhile_are_neither_lost_nor_doubled(
        self, home: str, monkeypatch: pytest.MonkeyPatch
    ):
        table = counted_at(home)
        for number in range(1, 5):
            table.append_next(counted(number, "before"), column="number", greatest=number - 1)
        in_between(monkeypatch, lambda: counted_at(home).compact(more_than_fragments=1))
        added = table.append_next(counted(5, "mine"), column="number", greatest=4)
        assert added or table.append_next(counted(5, "mine"), column="number", greatest=4)
        assert sorted(table.read()["number"].to_pylist()) == [1, 2, 3, 4, 5]

    def test_threads_that_count_on_never_count_one_number_twice(self, home: str):
        threads = [threading.Thread(target=count_on, args=(home, number)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(counted_at(home).read()["number"].to_pylist()) == list(range(1, 10))

    def test_processes_that_count_on_never_count_one_number_twice(self, home: str):
        in_processes(count_on, home)
        found = counted_at(home).read().to_pydict()
        assert sorted(found["number"]) == list(range(1, 10))
        assert sorted(found["who"]) == ["0"] * 3 + ["1"] * 3 + ["2"] * 3


def counted_at(home: str) -> Table:
    return Table(f"{home}/counted.lance", COUNTED)


def counted(number: int, who: str) -> pa.Table:
    return pa.table({"number": [number], "who": [who]}, schema=COUNTED)


def count_on(home: str, writer: int) -> None:
    """Add three rows with the next numbers, and merge what lies there now and then."""
    table, added = counted_at(home), 0
    while added < 3:
        seen = max(table.read(["number"])["number"].to_pylist(), default=0)
        added += table.append_next(counted(seen + 1, str(writer)), column="number", greatest=seen)
        table.compact(more_than_fragments=4)


def in_between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let `act` happen once, between the next look at a table and the commit that follows."""
    write = lance.fragment.write_fragments

    def write_and_act(*arguments: Any, **options: Any) -> Any:
        written = write(*arguments, **options)
        monkeypatch.setattr(lance.fragment, "write_fragments", write)
        act()
        return written

    monkeypatch.setattr(lance.fragment, "write_fragments", write_and_act)


def test_documents_that_are_not_there_are_not_rewritten(table: Table):
    version = table.replace(["a"], rows("a", "1"))
    assert table.rewrite(["b"], lambda old: old) == version
    assert table.rewrite([], lambda old: old) == version


@pytest.mark.parametrize("attempt", range(8))
def test_a_table_that_many_make_at_once_keeps_what_the_first_appended(home: str, attempt: int):
    """Of those who found no table and made one, the last overwrote what the first had appended meanwhile (28 of 40 times
    with six): the vectors of two corpora that were ingested for the first time at once would have been lost like that."""
    start = threading.Barrier(6)

    def append(number: int) -> None:
        start.wait()
        table_at(home).append(rows("a", str(number)))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts_of(table_at(home), "a") == ["0", "1", "2", "3", "4", "5"]


def test_a_list_longer_than_one_filter_is_looked_up_whole(table: Table):
    table.replace(["0", "2499"], pa.concat_tables([rows("0", "first"), rows("2499", "last")]))
    found = table.read_where_in("document", [str(number) for number in range(2_500)], ["text"])
    assert sorted(found["text"].to_pylist()) == ["first", "last"]


def test_small_fragments_are_merged_when_there_are_many_and_the_rows_stay(table: Table):
    for name in "abcd":
        table.replace([name], rows(name, name))
    assert table.compact(more_than_fragments=4) is False
    assert table.fragments() == 4
    assert table.compact(more_than_fragments=3) is True
    assert table.fragments() == 1
    assert sorted(table.read()["text"].to_pylist()) == ["a", "b", "c", "d"]


def test_big_fragments_are_left_alone_when_small_ones_are_merged(table: Table):
    """Every row used to be written again for every twenty commits, however big the table had become."""
    table.append(pa.concat_tables([rows(f"old {number}", "x") for number in range(3_000)]))
    big = table.open().get_fragments()[0].fragment_id
    for number in range(8):
        table.replace([str(number)], rows(str(number), "y"))
    assert table.compact(more_than_fragments=6) is True
    assert [fragment.count_rows() for fragment in table.open().get_fragments()] == [3_000, 8]
    assert table.open().get_fragments()[0].fragment_id == big


@pytest.mark.parametrize(
    ("fragments", "at_most", "size"),
    [
        ([(100_000, 0), *[(10, 0)] * 20], 10, 64),
        ([(100_000, 0), *[(100, 0)] * 20], 10, 256),
        ([(100_000, 0), *[(2_000, 0)] * 9, *[(100, 0)] * 12], 10, 4096),
        ([(5_000, 0), (10, 0)] * 10, 10, 16_384),  # small ones between big ones have no neighbours to merge with
        ([(100_000, 30_000)], 10, 16_384),  # written again, and not in a thousand pieces
        ([(2_000_000, 0)] * 30, 10, 1_048_576),
    ],
)
def test_no_more_is_merged_than_is_needed(fragments: list[tuple[int, int]], at_most: int, size: int):
    assert fragment_size(fragments, at_most=at_most) == size


def test_a_row_is_written_again_a_few_times_and_not_once_for_every_few_commits():
    """A thousand commits of 100 rows each: the cost of merging them stays a small multiple of what was written."""
    fragments, written = [10_000], 0
    for _ in range(1_000):
        fragments.append(100)
        if len(fragments) > 20:
            size = fragment_size([(count, 0) for count in fragments], at_most=10)
            first = next(place for place, count in enumerate(fragments) if count < size)
            merged = sum(fragments[first:])
            written += merged
            fragments = [*fragments[:first], *[merged // max(1, merged // size)] * max(1, merged // size)]
    assert len(fragments) <= 20
    assert written < 6 * 1_000 * 100


def test_deleted_rows_go_when_they_are_many_though_fragments_are_few(table: Table):
    names = [str(number) for number in range(4_000)]
    table.append(pa.concat_tables([rows(name, "x") for name in names]))
    table.replace(names[:700], SCHEMA.empty_table())
    assert table.compact(more_than_fragments=20) is False
    table.replace(names[700:1_100], SCHEMA.empty_table())
    assert table.compact(more_than_fragments=20) is True
    fragments = table.open().get_fragments()
    assert sum(fragment.num_deletions for fragment in fragments) == 0
    assert len(fragments) <= 10
    assert table.read().num_rows == 2_900


def test_a_version_that_is_old_and_was_left_just_now_can_be_read_for_some_minutes(table: Table):
    """Its age used to count: who had opened a table that rested for an hour lost it with the next commit and clean-up."""
    table.replace(["a"], rows("a", "old"))
    reader = table.open()
    time.sleep(0.3)
    table.replace(["a"], rows("a", "new"))
    table.clean_up(keep_versions_for=timedelta(seconds=0.2))
    assert reader.to_table(columns=["text"])["text"].to_pylist() == ["old"]
    table.clean_up(keep_versions_for=timedelta(0), spare=[reader.version])
    assert reader.to_table(columns=["text"])["text"].to_pylist() == ["old"]
    assert table.clean_up(keep_versions_for=timedelta(0)) > 0
    with pytest.raises(StoreError):
        table.read(version=reader.version)


def test_a_table_that_was_deleted_and_made_again_is_not_taken_for_the_old_one(table: Table):
    """What was read of a table is kept for who opens it again, and the new one comes to the same versions."""
    for text in ("first", "second"):
        table.replace(["a"], rows("a", text))
        version = int(table.open().version)
        assert table.read(version=version)["text"].to_pylist() == table.read()["text"].to_pylist() == [text]
        table.drop()
        assert not table.exists()


def test_a_table_is_overwritten_in_one_commit(table: Table):
    table.append(rows("a", "1", "2"))
    table.overwrite(rows("b", "3"))
    assert table.read().to_pylist() == [{"document": "b", "text": "3"}]


def test_rows_are_deleted_by_a_condition(table: Table):
    table.append(pa.concat_tables([rows("a", "1", "2"), rows("b", "1")]))
    assert table.delete("text = '1'") == 2
    assert table.read().to_pylist() == [{"document": "a", "text": "2"}]


def test_a_document_that_is_edited_again_and_again_does_not_leave_its_versions_for_ever(table: Table):
    """Clean-up used to wait for many fragments, and a document that is replaced alone never makes many: 60 edits left
    62 versions, and nothing would ever have dropped them."""
    for number in range(30):
        table.replace(["a"], rows("a", str(number)))
    table.clean_up(keep_versions_for=timedelta(hours=1))
    assert len(table.open().versions()) == 31
    table.clean_up(keep_versions_for=timedelta(0))
    assert len(table.open().versions()) == 1
    assert texts_of(table, "a") == ["29"]


def test_a_tagged_version_survives_merging_and_clean_up(table: Table):
    for number in range(5):
        version = table.replace(["a", str(number)], pa.concat_tables([rows("a", str(number)), rows(str(number), "x")]))
        if number == 2:
            table.open().tags.create("published-0000000001", version)
            tagged = version
    table.compact(more_than_fragments=1)
    table.clean_up(keep_versions_for=timedelta(0))
    assert sorted(table.read(version=tagged)["text"].to_pylist()) == ["2", "x", "x", "x"]
    assert texts_of(table, "a") == ["4"]
    with pytest.raises(StoreError, match=rf"version {tagged - 1}\) is lost or damaged"):
        table.read(version=tagged - 1)


def test_a_table_whose_files_are_gone_is_told_and_not_taken_for_empty(table: Table):
    table.replace(["a"], rows("a", "1"))
    delete_below(f"{table.uri}/data")
    with pytest.raises(StoreError, match=r"t\.lance cannot be read: .*ot found.* Restore its folder from a backup"):
        table.read()
    with pytest.raises(StoreError, match=r"cannot be read"):
        table.read_where_in("document", ["a"])


def test_a_bucket_that_is_missing_is_not_taken_for_a_table_that_is(bucket_home: str):
    table = table_at("s3://no-such-bucket/store")
    for attempt in (table.exists, table.read, lambda: table.append(rows("a", "1"))):
        with pytest.raises(StoreError, match=r"cannot be reached \(The specified bucket does not exist\); check"):
            attempt()


def test_a_server_that_went_or_refuses_is_told_as_that_and_not_as_damage(bucket_home: str, s3_server: S3Server):
    """Both were told as `lost or damaged`, with `doctor --fix` as the remedy."""
    table, other = table_at(bucket_home), Table(f"{bucket_home}/other.lance", SCHEMA)
    table.append(rows("a", "1"))
    s3_server.ask_for_credentials(from_now_on=True)
    try:
        for attempt in (
            table.read,
            other.read,
            lambda: table.append(rows("a", "2")),
            lambda: table.replace(["a"], rows("a", "2")),
        ):
            with pytest.raises(StoreError, match=r"refuses the credentials of the environment \(The AWS Access Key Id"):
                attempt()
    finally:
        s3_server.ask_for_credentials(from_now_on=False)
    assert texts_of(table, "a") == ["1"]


def test_a_server_that_is_not_there_is_told_before_lance_tries_for_minutes(
    bucket_home: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(objects, "_RETRIES", {"max_retries": 0})
    monkeypatch.setattr(lance, "dataset", lambda *_, **__: pytest.fail("asked Lance"))
    with pytest.raises(StoreError, match=r"t\.lance cannot be reached \(GET http://127\.0\.0\.1:9/.*: error sending"):
        table_at("s3://never-seen/store").read()


def test_a_folder_that_is_no_table_is_told(tmp_path: Path):
    (tmp_path / "t.lance").write_text("a file")
    with pytest.raises(StoreError, match=r"t\.lance"):
        table_at(str(tmp_path)).append(rows("a", "1"))


@pytest.mark.timeout(60)
def test_who_commits_may_be_the_first_to_find_that_columns_are_missing(tmp_path: Path):
    """Both take the lock of the table: a second one of the same file waited for itself."""
    uri, lock = str(tmp_path / "things.lance"), tmp_path / "things.lock"
    old = pa.schema([pa.field("document", pa.string(), nullable=False), ("text", pa.string())])
    Table(uri, old, lock=lock).append(pa.table({"document": ["a"], "text": ["one"]}, schema=old))
    new = pa.schema([*old, ("page", pa.int64())])
    Table(uri, new, lock=lock).rewrite(["a"], lambda rows: rows)
    assert Table(uri, new, lock=lock).read().to_pylist() == [{"document": "a", "text": "one", "page": None}]


def test_a_table_of_an_earlier_version_gets_its_new_columns(home: str):
    """Tables that were written before pages and revisions came must not be lost: what they hold was paid for."""
    uri = f"{home}/things.lance"
    old = pa.schema([pa.field("document", pa.string(), nullable=False), ("text", pa.string())])
    new = pa.schema([*old, ("pages", pa.list_(pa.int64())), ("place", pa.struct([("line", pa.int32())]))])
    Table(uri, old).append(pa.table({"document": ["a", "b"], "text": ["one", "two"]}, schema=old))

    table = Table(uri, new)
    assert table.read().to_pylist() == [
        {"document": "a", "text": "one", "pages": None, "place": None},
        {"document": "b", "text": "two", "pages": None, "place": None},
    ]
    rows = [{"document": "a", "text": "three", "pages": [0, 7], "place": {"line": 3}}]
    table.replace(["a"], pa.Table.from_pylist(rows, schema=new))
    assert sorted(row["text"] for row in table.read().to_pylist()) == ["three", "two"]
