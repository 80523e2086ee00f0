"""Keeps the search indices of a published table: full text, a B-tree on `document`, and one on `vector` once
there are so many that looking at each takes long.

Below that size vectors have no index: the exact scan is fast enough and misses nothing. See
docs/decisions/0014-vector-index-by-size.md.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_assets.storing.tables import Table

if TYPE_CHECKING:
    import lance

_SEARCHED = "searched_text"
TEXT_INDEX = "text_idx"
DOCUMENT_INDEX = "document_idx"
VECTOR_INDEX = "vector_idx"

# ICU finds words where nothing stands between them (Chinese, Japanese, Thai); "split" parts snake_case and paths as well.
# The built-in stop words hold single letters, so that nobody would find C++.
# fmt: off
_STOP_WORDS = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of", "on",
    "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
]
# fmt: on

# Measured at 100,000 rows: with 1 % of them outside the index a full-text query takes 2 to 4 times as long, with 10 % 50
# times. Folding rows in costs seconds there, and tens of milliseconds at 1,000 rows.
_UNINDEXED_SHARE = 0.01
_UNINDEXED_ROWS = 200
# Numbers in all vectors of a table: 50,000 rows of 384 dimensions, whose scan takes about as long as a full-text query.
_NUMBERS_TO_SCAN = 50_000 * 384
# Numbers of the vectors outside the index, which each query scans as well.
_NUMBERS_OUTSIDE = 10_000 * 384
_ROWS_IN_A_PARTITION = 4096
# A table that grew so much since its index was built gets another one, with more partitions.
_GROWTH = 2


@dataclass(frozen=True)
class IndexHealth:
    """How current the search indices are. Rows outside them are still found, by a scan. `vector_index` is its kind, None
    where vectors are scanned. Without a `text_index` all rows are outside it."""

    rows: int
    unindexed_rows: int
    vector_index: str | None = None
    unindexed_vectors: int = 0
    text_index: bool = True


def searched_column(dataset: "lance.LanceDataset") -> str:
    """Which column full text searches: an earlier version of the code indexed the text alone."""
    indexed = [index.field_names[0] for index in dataset.describe_indices() if index.name == TEXT_INDEX]
    return indexed[0] if indexed else _SEARCHED


def keep_search_indices(table: Table) -> IndexHealth:
    """Build the indices where they are missing; fold new rows in where too many are outside."""
    rows = int(table.open().count_rows())
    if rows == 0:  # an index that is built on nothing never catches up
        return IndexHealth(rows=0, unindexed_rows=0)
    names = {index.name for index in table.open().describe_indices()}
    if {TEXT_INDEX, DOCUMENT_INDEX} <= names:
        if unindexed_rows(table) > max(_UNINDEXED_ROWS, rows * _UNINDEXED_SHARE):
            table.open().optimize.optimize_indices(index_names=[TEXT_INDEX, DOCUMENT_INDEX])
    else:
        _build(table, names)
    _keep_vector_index(table, rows=rows, exists=VECTOR_INDEX in names)
    return health_of(table)


def health_of(table: Table, *, version: int | None = None) -> IndexHealth:
    """The state of the indices as they are, in the latest or the given version."""
    dataset = table.open(version)
    rows, names = int(dataset.count_rows()), {index.name for index in dataset.describe_indices()}
    vectors = _vector_stats(dataset) if VECTOR_INDEX in names else None
    has_text = TEXT_INDEX in names
    return IndexHealth(
        rows=rows,
        unindexed_rows=int(dataset.stats.index_stats(TEXT_INDEX)["num_unindexed_rows"]) if has_text else rows,
        vector_index=str(vectors["index_type"]) if vectors else None,
        unindexed_vectors=int(vectors["num_unindexed_rows"]) if vectors else 0,
        text_index=has_text,
    )


def unindexed_rows(table: Table) -> int:
    """Rows that the full-text index does not cover yet."""
    return int(table.open().stats.index_stats(TEXT_INDEX)["num_unindexed_rows"])


def _vector_stats(dataset: "lance.LanceDataset") -> Mapping[str, Any]:
    os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # else megabytes of them, and a warning
    stats: Mapping[str, Any] = dataset.stats.index_stats(VECTOR_INDEX)
    return stats


def _keep_vector_index(table: Table, *, rows: int, exists: bool) -> None:
    dataset = table.open()
    dimensions = int(dataset.schema.field("vector").type.list_size)
    if not exists:
        if rows * dimensions > _NUMBERS_TO_SCAN:
            _build_vector_index(dataset, rows)
        return
    stats = _vector_stats(dataset)
    partitions = max(int(one["num_partitions"]) for one in stats["indices"])
    if rows > _GROWTH * partitions * _ROWS_IN_A_PARTITION:
        _build_vector_index(dataset, rows)
    elif int(stats["num_unindexed_rows"]) * dimensions > _NUMBERS_OUTSIDE:
        # Into one part beside the first: each part is searched on its own.
        dataset.optimize.optimize_indices(index_names=[VECTOR_INDEX], num_indices_to_merge=len(stats["indices"]) - 1)


def _build_vector_index(dataset: "lance.LanceDataset", rows: int) -> None:
    dataset.create_index(
        "vector",
        "IVF_SQ",
        name=VECTOR_INDEX,
        metric="cosine",
        num_partitions=max(1, rows // _ROWS_IN_A_PARTITION),
        replace=True,
    )


def _build(table: Table, existing: set[str]) -> None:
    import lancedb
    from lancedb.index import FTS, BTree

    folder, _, name = table.uri.rpartition("/")
    handle = lancedb.connect(folder).open_table(name.removesuffix(".lance"))
    if DOCUMENT_INDEX not in existing:
        handle.create_index("document", config=BTree(), name=DOCUMENT_INDEX)
    if TEXT_INDEX not in existing:
        words = FTS(base_tokenizer="icu/split", custom_stop_words=_STOP_WORDS)
        handle.create_index(_SEARCHED, config=words, name=TEXT_INDEX)
