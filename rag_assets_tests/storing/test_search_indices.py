from pathlib import Path

import pyarrow as pa
import pytest

from rag_assets.records import index_schema
from rag_assets.storing.search_indices import IndexHealth, keep_search_indices, unindexed_rows
from rag_assets.storing.tables import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(str(tmp_path / "index_1.lance"), index_schema(2), lock=tmp_path / "lock")


def put(table: Table, document: str, *texts: str) -> None:
    rows = [
        {"chunk_id": f"{document}/{number}", "document": document, "text": text, "vector": [0.0, 1.0]}
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
