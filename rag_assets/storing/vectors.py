"""Vectors by the hash of the text they stand for, one table an embedding configuration, shared by all corpora.

A vector is appended once the provider has answered and is never changed, so a rename, a twin file, a repeated paragraph
or a switch of model and back finds it here. Two writers may append the same text at once: both rows are right.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_assets.errors import StoreError
from rag_assets.records import vectors_schema
from rag_assets.storing.tables import Table, batches, is_in

if TYPE_CHECKING:
    import lance

# Measured on 1,000,000 rows: one list of 1,000 keys 87 ms, ten lists of 100 269 ms. Longer lists go on paying off.
_KEYS_PER_LOOKUP = 10_000
# One small fragment comes with every response of the provider; look-ups slow down with their number.
_FRAGMENTS = 32


class VectorTable:
    """The vectors of one embedding configuration. The table exists once the first response has told the size."""

    def __init__(self, uri: str, *, lock: Path | None = None) -> None:
        self.uri = uri
        self._lock_path = lock
        self._size: int | None = None

    def dimensions(self) -> int | None:
        """The size of every vector, None while there is none."""
        dataset = self._table(1).open_existing()
        return int(dataset.schema.field("vector").type.list_size) if dataset is not None else None

    def count(self) -> int:
        """How many vectors are kept."""
        dataset = self._table(1).open_existing()
        return int(dataset.count_rows()) if dataset is not None else 0

    def known(self, text_hashes: Collection[str]) -> set[str]:
        """Those of `text_hashes` that have a vector."""
        return set(self._look_up(list(text_hashes), ["text_hash"])["text_hash"].to_pylist())

    def watch(self) -> "VectorWatch":
        """For those who embed for a while: which texts others embed meanwhile."""
        return VectorWatch(self._table(1))

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
        self._table(size).append(pa.Table.from_arrays(columns, schema=schema))

    def compact(self) -> bool:
        """Merge the small fragments that appends leave, when there are many. Returns whether it did."""
        table = self._table(1)
        if not table.exists() or not table.compact(more_than_fragments=_FRAGMENTS):
            return False
        table.clean_up()
        return True

    def maintain(self) -> int:
        """Merge small fragments, and drop old versions. Returns the bytes that the latter freed."""
        table = self._table(1)
        if not table.exists():
            return 0
        table.compact(more_than_fragments=_FRAGMENTS)
        return table.clean_up()

    def text_hashes(self) -> Iterator[Sequence[str]]:
        """The hashes of all texts that have a vector, some thousands at a time; some more than once."""
        dataset = self._table(1).open_existing()
        if dataset is not None:
            for batch in dataset.to_batches(columns=["text_hash"]):
                yield batch["text_hash"].to_pylist()

    def forget(self, text_hashes: Collection[str]) -> int:
        """Delete the vectors of `text_hashes`, and return how many rows that were."""
        table = self._table(1)
        return sum(table.delete(is_in("text_hash", some)) for some in batches(sorted(text_hashes), _KEYS_PER_LOOKUP))

    def _look_up(self, text_hashes: Sequence[str], columns: list[str]) -> pa.Table:
        return self._table(1).read_where_in("text_hash", text_hashes, columns, at_once=_KEYS_PER_LOOKUP)

    def _table(self, dimensions: int) -> Table:
        return Table(self.uri, vectors_schema(dimensions), lock=self._lock_path)


class VectorWatch:
    """Which texts get a vector, whoever embeds them, from when the watch begins. To look again reads only what is new."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._new: set[str] = set()
        self._seen = max((fragment.fragment_id for fragment in self._fragments()), default=-1)

    def known(self, text_hashes: Collection[str]) -> set[str]:
        """Those of `text_hashes` that got a vector since the watch began."""
        for fragment in self._fragments():
            if fragment.fragment_id > self._seen:
                self._new.update(fragment.to_table(columns=["text_hash"])["text_hash"].to_pylist())
                self._seen = fragment.fragment_id
        return self._new.intersection(text_hashes)

    def _fragments(self) -> "list[lance.LanceFragment]":
        dataset = self._table.open_existing()
        if dataset is None:
            return []
        return sorted(dataset.get_fragments(), key=lambda fragment: fragment.fragment_id)
