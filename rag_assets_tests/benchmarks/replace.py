"""What it costs to replace the rows of a hundred documents, in tables of ten thousand rows to a million."""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from rag_assets.fingerprints import hash_text
from rag_assets.records import index_schema
from rag_assets.storing.search_indices import keep_search_indices
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table
from rag_assets_tests.benchmarks.measuring import medians_in_turn, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size

_ROWS = {"tiny": (80, 120, 160), "full": (10_000, 100_000, 1_000_000)}
_BATCH = {"tiny": 2, "full": 100}
_REPEATS = {"tiny": 1, "full": 15}
_CHUNKS = 8
_DIMENSIONS = 64
_DOCUMENTS_AT_ONCE = 12_500


def run(size: Size, folder: Path) -> Report:
    sizes = _ROWS[size]
    tables = [_table(folder / str(rows), rows) for rows in sizes]
    batches = [_batches(rows // _CHUNKS, size) for rows in sizes]
    found = medians_in_turn(
        _REPEATS[size], *(partial(_replace_next, table, some) for table, some in zip(tables, batches, strict=True))
    )
    smallest = Baseline(f"in {sizes[0]:,} rows", 1000 * found[0])
    goal = Goal("at most", round(3 * smallest.value, 1))
    return Report(
        name="replace",
        title=f"Replacing the rows of {_BATCH[size]} documents in one commit",
        figures=[
            Figure(f"in {rows:,} rows", 1000 * seconds, "ms", smallest, goal)
            for rows, seconds in zip(sizes[1:], found[1:], strict=True)
        ],
        notes=[
            f"{_CHUNKS} chunks a document, {_DIMENSIONS} dimensions, with the search indices of a published table; wall"
            f" time, median of {_REPEATS[size]} batches that are spread over the table, the tables in turn.",
        ],
    )


def _table(home: Path, rows: int) -> Table:
    table = Store(str(home)).index("notes", "generation", dimensions=_DIMENSIONS)
    documents = rows // _CHUNKS
    for start in range(0, documents, _DOCUMENTS_AT_ONCE):
        table.append(_rows(range(start, min(start + _DOCUMENTS_AT_ONCE, documents)), "first"))
    table.compact(more_than_fragments=1)
    keep_search_indices(table)
    return table


def _replace_next(table: Table, batches: Iterator[tuple[Sequence[int], pa.Table]]) -> float:
    numbers, rows = next(batches)
    return wall_seconds(lambda: table.replace([_name(number) for number in numbers], rows))


def _batches(documents: int, size: Size) -> Iterator[tuple[Sequence[int], pa.Table]]:
    """Batches of document numbers and their new rows, every batch spread over the whole table."""
    step = documents // _BATCH[size]
    for start in itertools.count():
        numbers = range(start % step, step * _BATCH[size], step)
        yield numbers, _rows(numbers, f"after {start}")


def _rows(numbers: Sequence[int], edition: str) -> pa.Table:
    """The rows of documents, as an index holds them."""
    places = [(number, ordinal) for number in numbers for ordinal in range(_CHUNKS)]
    texts = [f"Passage {ordinal} of document {number}, {edition}." for number, ordinal in places]
    names = [_name(number) for number, _ in places]
    columns = {
        "chunk_id": [f"{name}#{ordinal}" for name, (_, ordinal) in zip(names, places, strict=True)],
        "document": names,
        "ordinal": [ordinal for _, ordinal in places],
        "text": texts,
        "text_hash": [hash_text(text) for text in texts],
        "vector": pa.FixedSizeListArray.from_arrays(
            np.random.default_rng(numbers[0]).normal(size=len(places) * _DIMENSIONS).astype(np.float32), _DIMENSIONS
        ),
    }
    schema = index_schema(_DIMENSIONS)
    blank = pa.nulls(len(places))
    return pa.table([pa.array(columns[f.name]) if f.name in columns else blank.cast(f.type) for f in schema], schema)


def _name(number: int) -> str:
    return f"folder/{number:06}.md"
