import hashlib
import threading

import numpy as np
import pytest

from rag_assets.errors import StoreError
from rag_assets.storing.vectors import VectorTable
from rag_assets_tests.homes import files_below


def hash_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def vectors_of(*values: float, size: int = 4) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.array([[value] * size for value in values], dtype=np.float32)


@pytest.fixture
def table(home: str) -> VectorTable:
    return VectorTable(f"{home}/v.lance")


def test_before_the_first_response_nothing_is_known_and_no_table_is_made(table: VectorTable, home: str):
    assert table.dimensions() is None
    assert table.count() == 0
    assert table.known([hash_of(1)]) == set()
    assert table.positions([hash_of(1)])[0] == {}
    assert table.compact() is False
    assert files_below(home) == []


def test_a_vector_is_found_by_the_hash_of_its_text(table: VectorTable):
    table.append([hash_of(1), hash_of(2)], vectors_of(0.5, 2.0), [3, 4])
    assert table.known([hash_of(1), hash_of(3)]) == {hash_of(1)}
    positions, vectors = table.positions([hash_of(2), hash_of(1), hash_of(3)])
    assert set(positions) == {hash_of(1), hash_of(2)}
    assert vectors[positions[hash_of(1)]].as_py() == [0.5, 0.5, 0.5, 0.5]
    assert vectors[positions[hash_of(2)]].as_py() == [2.0, 2.0, 2.0, 2.0]
    assert (table.dimensions(), table.count()) == (4, 2)


def test_a_vector_of_another_size_is_refused_before_anything_is_written(table: VectorTable):
    table.append([hash_of(1)], vectors_of(1.0), [1])
    with pytest.raises(
        StoreError,
        match=r"returned vectors of 5 dimensions, and .*v\.lance holds vectors of 4.*set embedding\.dimensions",
    ):
        table.append([hash_of(2)], vectors_of(1.0, size=5), [1])
    assert table.known([hash_of(1), hash_of(2)]) == {hash_of(1)}


def test_equal_texts_of_two_writers_are_two_rows_and_one_answer(table: VectorTable):
    table.append([hash_of(1)], vectors_of(1.0), [1])
    table.append([hash_of(1)], vectors_of(1.0), [1])
    positions, vectors = table.positions([hash_of(1)])
    assert vectors[positions[hash_of(1)]].as_py() == [1.0, 1.0, 1.0, 1.0]


def test_more_keys_than_one_look_up_takes_are_all_found(table: VectorTable):
    hashes = [hash_of(number) for number in range(20_001)]
    table.append(hashes, np.arange(20_001, dtype=np.float32).repeat(2).reshape(-1, 2), [1] * 20_001)
    assert table.known([*hashes, hash_of(-1)]) == set(hashes)
    positions, vectors = table.positions(hashes)
    assert vectors[positions[hashes[20_000]]].as_py() == [20_000.0, 20_000.0]


def test_first_responses_that_arrive_at_once_are_all_kept(home: str):
    start = threading.Barrier(4)

    def append(number: int) -> None:
        start.wait()
        VectorTable(f"{home}/v.lance").append([hash_of(number)], vectors_of(number), [1])

    threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert VectorTable(f"{home}/v.lance").count() == 4


def test_many_small_responses_are_merged_and_every_vector_stays(table: VectorTable):
    for number in range(33):
        table.append([hash_of(number)], vectors_of(number), [1])
    assert table.compact() is True
    assert table.compact() is False
    assert table.known([hash_of(number) for number in range(33)]) == {hash_of(number) for number in range(33)}


class TestWatching:
    def test_what_anybody_embeds_from_now_on_is_known(self, table: VectorTable, home: str):
        table.append([hash_of(0)], vectors_of(0), [1])
        watch = table.watch()
        table.append([hash_of(1)], vectors_of(1), [1])
        VectorTable(f"{home}/v.lance").append([hash_of(2)], vectors_of(2), [1])
        assert watch.known([hash_of(number) for number in range(4)]) == {hash_of(1), hash_of(2)}
        assert watch.known([hash_of(2), hash_of(3)]) == {hash_of(2)}

    def test_the_table_may_be_made_after_the_watch_began(self, table: VectorTable):
        watch = table.watch()
        assert watch.known([hash_of(1)]) == set()
        table.append([hash_of(1)], vectors_of(1), [1])
        assert watch.known([hash_of(1)]) == {hash_of(1)}

    def test_what_others_merged_meanwhile_is_found(self, table: VectorTable, home: str):
        watch = table.watch()
        other = VectorTable(f"{home}/v.lance")
        for number in range(40):
            other.append([hash_of(number)], vectors_of(number), [1])
        assert other.compact()
        assert watch.known([hash_of(number) for number in range(45)]) == {hash_of(number) for number in range(40)}
