"""A store as readers would see it if a publication were the latest.

An evaluation asks through it: all its questions see one version, a candidate can be asked before the pointer moves, and
its answers stay out of the table of those that people were given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rag_assets.records import ANSWERS
from rag_assets.storing.publishing import Publication, publication_row
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table


@dataclass(frozen=True)
class PinnedStore(Store):
    """The store under `home`, with `publication` as what is published of its corpus."""

    publication: Publication

    def publications(self, corpus: str) -> Table:
        """The pinned publication alone."""
        return _Rows(f"{self.home}/corpora/{corpus}/publications.lance", publication_row(self.publication))

    def answers(self) -> Table:
        """A table that forgets what is added."""
        return _Rows(f"{self.home}/answers.lance", ANSWERS.empty_table())


class _Rows(Table):
    """Rows in memory in place of the table at `uri`, which is left alone."""

    def __init__(self, uri: str, rows: pa.Table) -> None:
        super().__init__(uri, rows.schema)
        self._rows = rows

    def exists(self) -> bool:
        return True

    def read(
        self, columns: Sequence[str] | None = None, *, where: str | None = None, version: int | None = None
    ) -> pa.Table:
        if where is not None or version is not None:
            raise NotImplementedError("rows in memory have one version, and are read whole")
        return self._rows.select(list(columns)) if columns is not None else self._rows

    def append(self, rows: pa.Table) -> None:
        pass
