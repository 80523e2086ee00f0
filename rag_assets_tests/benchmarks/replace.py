"""What it costs to replace the rows of a hundred documents, in a table of ten thousand rows and one ten times as big."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from rag_assets.fingerprints import hash_text
from rag_assets.records import index_schema
from rag_assets.storing.search_indices import keep_search_indices
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table
from rag_assets_tests.benchmarks.measuring import median, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size

_ROWS = {"tiny": (80, 160), "full": (10_000, 100_000)}
_BATCH = {"tiny": 2, "full": 100}
_REPEATS = {"tiny": 1, "full": 9}
_CHUNKS = 8
_DIMENSIONS = 64


def run(size: Size, folder: Path) -> Report:
    small, big = _ROWS[size]
    of_small, of_big = (_replace_ms(folder / str(rows), rows, size) for rows in (small, big))
    return Report(
        name="replace",
        title=f"Replacing the rows of {_BATCH[size]} documents in one commit",
        figures=[
            Figure(f"in {big:,} rows", of_big, "ms", Baseline(f"in {small:,} rows", of_small)),
        ],
        notes=[
            f"{_CHUNKS} chunks a document, {_DIMENSIONS} dimensions, with the search indices of a published table; wall"
            f" time, median of {_REPEATS[size]} batches that are spread over the table.",
        ],
    )


def _replace_ms(home: Path, rows: int, size: Size) -> float:
    table = Store(str(home)).index("notes", "generation", dimensions=_DIMENSIONS)
    documents = rows // _CHUNKS
    table.append(_rows(range(documents), "first"))
    keep_search_indices(table)
    batches = _batches(documents, size)
    return 1000 * median(_REPEATS[size], lambda: _replace_next(table, batches))


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
        "vector": list(np.random.default_rng(0).normal(size=(len(places), _DIMENSIONS)).astype(np.float32)),
    }
    schema = index_schema(_DIMENSIONS)
    return pa.table([pa.array(columns.get(field.name, [None] * len(places)), field.type) for field in schema], schema)


def _name(number: int) -> str:
    return f"folder/{number:06}.md"
