"""Documents whose texts can be counted, and what a reader sees of them."""

import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from rag_assets.storing.publishing import latest_publication
from rag_assets.storing.stores import Store
from rag_assets_tests.platform import Platform

Edition = Mapping[str, Sequence[str]]
"""The texts of each document, in order. A text is a paragraph of the file, and a chunk of the index."""

_BETWEEN_LOOKS = 0.2


def edition(number: int, *, documents: int, texts: int) -> Edition:
    """`texts` texts spread over `documents` documents. No text is there twice, or in an edition of another number."""
    return {
        f"{document:04}.md": [
            f"Edition {number} tells in place {place} what became of the lighthouse."
            for place in range(document, texts, documents)
        ]
        for document in range(documents)
    }


def count(of: Edition) -> int:
    """How many texts there are."""
    return sum(map(len, of.values()))


def write(platform: Platform, what: Edition) -> None:
    """Write each document as a file of the corpus."""
    for document, texts in what.items():
        platform.write(document, "\n\n".join(texts))


def published_rows(store: Store, corpus: str) -> pa.Table | None:
    """Every row that readers of `corpus` see, by document and place; None before the first publication."""
    publication = latest_publication(store, corpus)
    if publication is None:
        return None
    rows = store.index(corpus, publication.generation, dimensions=1).read(version=publication.table_version)
    return rows.sort_by([("document", "ascending"), ("ordinal", "ascending"), ("chunk_id", "ascending")])


def edition_of(rows: pa.Table | None) -> Edition:
    """What `rows` hold, as an edition."""
    found: dict[str, list[str]] = {}
    if rows is not None:
        for document, text in zip(rows["document"].to_pylist(), rows["text"].to_pylist(), strict=True):
            found.setdefault(document, []).append(text)
    return found


class Reader:
    """Looks at the published index from a thread until the block ends. `wrong` says which looks saw none of `allowed`."""

    def __init__(self, store: Store, corpus: str, allowed: Sequence[Edition]) -> None:
        self.allowed = allowed
        self.looks = 0
        self.wrong: list[str] = []
        self._store = store
        self._corpus = corpus
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def look(self) -> None:
        """Look once."""
        try:
            seen = edition_of(published_rows(self._store, self._corpus))
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
        else:
            if seen not in self.allowed:
                self.wrong.append(f"{count(seen)} texts of {len(seen)} documents")
        self.looks += 1

    def _read(self) -> None:
        while not self._ended.wait(_BETWEEN_LOOKS):
            self.look()
