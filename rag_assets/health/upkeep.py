"""Whether the tables are kept in the shape in which they are read fast and take little room."""

import shutil
from pathlib import Path

import pyarrow as pa

from rag_assets.health.verdicts import Cell, Verdict, fails, passes
from rag_assets.health.view import View
from rag_assets.storing.listing import bytes_in
from rag_assets.storing.search_indices import health_of
from rag_assets.storing.stores import index_name
from rag_assets.storing.tables import Table
from rag_assets.wording import count

# With 5 % of 100,000 rows outside the full-text index a query takes 10 to 20 times as long; a thousand are scanned at once.
_UNINDEXED_SHARE = 0.05
_UNINDEXED_ROWS = 1_000
# At 50 fragments a query costs three times as much; publications merge them from 20 on.
_FRAGMENTS = 50
_ROWS_OF_A_FRAGMENT = 1024 * 1024
# Ten versions that are kept, and what readers may still be in, took up to three times the room of one.
_TIMES_LIVE = 5
_SMALL_BYTES = 256 * 1024 * 1024
_MIB = 1024 * 1024


def search_index_currency(view: View) -> Verdict:
    """Few rows are outside the search indices."""
    if view.index is None or not view.rows_of:
        return passes("There is nothing to search yet.", {"unindexed_share": 0.0})
    table, version = view.index
    found = health_of(table, version=version)
    figures = {
        "unindexed_share": found.unindexed_rows / found.rows,
        "unindexed_rows": found.unindexed_rows,
        "unindexed_vectors": found.unindexed_vectors,
    }
    remedy = f"rag-assets maintain {view.corpus.name}"
    if not found.text_index:
        return fails(f"there is no full-text index: {remedy}", figures)
    outside = max(found.unindexed_rows, found.unindexed_vectors)
    if outside > max(_UNINDEXED_ROWS, _UNINDEXED_SHARE * found.rows):
        return fails(f"{outside:,} of {count(found.rows, 'row')} are outside an index: {remedy}", figures)
    return passes(f"{found.unindexed_rows:,} of {count(found.rows, 'row')} are outside the text index.", figures)


def fragments(view: View) -> Verdict:
    """No table is in many fragments."""
    many: list[dict[str, Cell]] = []
    most = 0
    for name, table in _tables(view).items():
        dataset = table.open()
        number = len(dataset.get_fragments())
        most = max(most, number)
        if number > _FRAGMENTS + dataset.count_rows() // _ROWS_OF_A_FRAGMENT:
            many.append({"table": name, "fragments": number})
    if many:
        tables = ", ".join(f"{row['table']} ({row['fragments']})" for row in many)
        remedy = f"rag-assets maintain {view.corpus.name}; see that its schedule runs"
        return fails(f"tables in more than {_FRAGMENTS} fragments: {tables}: {remedy}", {"fragments": most}, many)
    return passes(f"No table is in more than {count(most, 'fragment')}.", {"fragments": most})


def room(view: View) -> Verdict:
    """The tables take little more room than their rows."""
    taken = bytes_in(view.store.corpus_uri(view.corpus.name))
    live = sum(_live_bytes(table) for name, table in _tables(view).items() if name != "vectors")
    figures = {"bytes": taken, "live_bytes": live}
    if taken > _SMALL_BYTES and taken > _TIMES_LIVE * live:
        what = f"the tables take {taken / _MIB:,.0f} MiB, and their rows {live / _MIB:,.0f}"
        remedy = f"rag-assets maintain {view.corpus.name}; see that its schedule runs, or lower retention"
        return fails(f"{what}: {remedy}", figures)
    return passes(f"The tables take {taken / _MIB:,.0f} MiB, their rows {live / _MIB:,.0f}.", figures)


def disk(view: View) -> Verdict:
    """The disk has room to write every table of the corpus once more, as a compaction may."""
    if view.store.objects is not None:
        return passes("The tables are in an object store.")
    home = Path(view.store.home)
    if not home.exists():
        return passes("There is no table yet.")
    free = shutil.disk_usage(home).free
    needed = max(bytes_in(view.store.corpus_uri(view.corpus.name)), _SMALL_BYTES)
    told = f"{free / _MIB:,.0f} MiB are free, and {needed / _MIB:,.0f} may be needed"
    if free < needed:
        return fails(f"{told}: free space at {home}, or lower retention", {"bytes_free": free})
    return passes(f"{told}.", {"bytes_free": free})


def _tables(view: View) -> dict[str, Table]:
    """The tables of the corpus that exist, and the vectors of its model."""
    name, generation = view.corpus.name, view.generation
    tables = {
        "documents": view.store.documents(name),
        "chunks": view.store.chunks(name),
        "publications": view.store.publications(name),
        "vectors": Table(view.store.vectors(generation.embedding).uri, pa.schema([])),
    }
    for one in {generation.id, *([view.published.generation] if view.published else [])}:
        tables[index_name(one)] = view.store.index(name, one, dimensions=1)
    return {name: table for name, table in tables.items() if table.exists()}


def _live_bytes(table: Table) -> int:
    """The bytes of the data of the latest version, those of deleted rows included."""
    return sum(file.file_size_bytes or 0 for one in table.open().get_fragments() for file in one.data_files())
