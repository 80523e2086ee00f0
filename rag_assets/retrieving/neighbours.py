"""What stands around a passage: the chunks before and after it in its document, which an answer reads beside it.

They are read from the version of the index in which the passage was found, and joined to what is exactly a range of the
document: chunks may overlap, and the index knows the white space between them.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rag_assets.records import Passage
from rag_assets.storing.publishing import Publication
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import is_in, sql_literal

_COLUMNS = [
    "document",
    "ordinal",
    "text",
    "start_char",
    "end_char",
    "start_line",
    "end_line",
    "start_page",
    "end_page",
    "parent",
    "space_after",
]
# Ranges of ordinals in one SQL filter.
_RANGES = 100


@dataclass
class _Run:
    """A range of a document without a hole, as far as its text is known."""

    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    start_page: int | None
    end_page: int | None
    space_after: str | None

    def extend(self, piece: "_Run") -> bool:
        """Append `piece`, which begins no earlier, and tell whether that could be done: not where characters between them
        are unknown."""
        space = ""
        if piece.start_char > self.end_char:
            if self.space_after is None or len(self.space_after) != piece.start_char - self.end_char:
                return False
            space = self.space_after
        if piece.end_char > self.end_char:
            self.text += space + piece.text[max(0, self.end_char - piece.start_char) :]
            self.end_char, self.end_line, self.space_after = piece.end_char, piece.end_line, piece.space_after
        elif piece.end_char == self.end_char:
            self.space_after = piece.space_after if self.space_after is None else self.space_after
        self.end_page = piece.end_page
        return True


def read_neighbours(
    store: Store, publications: Mapping[str, Publication], passages: Sequence[Passage], *, count: int
) -> list[Passage]:
    """Each of `passages`, best first, with `count` chunks of its document before and after it, or their parents.

    Those whose ranges touch become one passage, at the rank and under the chunk id of the best of them. Raises `StoreError`
    when the version that was searched is gone.
    """
    runs: dict[tuple[str, str], list[_Run]] = {}
    for corpus in dict.fromkeys(passage.corpus for passage in passages):
        of_corpus = [passage for passage in passages if passage.corpus == corpus]
        for document, rows in _rows_around(store, corpus, publications[corpus], of_corpus, count=count).items():
            runs[corpus, document] = list(_joined(rows))
    wider: dict[tuple[str, str, int], Passage] = {}
    for passage in passages:
        widened = _widened(passage, runs.get((passage.corpus, passage.document), ()))
        key = (passage.corpus, passage.document, widened.start_char)
        best = wider.get(key)
        wider[key] = replace(best, also_in=(*best.also_in, *passage.also_in)) if best else widened
    return list(wider.values())


def _rows_around(
    store: Store, corpus: str, publication: Publication, passages: Sequence[Passage], *, count: int
) -> dict[str, list[dict[str, Any]]]:
    """The rows of the index around `passages`, by document, in the order of the document."""
    dataset = store.index(corpus, publication.generation, dimensions=1).open(publication.table_version)
    columns = [name for name in _COLUMNS if name in dataset.schema.names]
    tables = []
    for start in range(0, len(passages), _RANGES):
        some = passages[start : start + _RANGES]
        around = " OR ".join(
            f"(document = {sql_literal(one.document)} AND ordinal BETWEEN {one.ordinal - count} AND {one.ordinal + count})"
            for one in some
        )
        documents = is_in("document", sorted({one.document for one in some}))
        tables.append(dataset.to_table(columns=columns, filter=f"{documents} AND ({around})"))
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in pa.concat_tables(tables).to_pylist():
        found[row["document"]][row["start_char"]] = row
    return {document: [rows[start] for start in sorted(rows)] for document, rows in found.items()}


def _joined(rows: Sequence[Mapping[str, Any]]) -> Iterator[_Run]:
    """The ranges without a hole that `rows`, in the order of the document, make up."""
    run: _Run | None = None
    for row in rows:
        piece = _piece(row)
        if run is None:
            run = piece
        elif not run.extend(piece):
            yield run
            run = piece
    if run is not None:
        yield run


def _piece(row: Mapping[str, Any]) -> _Run:
    """A row, or its parent. What stands after a parent is known by its last child."""
    wide = row.get("parent") or row
    ends_here = wide["end_char"] == row["end_char"]
    return _Run(
        **{name: wide[name] for name in ("text", "start_char", "end_char", "start_line", "end_line")},
        start_page=row.get("start_page"),
        end_page=row.get("end_page"),
        space_after=row.get("space_after") if ends_here else None,
    )


def _widened(passage: Passage, runs: Sequence[_Run]) -> Passage:
    for run in runs:
        if run.start_char <= passage.start_char and passage.end_char <= run.end_char:
            return replace(
                passage,
                text=run.text,
                start_char=run.start_char,
                end_char=run.end_char,
                start_line=run.start_line,
                end_line=run.end_line,
                start_page=run.start_page,
                end_page=run.end_page,
            )
    return passage
