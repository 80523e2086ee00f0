"""Tables and rows that somebody changed behind the back of the platform, or that a disk lost."""

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa

from rag_assets.storing import search_indices
from rag_assets_tests.benchmarks.faults.faults import Fault
from rag_assets_tests.benchmarks.faults.scratch import DOCUMENTS, Scratch, newest
from rag_assets_tests.workbench import set_age

_A, _B = "passes/01.md", "passes/02.md"
_MANY_ROWS = 1_500

_DOCTOR = "`doctor --fix`"
_REINDEX = "`reindex --all`"
_MENDING = "nothing_needs_mending"
_AGREEMENT = "the_published_index_agrees_with_the_tables"
_COVERAGE = "every_chunk_is_in_the_published_index"


def doctor(scratch: Scratch) -> None:
    """`rag-assets doctor --fix`"""
    scratch.command("doctor", "--fix")


def reindex(scratch: Scratch) -> None:
    """`rag-assets reindex --all`"""
    scratch.command("reindex", "--all")


def ingest(scratch: Scratch) -> None:
    """`rag-assets ingest`"""
    scratch.command("ingest")


def maintain(scratch: Scratch) -> None:
    """`rag-assets maintain`"""
    scratch.command("maintain")


def _published(change: Callable[[Scratch], object]) -> Callable[[Scratch], None]:
    """`change`, and then readers are pointed at the result."""

    def breaks(scratch: Scratch) -> None:
        change(scratch)
        scratch.publish_as_it_is()

    return breaks


def _insert(scratch: Scratch, **columns: str) -> None:
    """Add the rows of a document to the index once more, with other values in `columns`."""
    rows = scratch.rows(f"document = '{_A}'")
    for name, value in columns.items():
        place = rows.schema.get_field_index(name)
        values = [f"{value}{number}" for number in range(rows.num_rows)]
        rows = rows.set_column(place, rows.schema.field(name), pa.array(values, pa.string()))
    scratch.table("index").insert(rows)


def _set_vectors(scratch: Scratch, vectors: Callable[[np.ndarray], np.ndarray]) -> None:
    """Put other vectors in place of those of a document."""
    rows = scratch.rows(f"document = '{_A}'")
    column = rows["vector"].combine_chunks()
    old = column.flatten().to_numpy(zero_copy_only=False).reshape(rows.num_rows, -1)
    new = pa.FixedSizeListArray.from_arrays(pa.array(vectors(old).astype(np.float32).reshape(-1)), old.shape[1])
    scratch.table("index").delete(f"document = '{_A}'")
    place = rows.schema.get_field_index("vector")
    scratch.table("index").insert(rows.set_column(place, rows.schema.field("vector"), new))


def _update(scratch: Scratch, table: str, where: str, **columns: str) -> None:
    scratch.table(table).update({name: f"'{value}'" for name, value in columns.items()}, where=where)


def _delete_manifest(scratch: Scratch, table: str) -> None:
    _last_manifest(scratch.folder(table)).unlink()


def _last_manifest(folder: Path) -> Path:
    return min((folder / "_versions").glob("*.manifest"), key=lambda path: path.name)


def _restore(scratch: Scratch, *tables: str) -> None:
    """Put an older copy in place of `tables`, or of everything."""
    home = scratch.platform.home
    folders = [scratch.folder(table) for table in tables] or [home]
    for folder in folders:
        shutil.rmtree(folder)
        shutil.copytree(scratch.backup / folder.relative_to(home), folder)


def _scatter(scratch: Scratch) -> None:
    """Commit document by document, as often as it takes, and never publish."""
    bench = scratch.bench
    for document in sorted(bench.known):
        bench.index(document)


def _grow_without_indices(scratch: Scratch) -> None:
    """Publish many rows without bringing the search indices up to date."""
    paragraphs = (f"Paragraph {number} of the road book." for number in range(_MANY_ROWS))
    set_age(scratch.platform.write("road-book.md", "\n\n".join(paragraphs)), 60)
    with mock.patch("rag_assets.storing.publishing.keep_search_indices", search_indices.health_of):
        scratch.platform.ingest()


_INDEX_TAMPERED = (
    Fault(
        "rows of two documents deleted from the index",
        _MENDING,
        _DOCTOR,
        lambda s: s.table("index").delete(f"document IN ('{_A}', '{_B}')"),
        doctor,
    ),
    Fault(
        "the same, and readers see it",
        _COVERAGE,
        _DOCTOR,
        _published(lambda s: s.table("index").delete(f"document IN ('{_A}', '{_B}')")),
        doctor,
    ),
    Fault(
        "one row of a document deleted, and readers see it",
        _COVERAGE,
        _DOCTOR,
        _published(lambda s: s.table("index").delete(f"document = '{_A}' AND ordinal = 0")),
        doctor,
    ),
    Fault(
        "chunk ids that are there twice",
        _AGREEMENT,
        _DOCTOR,
        _published(_insert),
        doctor,
    ),
    Fault(
        "rows of a document that nobody knows",
        _AGREEMENT,
        _DOCTOR,
        _published(lambda s: _insert(s, document="foreign.md", chunk_id="foreign")),
        doctor,
    ),
    Fault(
        "rows of no chunk beside those of a document",
        _AGREEMENT,
        _DOCTOR,
        _published(lambda s: _insert(s, chunk_id="surplus")),
        doctor,
    ),
    Fault(
        "text changed under the same id and hash",
        _AGREEMENT,
        _REINDEX,
        _published(lambda s: _update(s, "index", f"document = '{_A}'", text="The pass is open all year.")),
        reindex,
    ),
    Fault(
        "text and hash changed under the same id",
        _AGREEMENT,
        _REINDEX,
        _published(lambda s: _update(s, "index", f"document = '{_A}'", text_hash="0" * 64)),
        reindex,
    ),
    Fault(
        "vectors of zeros in the index",
        _AGREEMENT,
        _REINDEX,
        _published(lambda s: _set_vectors(s, np.zeros_like)),
        reindex,
    ),
    Fault(
        "vectors of another model in the index",
        _AGREEMENT,
        _REINDEX,
        _published(lambda s: _set_vectors(s, lambda old: old[:, ::-1])),
        reindex,
    ),
    Fault(
        "rows that were cut with another configuration",
        "every_index_is_of_one_configuration",
        _REINDEX,
        _published(lambda s: _update(s, "index", f"document = '{_A}'", chunking="other")),
        reindex,
    ),
)

_FILES_LOST = (
    Fault(
        "a data file of the index truncated",
        _MENDING,
        _DOCTOR,
        lambda s: os.truncate(newest(s.folder("index") / "data"), 40),
        doctor,
    ),
    Fault(
        "a data file of `documents` deleted",
        _MENDING,
        _DOCTOR,
        lambda s: newest(s.folder("documents") / "data").unlink(),
        doctor,
    ),
    Fault(
        "a half-written manifest of `chunks`",
        _MENDING,
        _DOCTOR,
        lambda s: os.truncate(_last_manifest(s.folder("chunks")), 20),
        doctor,
    ),
    Fault(
        "the last manifest of the index deleted",
        _MENDING,
        _DOCTOR,
        lambda s: _delete_manifest(s, "index"),
        doctor,
    ),
    Fault(
        "the table of the pointer deleted",
        _MENDING,
        _DOCTOR,
        lambda s: shutil.rmtree(s.folder("publications")),
        doctor,
    ),
    Fault(
        "a pointer to a model that is none",
        _MENDING,
        _DOCTOR,
        lambda s: _update(s, "publications", "version > 0", embedding="{}"),
        doctor,
    ),
    Fault(
        "a pointer to a version that never was",
        _MENDING,
        _DOCTOR,
        lambda s: s.table("publications").update({"table_version": "999"}, where="version = 3"),
        doctor,
    ),
    Fault(
        "the search indices deleted",
        _MENDING,
        _DOCTOR,
        lambda s: shutil.rmtree(s.folder("index") / "_indices"),
        doctor,
    ),
    Fault(
        "vectors deleted from the vector store",
        _MENDING,
        _DOCTOR,
        lambda s: s.table("vectors").delete("tokens > 0"),
        doctor,
    ),
    Fault(
        "a document deleted from `documents` alone",
        _MENDING,
        _DOCTOR,
        lambda s: s.table("documents").delete(f"document = '{_A}'"),
        doctor,
    ),
    Fault(
        "an older backup of `chunks` restored",
        _MENDING,
        _DOCTOR,
        lambda s: _restore(s, "chunks"),
        doctor,
    ),
    Fault(
        "an older backup of everything restored",
        "every_file_is_searchable_or_explained",
        "`ingest`",
        _restore,
        ingest,
        later=timedelta(hours=2),
    ),
)

_NEGLECTED = (
    Fault(
        f"{DOCUMENTS} commits of one document, never compacted",
        "no_table_is_in_many_fragments",
        "`maintain`",
        _scatter,
        maintain,
    ),
    Fault(
        f"{_MANY_ROWS:,} rows outside the full-text index",
        "few_rows_are_outside_the_search_indices",
        "`maintain`",
        _grow_without_indices,
        maintain,
    ),
)

TABLES = (*_INDEX_TAMPERED, *_FILES_LOST, *_NEGLECTED)
