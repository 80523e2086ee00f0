"""Vectors by the hash of the text they stand for, one table an embedding configuration, shared by all corpora.

A vector is appended once the provider has answered and is never changed, so a rename, a twin file, a repeated paragraph
or a switch of model and back finds it here. Two writers may append the same text at once: both rows are right.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.errors import StoreError
from rag_assets.records import vectors_schema
from rag_assets.storing.tables import Table

# Measured on 1,000,000 rows: one list of 1,000 keys 87 ms, ten lists of 100 269 ms. Longer lists go on paying off.
_KEYS_PER_LOOKUP = 10_000
# One small fragment comes with every response of the provider; look-ups slow down with their number.
_FRAGMENTS = 32
_KEEP_VERSIONS_FOR = timedelta(minutes=10)


class VectorTable:
    """The vectors of one embedding configuration. The table exists once the first response has told the size."""

    def __init__(self, uri: str, *, lock: Path | None = None) -> None:
        self.uri = uri
        self._lock_path = lock
        self._size: int | None = None
        self._appended = _Appended()

    def dimensions(self) -> int | None:
        """The size of every vector, None while there is none."""
        table = self._table(1)
        if not table.exists():
            return None
        return int(table.open().schema.field("vector").type.list_size)

    def count(self) -> int:
        """How many vectors are kept."""
        table = self._table(1)
        return int(table.open().count_rows()) if table.exists() else 0

    def known(self, text_hashes: Collection[str]) -> set[str]:
        """Those of `text_hashes` that have a vector."""
        return set(self._look_up(list(text_hashes), ["text_hash"])["text_hash"].to_pylist())

    def watch(self) -> "VectorWatch":
        """For those who embed for a while and append here: which texts others embed meanwhile."""
        return VectorWatch(self._table(1), self._appended)

    def positions(self, text_hashes: Collection[str]) -> tuple[Mapping[str, int], pa.Array]:
        """A position for each of `text_hashes` that has a vector, and the array of vectors it points into.

        A slot of the array holds `dimensions()` float32.
        """
        found = self._look_up(list(text_hashes), ["text_hash", "vector"]).combine_chunks()
        positions = {text_hash: row for row, text_hash in enumerate(found["text_hash"].to_pylist())}
        vectors = found["vector"].combine_chunks()
        return positions, vectors

    def append(self, text_hashes: Sequence[str], vectors: NDArray[np.float32], tokens: Sequence[int]) -> None:
        """Keep one vector a text: `vectors` has shape (texts, dimensions).

        Raises `StoreError` when the size is not that of the vectors already here; nothing is written then.
        """
        size = int(vectors.shape[1])
        self._size = self._size or self.dimensions() or size
        if self._size != size:
            raise StoreError(
                f"the provider returned vectors of {size} dimensions, and {self.uri} holds vectors of {self._size} of the"
                " same model; set embedding.dimensions, or correct embedding.model"
            )
        schema = vectors_schema(size)
        flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
        columns = [
            pa.array(text_hashes, pa.string()),
            pa.FixedSizeListArray.from_arrays(flat, size),
            pa.array(tokens, pa.int32()),
        ]
        self._appended.note(*self._table(size).append(pa.Table.from_arrays(columns, schema=schema)))

    def compact(self) -> bool:
        """Merge the small fragments that appends leave, when there are many. Returns whether it did."""
        table = self._table(1)
        return table.exists() and table.compact(more_than_fragments=_FRAGMENTS, keep_versions_for=_KEEP_VERSIONS_FOR)

    def _look_up(self, text_hashes: Sequence[str], columns: list[str]) -> pa.Table:
        return self._table(1).read_where_in("text_hash", text_hashes, columns, at_once=_KEYS_PER_LOOKUP)

    def _table(self, dimensions: int) -> Table:
        return Table(self.uri, vectors_schema(dimensions), lock=self._lock_path)


@dataclass
class _Appended:
    """Whether others append to a table too, as far as the versions of our own appends tell; that costs no look at it."""

    version: int | None = None
    with_others: bool = False

    def note(self, before: int, after: int) -> None:
        self.with_others |= after != before + 1 or (self.version is not None and before != self.version)
        self.version = after


class VectorWatch:
    """Which texts others embed, in the table that one appends to, since the watch began. Others are noticed with the first
    append after theirs; then what is new is read, and no more."""

    def __init__(self, table: Table, appended: _Appended) -> None:
        self._table = table
        self._appended = appended
        self._seen = -1
        self._new: set[str] = set()
        if table.exists():
            dataset = table.open()
            appended.version = int(dataset.version)
            self._seen = max((fragment.fragment_id for fragment in dataset.get_fragments()), default=-1)

    def known(self, text_hashes: Collection[str]) -> set[str]:
        """Those of `text_hashes` that got a vector since the watch began and somebody else was noticed."""
        if self._appended.with_others:
            self._appended.with_others = False
            fragments = [f for f in self._table.open().get_fragments() if f.fragment_id > self._seen]
            for fragment in fragments:
                self._new.update(fragment.to_table(columns=["text_hash"])["text_hash"].to_pylist())
                self._seen = max(self._seen, fragment.fragment_id)
        return self._new.intersection(text_hashes)
