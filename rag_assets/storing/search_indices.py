"""Keeps the search indices of a published table: full text on `text`, a B-tree on `document`.

Vectors need no index below some tens of thousands of rows: the exact scan is fast enough and misses nothing.
"""

from dataclasses import dataclass

from rag_assets.storing.tables import Table

TEXT_INDEX = "text_idx"
DOCUMENT_INDEX = "document_idx"

# Measured at 100,000 rows: with 1 % of them outside the index a full-text query takes 2 to 4 times as long, with 10 % 50
# times. Folding rows in costs seconds there, and tens of milliseconds at 1,000 rows.
_UNINDEXED_SHARE = 0.01
_UNINDEXED_ROWS = 200


@dataclass(frozen=True)
class IndexHealth:
    """How current the full-text index is. Rows outside it are still found, by a scan."""

    rows: int
    unindexed_rows: int


def keep_search_indices(table: Table) -> IndexHealth:
    """Build the indices where they are missing; fold new rows in where too many are outside."""
    dataset = table.open()
    rows = int(dataset.count_rows())
    if rows == 0:  # an index that is built on nothing never catches up
        return IndexHealth(rows=0, unindexed_rows=0)
    names = {index.name for index in dataset.describe_indices()}
    if not {TEXT_INDEX, DOCUMENT_INDEX} <= names:
        _build(table, names)
        return IndexHealth(rows=rows, unindexed_rows=0)
    unindexed = unindexed_rows(table)
    if unindexed > max(_UNINDEXED_ROWS, rows * _UNINDEXED_SHARE):
        dataset.optimize.optimize_indices()
        unindexed = unindexed_rows(table)
    return IndexHealth(rows=rows, unindexed_rows=unindexed)


def unindexed_rows(table: Table) -> int:
    """Rows that the full-text index does not cover yet."""
    return int(table.open().stats.index_stats(TEXT_INDEX)["num_unindexed_rows"])


def _build(table: Table, existing: set[str]) -> None:
    import lancedb
    from lancedb.index import FTS, BTree

    folder, _, name = table.uri.rpartition("/")
    handle = lancedb.connect(folder).open_table(name.removesuffix(".lance"))
    if DOCUMENT_INDEX not in existing:
        handle.create_index("document", config=BTree(), name=DOCUMENT_INDEX)
    if TEXT_INDEX not in existing:
        handle.create_index("text", config=FTS(with_position=False), name=TEXT_INDEX)
