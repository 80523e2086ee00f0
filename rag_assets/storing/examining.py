"""Whether the files of a table are whole, and what can be saved of one whose files are not.

Lance writes a file completely before a commit names it, so a damaged file is the doing of a disk, a copy or a hand.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from rag_assets.errors import StoreError
from rag_assets.storing.search_indices import DOCUMENT_INDEX, TEXT_INDEX, searched_column
from rag_assets.storing.tables import READ_AHEAD_BYTES, Table, first_line, sql_literal

if TYPE_CHECKING:
    import lance

# What Lance and pyarrow raise about files: `ArrowInvalid` is a `ValueError`.
_DAMAGE = (StoreError, ValueError, OSError, RuntimeError)
# Rows that are read at once; a row of an index takes some kilobytes.
_ROWS = 4_096
# Lance names a manifest after its version or, newer, after what is left of 64 bits.
_LAST = 2**64 - 1


def why_unreadable(table: Table, *, version: int | None = None) -> str | None:
    """Why the rows of `table` cannot all be read, None where they can, or the table does not exist. Reads every file that
    the latest, or the given, version consists of; needs little memory."""
    import lance

    try:
        if not table.exists():
            return None
        dataset = lance.dataset(table.uri, version=version)
        for _ in dataset.to_batches(batch_size=_ROWS, batch_readahead=2, io_buffer_size=READ_AHEAD_BYTES):
            pass
        dataset.tags.list()
    except _DAMAGE as error:
        return first_line(error.__cause__ or error)
    return None


def why_unsearchable(table: Table) -> str | None:
    """Why a search index of `table`, whose rows can be read, does not answer; None where all do."""
    import lance
    from lance.query import MatchQuery

    dataset = lance.dataset(table.uri)  # with none of what this process remembers of its files
    some = dataset.to_table(columns=["document", "text"], limit=1).to_pylist()
    names = {index.name for index in dataset.describe_indices()}
    try:
        for name in sorted(names):
            dataset.stats.index_stats(name)
        if some and DOCUMENT_INDEX in names:
            where = f"document = {sql_literal(some[0]['document'])}"
            dataset.to_table(columns=["document"], filter=where)
        if some and TEXT_INDEX in names:
            words = MatchQuery(" ".join(some[0]["text"].split()[:20]), searched_column(dataset))
            dataset.to_table(columns=["document", "_score"], full_text_query=words, limit=1)
    except _DAMAGE as error:
        return first_line(error)
    return None


def drop_search_indices(table: Table) -> None:
    """Forget the search indices of `table`: the next publication builds them."""
    dataset = table.open()
    for name in {index.name for index in dataset.describe_indices()}:
        dataset.drop_index(name)


def move_aside(table: Table) -> Path:
    """Rename the folder of a table that is on this machine, and return its new path. Nothing is deleted."""
    folder = Path(table.uri)
    target = folder.with_name(f"{folder.name}.broken-{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z")
    folder.rename(target)
    return target


def salvage(broken: Path, table: Table) -> int:
    """Append to `table` what can be read of the folder `broken`, file by file, and return the number of rows."""
    import lance

    source = _newest(broken)
    if source is None:
        return 0
    whole = Table(table.uri, source.schema)
    whole.open()
    for fragment in source.get_fragments():
        with suppress(*_DAMAGE):  # this file is the damaged one, or one of them
            lance.write_dataset(_rows(fragment), table.uri, schema=source.schema, mode="append")
    return int(whole.open().count_rows())


def _rows(fragment: "lance.LanceFragment") -> Iterator[pa.RecordBatch]:
    yield from fragment.to_batches(batch_size=_ROWS)


def _newest(folder: Path) -> "lance.LanceDataset | None":
    """The newest version of the table in `folder` that can be opened."""
    import lance

    names = [path.stem for path in folder.glob("_versions/*.manifest") if path.stem.isdecimal()]
    for version in sorted((_LAST - int(name) if len(name) == 20 else int(name) for name in names), reverse=True):
        with suppress(*_DAMAGE):
            return lance.dataset(str(folder), version=version)
    return None
