"""Whether the published index holds exactly what the other tables tell: every chunk with its text and its vector, nothing
else.

Tables are read a few thousand rows at a time. What is remembered of a chunk meanwhile is 17 bytes: the first 64 bits of
its id and of the hash of its text (two chunks that share the former would be seen as one; among a hundred million ids that
happens once in three thousand looks), and how often it was seen.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.fingerprints import hash_text
from rag_assets.health.verdicts import NAMED, Row, Verdict, fails, passes
from rag_assets.health.view import View, steadily
from rag_assets.materializing.embedded_texts import COLUMNS
from rag_assets.storing.publishing import Publication
from rag_assets.storing.restoring import vector_keys
from rag_assets.storing.tables import Table, batches, is_in
from rag_assets.storing.vectors import VectorTable
from rag_assets.wording import count

# Rows that are read, and keys that are looked up in the vector store, at once.
_ROWS = 4_096
_UNIT = 0.01
# Two runs that embed a text at once leave two vectors of it, which some servers do not make alike to the last bit.
_SAME = 0.999

Bits = NDArray[np.uint64]


@dataclass
class Disagreements:
    """What was found wrong: how often by reason, and the first of them. `rows` were looked at; `not_stored` of them have no
    vector in the store to be compared with, which is no fault of the index."""

    reasons: Counter[str] = field(default_factory=Counter)
    named: list[Row] = field(default_factory=list)
    rows: int = 0
    not_stored: int = 0

    def add(self, reason: str, rows: pa.Table) -> None:
        """Note `rows` (`document`, `chunk_id`) as wrong for `reason`."""
        self.reasons[reason] += rows.num_rows
        for row in rows.select(["document", "chunk_id"]).slice(0, max(0, NAMED - len(self.named))).to_pylist():
            self.named.append({"what": reason, **row})


class _Expected:
    """The chunks that readers should find, by the first bits of their ids."""

    def __init__(self, ids: Bits, texts: Bits) -> None:
        order = np.argsort(ids)
        self._ids, self._texts = ids[order], texts[order]
        self._seen = np.zeros(len(ids), np.uint8)

    def look_up(self, ids: Bits, texts: Bits) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Which of the rows are expected, which of those have the expected text, and which were seen before."""
        if not len(self._ids):
            nothing = np.zeros(len(ids), np.bool_)
            return nothing, nothing, nothing
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        there = self._ids[at] == ids
        again = np.zeros(len(ids), np.bool_)
        for row in np.flatnonzero(there):
            again[row] = self._seen[at[row]] > 0
            self._seen[at[row]] = 1
        return there, self._texts[at] == texts, again

    def unseen(self) -> Bits:
        """The ids that no row had."""
        missing: Bits = self._ids[self._seen == 0]
        return missing


@steadily
def index_agreement(view: View) -> Verdict:
    """The published index agrees with the tables."""
    if view.published is None or view.index is None:
        return passes("There is nothing to search yet.", {"rows_compared": 0, "rows_disagreeing": 0, "agreement": 1.0})
    found = _compare(view, view.published, *view.index)
    wrong = sum(found.reasons.values())
    figures = {
        "rows_compared": found.rows,
        "rows_disagreeing": wrong,
        "agreement": 1 - min(1.0, wrong / max(1, found.rows)),
        "vectors_not_stored": found.not_stored,
    }
    if not wrong:
        return passes(f"{count(found.rows, 'row')} compared, and nothing is wrong.", figures)
    reasons = "; ".join(f"{many:,} × {reason}" for reason, many in found.reasons.most_common())
    remedy = f"rag-assets doctor {view.corpus.name} --fix, else rag-assets reindex {view.corpus.name} --all"
    return fails(f"{reasons}: {remedy}", figures, found.named)


def _compare(view: View, published: Publication, table: Table, version: int) -> Disagreements:
    """Compare the rows that readers see with the chunks and the stored vectors; those of `health.sample` documents, other
    ones every day, where it is set.

    Of documents that are not settled, only whether the rows are whole is looked at.
    """
    sample = _sample(view)
    strangers = pa.array(view.strangers, pa.string())
    judged = pa.array(view.settled if sample is None else sorted({*sample} & {*view.settled}), pa.string())
    expected = _expected(view, judged, sample)
    found = Disagreements()
    vectors = _vectors(view, published)
    for rows in _index_rows(table, version, sample):
        found.rows += rows.num_rows
        _compare_texts(rows, found)
        _compare_vectors(view, rows, vectors, found)
        is_strange = pc.is_in(rows["document"], value_set=strangers)
        found.add("a row of a document that is not known", rows.filter(is_strange))
        rows = rows.filter(pc.is_in(rows["document"], value_set=judged))
        there, same, again = expected.look_up(_bits(rows["chunk_id"]), _bits(rows["text_hash"]))
        found.add("a row of no chunk", rows.filter(pa.array(~there)))
        found.add("another text than the chunk", rows.filter(pa.array(there & ~same)))
        found.add("a row more than once", rows.filter(pa.array(there & again)))
    _name_missing(view, judged, sample, expected, found)
    found.reasons = +found.reasons
    return found


def _sample(view: View) -> list[str] | None:
    """The documents to look at, None for all."""
    names = [*view.settled, *view.strangers]
    if view.corpus.health.sample is None or view.corpus.health.sample >= len(names):
        return None
    day = f"{view.now:%Y-%m-%d}"
    by_chance = sorted(names, key=lambda name: hashlib.sha256(f"{day}\0{name}".encode(errors="surrogatepass")).digest())
    return by_chance[: view.corpus.health.sample]


def _expected(view: View, judged: pa.Array, sample: Sequence[str] | None) -> _Expected:
    ids, texts = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for rows in _chunks(view, judged, sample):
        ids.append(_bits(rows["chunk_id"]))
        texts.append(_bits(rows["text_hash"]))
    return _Expected(np.concatenate(ids), np.concatenate(texts))


def _chunks(view: View, judged: pa.Array, sample: Sequence[str] | None) -> Iterator[pa.Table]:
    table, columns = view.store.chunks(view.corpus.name), ["document", "chunk_id", "text_hash"]
    for where in _filters(sample):
        for rows in table.scan(columns, where=where, rows=_ROWS):
            yield rows.filter(pc.is_in(rows["document"], value_set=judged))


def _index_rows(table: Table, version: int, sample: Sequence[str] | None) -> Iterator[pa.Table]:
    columns = list(dict.fromkeys([*COLUMNS, "chunk_id", "vector"]))
    for where in _filters(sample):
        for rows in table.scan(columns, where=where, version=version, rows=_ROWS):
            if rows.num_rows:
                yield rows


def _filters(sample: Sequence[str] | None) -> list[str | None]:
    return [None] if sample is None else [is_in("document", some) for some in batches(sample)]


def _name_missing(
    view: View, judged: pa.Array, sample: Sequence[str] | None, expected: _Expected, found: Disagreements
) -> None:
    missing = expected.unseen()
    if len(missing):
        for rows in _chunks(view, judged, sample):
            found.add("a chunk without a row", rows.filter(pa.array(np.isin(_bits(rows["chunk_id"]), missing))))


def _compare_texts(rows: pa.Table, found: Disagreements) -> None:
    pairs = zip(rows["text"].to_pylist(), rows["text_hash"].to_pylist(), strict=True)
    found.add("text that is not that of its hash", rows.filter(pa.array([hash_text(t) != h for t, h in pairs])))


def _vectors(view: View, published: Publication) -> VectorTable | None:
    """Where the vectors of the published index come from; None where their keys cannot be told, because another generation
    is configured."""
    return view.store.vectors(view.generation.embedding) if published.generation == view.generation.id else None


def _compare_vectors(view: View, rows: pa.Table, vectors: VectorTable | None, found: Disagreements) -> None:
    there = _matrix(rows["vector"])
    found.add("a vector without a direction", rows.filter(pa.array(~(abs(np.linalg.norm(there, axis=1) - 1) < _UNIT))))
    if vectors is None:
        return
    keys = vector_keys(view.store, view.corpus, rows).to_pylist()
    positions, stored = vectors.positions(set(keys))
    place = np.array([positions.get(key, -1) for key in keys], np.int64)
    found.not_stored += int((place < 0).sum())
    if not len(stored):
        return
    cosine = np.einsum("ij,ij->i", _matrix(stored)[place], there)
    differs = (place >= 0) & ~(cosine >= _SAME)
    found.add("another vector than the stored one", rows.filter(pa.array(differs)))


def _matrix(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float32]:
    """Vectors as an array of shape (rows, dimensions)."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat: NDArray[np.float32] = whole.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(whole), -1)


def _bits(hashes: pa.ChunkedArray) -> Bits:
    """The first 64 bits of hexadecimal hashes; of anything else, those of its own hash."""
    return np.array([_first_bits(value) for value in hashes.to_pylist()], np.uint64)


def _first_bits(value: str) -> int:
    try:
        return int(value[:16], 16)
    except ValueError:
        return int(hash_text(value)[:16], 16)
