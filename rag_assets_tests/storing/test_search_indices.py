import numpy as np
import pyarrow as pa
import pytest

from rag_assets.records import index_schema
from rag_assets.storing import search_indices
from rag_assets.storing.search_indices import IndexHealth, keep_search_indices, unindexed_rows
from rag_assets.storing.tables import Table


@pytest.fixture
def table(home: str) -> Table:
    return Table(f"{home}/index_1.lance", index_schema(2))


def put(table: Table, document: str, *texts: str) -> None:
    rows = [
        {"chunk_id": f"{document}/{number}", "document": document, "searched_text": text, "vector": [0.0, 1.0]}
        for number, text in enumerate(texts)
    ]
    table.replace([document], pa.Table.from_pylist(rows, schema=table.schema))


def found(table: Table, word: str) -> list[str]:
    rows = table.open().scanner(columns=["chunk_id"], full_text_query=word).to_table()
    return sorted(rows["chunk_id"].to_pylist())


def index_versions(table: Table) -> dict[str, str]:
    """What changes when an index is built again."""
    return {index.name: str(index.segments[0].uuid) for index in table.open().describe_indices()}


def test_no_index_is_built_on_an_empty_table(table: Table):
    table.open()
    assert keep_search_indices(table) == IndexHealth(rows=0, unindexed_rows=0)
    assert index_versions(table) == {}


def test_both_indices_are_built_once_there_are_rows_and_not_again(table: Table):
    put(table, "a", "red apples", "green pears")
    assert keep_search_indices(table) == IndexHealth(rows=2, unindexed_rows=0)
    built = index_versions(table)
    version = table.open().version
    assert set(built) == {"text_idx", "document_idx"}
    assert keep_search_indices(table) == IndexHealth(rows=2, unindexed_rows=0)
    assert index_versions(table) == built
    assert table.open().version == version


def test_rows_outside_the_index_are_found_all_the_same(table: Table):
    put(table, "a", "red apples")
    keep_search_indices(table)
    put(table, "b", "green apples")
    assert keep_search_indices(table) == IndexHealth(rows=2, unindexed_rows=1)
    assert found(table, "apples") == ["a/0", "b/0"]


def test_rows_are_folded_in_when_more_than_two_hundred_are_outside(table: Table):
    put(table, "a", "red apples")
    keep_search_indices(table)
    put(table, "b", *["green apples"] * 200)
    assert keep_search_indices(table) == IndexHealth(rows=201, unindexed_rows=200)
    put(table, "c", "blue apples")
    assert keep_search_indices(table) == IndexHealth(rows=202, unindexed_rows=0)
    assert len(found(table, "apples")) == 202


def test_an_index_whose_rows_all_went_finds_those_that_come(table: Table):
    put(table, "a", "red apples")
    keep_search_indices(table)
    put(table, "a")
    assert keep_search_indices(table) == IndexHealth(rows=0, unindexed_rows=0)
    assert found(table, "apples") == []
    put(table, "a", "green apples")
    keep_search_indices(table)
    assert found(table, "apples") == ["a/0"]
    assert found(table, "red") == []


def test_an_index_that_is_missing_is_built_beside_the_other(table: Table):
    put(table, "a", "red apples")
    keep_search_indices(table)
    document_index = index_versions(table)["document_idx"]
    table.open().drop_index("text_idx")
    assert keep_search_indices(table) == IndexHealth(rows=1, unindexed_rows=0)
    assert index_versions(table)["document_idx"] == document_index
    assert found(table, "apples") == ["a/0"]


def test_a_replaced_document_is_not_found_by_its_old_words(table: Table):
    put(table, "a", "red apples")
    put(table, "b", "red pears")
    keep_search_indices(table)
    put(table, "a", "green apples")
    assert found(table, "red") == ["b/0"]
    assert unindexed_rows(table) == 1


class TestVectorIndex:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sizes at which a test can build one: from 401 rows on, 100 rows a partition, 51 rows outside."""
        for name, value in (("_NUMBERS_TO_SCAN", 800), ("_NUMBERS_OUTSIDE", 100), ("_ROWS_IN_A_PARTITION", 100)):
            monkeypatch.setattr(search_indices, name, value)

    @staticmethod
    def grow(table: Table, start: int, count: int) -> None:
        angles = np.arange(start, start + count) * 0.001
        rows = [
            {
                "chunk_id": f"c{start + place}",
                "document": f"d{start + place}",
                "text": "x",
                "vector": [np.cos(a), np.sin(a)],
            }
            for place, a in enumerate(angles)
        ]
        table.append(pa.Table.from_pylist(rows, schema=table.schema))

    @staticmethod
    def nearest(table: Table, angle: float) -> str:
        near = {"column": "vector", "q": [np.cos(angle), np.sin(angle)], "k": 1, "metric": "cosine", "refine_factor": 5}
        return str(table.open().scanner(columns=["chunk_id"], nearest=near).to_table()["chunk_id"][0])

    def test_there_is_none_while_a_scan_is_fast(self, table: Table):
        self.grow(table, 0, 400)
        assert keep_search_indices(table).vector_index is None

    def test_it_is_built_with_size_and_finds_what_comes_later(self, table: Table):
        self.grow(table, 0, 401)
        assert keep_search_indices(table) == IndexHealth(401, 0, vector_index="IVF_SQ", unindexed_vectors=0)
        version = table.open().version
        self.grow(table, 401, 50)
        assert keep_search_indices(table) == IndexHealth(451, 50, vector_index="IVF_SQ", unindexed_vectors=50)
        assert table.open().version == version + 1
        assert self.nearest(table, 0.440) == "c440"

    def test_new_rows_are_folded_in_and_few_parts_are_left(self, table: Table):
        self.grow(table, 0, 401)
        keep_search_indices(table)
        built = index_versions(table)["vector_idx"]
        for start in (401, 460, 520):
            self.grow(table, start, 60)
            assert keep_search_indices(table).unindexed_vectors == 0
        assert index_versions(table)["vector_idx"] == built
        assert len(next(i for i in table.open().describe_indices() if i.name == "vector_idx").segments) == 2
        assert self.nearest(table, 0.570) == "c570"

    def test_it_is_built_again_when_the_table_has_grown(self, table: Table):
        self.grow(table, 0, 401)
        keep_search_indices(table)
        built = index_versions(table)["vector_idx"]
        self.grow(table, 401, 400)
        assert keep_search_indices(table).unindexed_vectors == 0
        assert index_versions(table)["vector_idx"] != built
        assert keep_search_indices(table) == IndexHealth(801, 0, vector_index="IVF_SQ", unindexed_vectors=0)

    def test_a_replaced_document_is_found_by_its_new_vector_only(self, table: Table):
        self.grow(table, 0, 401)
        keep_search_indices(table)
        moved = {"chunk_id": "moved", "document": "d7", "text": "x", "vector": [np.cos(2.0), np.sin(2.0)]}
        table.replace(["d7"], pa.Table.from_pylist([moved], schema=table.schema))
        assert self.nearest(table, 0.007) in ("c6", "c8")
        assert self.nearest(table, 2.0) == "moved"
