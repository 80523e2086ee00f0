"""What is known of each document without reading it: the small columns of the `documents` table.

A scan compares a listing with it, assets move documents through it, `status` counts it. The state of a document is
changed here and nowhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from rag_assets.errors import DocumentError
from rag_assets.records import DOCUMENTS, Stage, Status
from rag_assets.storing.tables import Table, batches

_COLUMNS = [
    "document",
    "status",
    "stage",
    "reason",
    "retryable",
    "attempts",
    "attempted_at",
    "byte_hash",
    "bytes",
    "modified_ns",
    "revision",
    "read_at",
    "text_since",
    "reader",
    "generation",
    "indexed_at",
    "title",
    "mime",
    "text_hash",
    "chunks",
    "tokens",
    "tokens_embedded",
    "texts_embedded",
    "texts_reused",
    "cost_usd",
    "run_id",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document as the last attempt left it.

    `byte_hash`, `bytes`, `modified_ns` (nanoseconds since the epoch) and `revision` (what its store marks content with,
    such as an etag) describe the source file that was read, `text_since` when its present text was first read, `reader` the
    code that read it, `generation` what its chunks and vectors were made with, `attempts` the failures in a row on this
    content. `stage`, `reason` and `retryable` matter while it is `failed`. `tokens` are those of its chunks;
    `tokens_embedded`, `texts_embedded`, `texts_reused` and `cost_usd` (US dollars) are what its last run paid for.
    """

    document: str
    status: Status
    stage: Stage | None
    reason: str | None
    retryable: bool | None
    attempts: int
    attempted_at: datetime | None
    byte_hash: str | None
    bytes: int | None
    modified_ns: int | None
    revision: str | None
    read_at: datetime | None
    text_since: datetime | None
    reader: str | None
    generation: str | None
    indexed_at: datetime | None
    title: str | None
    mime: str | None
    text_hash: str | None
    chunks: int | None
    tokens: int | None
    tokens_embedded: int | None
    texts_embedded: int | None
    texts_reused: int | None
    cost_usd: float | None
    run_id: str | None


class Standing(NamedTuple):
    """How far a document is, which is all that a publication asks: the columns of `KnownDocument` of these names. Every run
    publishes, and reads them of all documents, in a tenth of the time that all columns take."""

    status: Status
    generation: str | None
    chunks: int | None


Standings = Mapping[str, KnownDocument | Standing]
"""How far each document is, by name."""


def known_documents(table: Table, documents: Sequence[str] | None = None) -> dict[str, KnownDocument]:
    """What is known of all documents, or of `documents`, by name."""
    return _known(table.read(_COLUMNS) if documents is None else table.read_where_in("document", documents, _COLUMNS))


def standings(table: Table) -> dict[str, Standing]:
    """How far all documents are."""
    rows = table.read(["document", *Standing._fields])
    columns = (rows[name].to_pylist() for name in Standing._fields)
    return dict(zip(rows["document"].to_pylist(), map(Standing, *columns), strict=True))


def set_aside_in(table: Table) -> list[KnownDocument]:
    """The documents that are set aside, by name, for who needs to know of no other."""
    return set_aside_documents(_known(table.read(_COLUMNS, where="status = 'failed'")))


def set_aside_documents(known: Mapping[str, KnownDocument]) -> list[KnownDocument]:
    """Those of the known documents that are set aside, by name."""
    return sorted((d for d in known.values() if d.status == "failed"), key=lambda d: d.document)


def share_made_with(known: Standings, generation: str) -> float:
    """The share of the known documents that were made, or set aside, with `generation`; 1.0 where none is known."""
    return round(count_made_with(known, generation) / len(known), 6) if known else 1.0


def count_made_with(known: Standings, generation: str) -> int:
    """How many of the known documents were made, or set aside, with `generation`."""
    return sum(document.generation == generation and document.status != "pending" for document in known.values())


def _known(rows: pa.Table) -> dict[str, KnownDocument]:
    moments: dict[int, datetime] = {}
    columns = [_values(rows[name], moments) for name in _COLUMNS]
    return {values[0]: KnownDocument(*values) for values in zip(*columns, strict=True)}


def _values(column: pa.ChunkedArray, moments: dict[int, datetime]) -> list[Any]:
    """`column` as Python values. Times by way of integers: pyarrow takes four times as long to make them one by one. Equal
    ones are one object: documents of a run share the time, and most texts are as old as their last reading."""
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    microseconds = column.cast(pa.int64()).to_pylist()
    for us in microseconds:
        if us is not None and us not in moments:
            moments[us] = _EPOCH + timedelta(microseconds=us)
    return [None if us is None else moments[us] for us in microseconds]


def change(
    table: Table, changes: Mapping[str, Mapping[str, object]], *, of_bytes: Mapping[str, str | None] | None = None
) -> None:
    """Set columns of documents that are already in the table, in one commit: document → column → value.

    Other columns keep what another process wrote meanwhile: a scan notes times while a run moves documents on. `of_bytes`
    holds the hash of the bytes that were worked on, by document; one that others were read of by now is left as it is.
    """

    def changed(rows: pa.Table) -> pa.Table:
        names = rows["document"].to_pylist()
        if of_bytes is not None:
            current = zip(names, rows["byte_hash"].to_pylist(), strict=True)
            names = [name if of_bytes[name] == byte_hash else None for name, byte_hash in current]
        for column in sorted({column for values in changes.values() for column in values}):
            old = rows[column].to_pylist()
            new = [
                value if name is None else changes[name].get(column, value)
                for name, value in zip(names, old, strict=True)
            ]
            field = DOCUMENTS.field(column)
            rows = rows.set_column(rows.schema.get_field_index(column), field, pa.array(new, field.type))
        return rows

    table.rewrite(list(changes), changed)


def make_pending(table: Table, documents: Sequence[str]) -> None:
    """Note `documents` as pending: they are made again, and meanwhile nobody counts on their rows in the index."""
    for some in batches(documents):
        change(table, {name: {"status": "pending"} for name in some})


def failure(known: KnownDocument | None, stage: Stage, error: DocumentError, *, same_content: bool) -> dict[str, Any]:
    """The columns of a document that failed at `stage`: attempts are counted per content."""
    before = known.attempts if known is not None and same_content else 0
    return {
        "status": "failed",
        "stage": stage,
        "reason": error.reason,
        "retryable": error.retryable,
        "attempts": before + 1,
        "attempted_at": datetime.now(UTC),
    }
