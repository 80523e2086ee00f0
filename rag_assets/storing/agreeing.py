"""Whether the tables of a corpus tell the same of each document. Columns are compared, never row by row."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

ROW_COLUMNS = ("document", "document_hash", "chunk_id")
"""What is looked at in `chunks` and in an index."""

_NO = pa.scalar(value=False)


def expected_rows(documents: pa.Table, generation: str) -> pa.Table:
    """Of each of `documents` (`document`), its `text_hash`, whether it is `pending`, and its number of rows (`expected`).

    The number is null where nothing can be said, because the document is pending, set aside, or of another generation: its
    last good rows may be there.
    """
    current = pc.equal(documents["generation"], generation)
    indexed = pc.and_(current, pc.equal(documents["status"], "indexed"))
    empty = pc.and_(current, pc.equal(documents["status"], "empty"))
    counts = pc.case_when(
        pc.make_struct(pc.coalesce(indexed, _NO), pc.coalesce(empty, _NO)),
        documents["chunks"],
        pa.scalar(0, pa.int32()),
    )
    told = documents.select(["document", "text_hash"]).append_column("expected", counts)
    return told.append_column("pending", pc.equal(documents["status"], "pending"))


def disagreements(expected: pa.Table, rows: pa.Table) -> Mapping[str, Sequence[str]]:
    """Documents by what is wrong with their `rows`, compared with `expected_rows`; each in one list only."""
    of = rows.group_by("document").aggregate(
        [
            ("chunk_id", "count"),
            ("chunk_id", "count_distinct"),
            ("document_hash", "count_distinct"),
            ("document_hash", "min"),
        ]
    )
    at = pc.index_in(expected["document"], value_set=of["document"].combine_chunks())
    count, distinct, hashes = (
        pc.fill_null(of[name].take(at), 0)
        for name in ("chunk_id_count", "chunk_id_count_distinct", "document_hash_count_distinct")
    )
    stale = pc.and_(pc.greater(count, 0), pc.not_equal(of["document_hash_min"].take(at), expected["text_hash"]))
    known, settled = pc.is_valid(expected["expected"]), pc.invert(expected["pending"])
    reasons = {
        "no rows": pc.and_(pc.equal(count, 0), pc.greater(expected["expected"], 0)),
        "rows of two texts": pc.and_(settled, pc.greater(hashes, 1)),
        "a row more than once": pc.and_(settled, pc.greater(count, distinct)),
        "another number of rows than of chunks": pc.not_equal(count, expected["expected"]),
        "rows of another text": pc.and_(known, stale),
    }
    found: dict[str, Sequence[str]] = {}
    told = pa.array([False] * expected.num_rows, pa.bool_())
    for reason, mask in reasons.items():
        new = pc.and_not(pc.coalesce(mask, _NO), told)
        told = pc.or_(told, new)
        names = sorted(expected["document"].filter(new).to_pylist())
        if names:
            found[reason] = names
    return found


def without_document(documents: pa.Table, rows: pa.Table) -> Sequence[str]:
    """The `document` of `rows` that are none of `documents`."""
    names = pc.unique(rows["document"])
    return sorted(
        names.filter(pc.invert(pc.is_in(names, value_set=documents["document"].combine_chunks()))).to_pylist()
    )


def other_chunks(expected: pa.Table, chunks: pa.Table, rows: pa.Table) -> Sequence[str]:
    """Documents of which the index has `rows` of other chunks than `chunks`, though as many."""
    current = expected.filter(pc.is_valid(expected["expected"]))["document"].combine_chunks()
    wanted = chunks.filter(pc.is_in(chunks["document"], value_set=current))
    there = pc.is_in(wanted["chunk_id"], value_set=rows["chunk_id"].combine_chunks())
    return sorted(pc.unique(wanted["document"].filter(pc.invert(there))).to_pylist())
