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

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import StoreError
from rag_assets.storing.tables import Table, fragment_size, sql_literal

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


def table_at(folder: Path) -> Table:
    return Table(str(folder / "t.lance"), SCHEMA, lock=folder / "t.lock")


def rows(document: str, *texts: str) -> pa.Table:
    return pa.table({"document": [document] * len(texts), "text": list(texts)}, schema=SCHEMA)


def texts_of(table: Table, document: str) -> list[str]:
    return sorted(table.read_where_in("document", [document], ["text"])["text"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return table_at(tmp_path)


def test_a_table_is_scanned_some_rows_at_a_time(table: Table, tmp_path: Path):
    assert list(table.scan(["text"], rows=2)) == []
    assert not (tmp_path / "t.lance").exists()
    version = table.replace(["a.md"], rows("a.md", "one", "two", "three"))
    table.replace(["b.md"], rows("b.md", "four"))
    assert [part["text"].to_pylist() for part in table.scan(["text"], where="document = 'a.md'", rows=2)] == [
        ["one", "two"],
        ["three"],
    ]
    assert sum(part.num_rows for part in table.scan(["text"], version=version, rows=2)) == 3


def test_a_missing_table_reads_as_empty_and_is_not_made_by_reading(table: Table, tmp_path: Path):
    assert table.exists() is False
    assert table.read().num_rows == 0
    assert table.read(["text"]).column_names == ["text"]
    assert table.read_where_in("document", ["a"]).num_rows == 0
    assert list(tmp_path.iterdir()) == []


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


@settings(deadline=None, max_examples=25)
@given(
    names=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), unique=True, min_size=2, max_size=4)
)
def test_any_name_is_a_key(tmp_path_factory: pytest.TempPathFactory, names: list[str]):
    table = table_at(tmp_path_factory.mktemp("any"))
    table.replace(names, pa.concat_tables([rows(name, "old") for name in names]))
    table.replace(names[:1], rows(names[0], "new"))
    assert dict(zip(*table.read().to_pydict().values(), strict=True)) == dict.fromkeys(names, "old") | {names[0]: "new"}


def test_a_quote_in_a_literal_is_doubled():
    assert sql_literal("it's") == "'it''s'"


@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.lists(st.sampled_from("abcd"), unique=True, min_size=1), st.integers(0, 3)),
            st.sampled_from(["compact", "index"]),
        ),
        max_size=10,
    )
)
def test_whatever_was_done_before_a_document_has_the_rows_it_was_given_last(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[str], int] | str]
):
    table = table_at(tmp_path_factory.mktemp("model"))
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


def write_own_documents(folder: Path, writer: int) -> None:
    for number in range(4):
        name = f"{writer}-{number}"
        table_at(folder).replace(
            [name, f"{writer}-again"], pa.concat_tables([rows(name, "x", "y"), rows(f"{writer}-again", "z")])
        )


def write_shared_documents(folder: Path, writer: int) -> None:
    for number in range(4):
        texts = [f"{writer}.{number}"] * (writer + 1)
        table_at(folder).replace(["a", "b"], pa.concat_tables([rows("a", *texts), rows("b", *texts)]))


def in_processes(work: Callable[[Path, int], None], folder: Path, processes: int = 3) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(folder, number)) for number in range(processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
    assert [worker.exitcode for worker in workers] == [0] * processes


def test_writers_of_other_documents_lose_nothing_and_double_nothing(table: Table, tmp_path: Path):
    in_processes(write_own_documents, tmp_path)
    expected = {f"{writer}-{number}": ["x", "y"] for writer in range(3) for number in range(4)}
    expected |= {f"{writer}-again": ["z"] for writer in range(3)}
    assert {name: texts_of(table, name) for name in expected} == expected
    assert table.read().num_rows == 27


def test_of_writers_of_the_same_new_documents_one_wins_whole(table: Table, tmp_path: Path):
    in_processes(write_shared_documents, tmp_path)
    found = table.read().to_pydict()
    winner = set(found["text"])
    assert len(winner) == 1
    rows_each = int(winner.pop().split(".")[0]) + 1
    assert sorted(found["document"]) == ["a"] * rows_each + ["b"] * rows_each


def write_until_killed(folder: Path) -> None:
    table = table_at(folder)
    for number in range(1_000_000):
        texts = [str(number)] * (3 if number % 2 else 5)
        table.replace(["a", "b"], pa.concat_tables([rows("a", *texts), rows("b", *texts)]))
        (folder / "working").touch()


def test_a_writer_that_is_killed_leaves_old_rows_or_new_ones_and_blocks_nobody(table: Table, tmp_path: Path):
    for kill in range(3):
        (tmp_path / "working").unlink(missing_ok=True)
        command = f"from pathlib import Path; from {__name__} import *; write_until_killed(Path({str(tmp_path)!r}))"
        with subprocess.Popen([sys.executable, "-c", command]) as writer:
            while not (tmp_path / "working").exists():
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


def test_without_a_lock_a_rewrite_that_lost_the_race_reads_again(tmp_path: Path):
    """On an object store there is no lock; the commit notices."""
    table = Table(str(tmp_path / "t.lance"), SCHEMA)
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


def test_documents_that_are_not_there_are_not_rewritten(table: Table):
    version = table.replace(["a"], rows("a", "1"))
    assert table.rewrite(["b"], lambda old: old) == version
    assert table.rewrite([], lambda old: old) == version


@pytest.mark.parametrize("attempt", range(8))
def test_a_table_that_many_make_at_once_keeps_what_the_first_appended(tmp_path: Path, attempt: int):
    """Of those who found no table and made one, the last overwrote what the first had appended meanwhile (28 of 40 times
    with six): the vectors of two corpora that were ingested for the first time at once would have been lost like that."""
    start = threading.Barrier(6)

    def append(number: int) -> None:
        start.wait()
        table_at(tmp_path).append(rows("a", str(number)))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts_of(table_at(tmp_path), "a") == ["0", "1", "2", "3", "4", "5"]


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
    for file in (Path(table.uri) / "data").iterdir():
        file.unlink()
    with pytest.raises(StoreError, match=r"t\.lance cannot be read: .*ot found.* Restore its folder from a backup"):
        table.read()
    with pytest.raises(StoreError, match=r"cannot be read"):
        table.read_where_in("document", ["a"])


def test_a_folder_that_is_no_table_is_told(tmp_path: Path):
    (tmp_path / "t.lance").write_text("a file")
    with pytest.raises(StoreError, match=r"t\.lance"):
        table_at(tmp_path).append(rows("a", "1"))


def test_a_table_of_an_earlier_version_gets_its_new_columns(tmp_path: Path):
    """Tables that were written before pages and revisions came must not be lost: what they hold was paid for."""
    uri = str(tmp_path / "things.lance")
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
