"""Vectors that nothing needs any more: they are noted when that is first seen, and deleted when it stayed so for long.

A vector is needed while the text that it stands for is a chunk of any corpus, configured or not, or a row of an index
version that is kept. What counts is how long it has not been needed, not how old it is: a document that was embedded
years ago and removed yesterday may come back tomorrow. Where the keys of a corpus cannot be told, all vectors of its model
stay.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_assets.config import CorpusSettings
from rag_assets.embedding.providers import embedding_identity
from rag_assets.fingerprints import fingerprint
from rag_assets.materializing.embedded_texts import COLUMNS, embedded_texts
from rag_assets.records import UNNEEDED
from rag_assets.storing.listing import folders_in, tables_in
from rag_assets.storing.publishing import latest_publication
from rag_assets.storing.retention import tagged_publications
from rag_assets.storing.stores import Store

if TYPE_CHECKING:
    import lance

Keys = NDArray[np.uint64]
"""The first 64 bits of hashes, sorted. Two texts that share them keep each other's vector, which harms nobody."""

_ROWS = 4_096


@dataclass(frozen=True)
class ForgottenVectors:
    """What became of the vectors of a model: `unneeded` are noted and wait. `kept_because` says why none were looked at."""

    deleted: int = 0
    unneeded: int = 0
    kept_because: str | None = None


def forget_unneeded_vectors(
    store: Store, corpora: Mapping[str, CorpusSettings], embedding: str, *, now: datetime
) -> ForgottenVectors:
    """Delete the vectors of the model `embedding` (a fingerprint) that nothing has needed for `retention.vectors_days`,
    the longest of all `corpora`, which are those configured."""
    days = [corpus.retention.vectors_days for corpus in corpora.values()]
    longest = None if None in days else max(day for day in days if day is not None)
    if longest is None:
        return ForgottenVectors(kept_because="retention.vectors_days is null")
    with store.lock(f"forgetting.{embedding[:16]}"):
        doubt = _doubt(store, corpora, embedding)
        if doubt:
            return ForgottenVectors(kept_because=doubt)
        noted = store.unneeded_vectors(embedding)
        waiting = _waiting(store, embedding, noted.read(), needed_keys(store, corpora), now=now)
        moment = pa.scalar(now - timedelta(days=longest), UNNEEDED.field("since").type)
        is_old = pc.less_equal(waiting["since"], moment)
        old = waiting.filter(is_old)["text_hash"].combine_chunks()
        deleted = 0
        if len(old):
            # Once more: a run may have come to need some of them meanwhile.
            old = old.filter(pc.invert(_is_among(old, needed_keys(store, corpora))))
            deleted = store.vectors(embedding).forget(old.to_pylist())
        left = waiting.filter(pc.invert(is_old))
        if left.num_rows or noted.exists():
            noted.overwrite(left)
            noted.clean_up()
        return ForgottenVectors(deleted=deleted, unneeded=left.num_rows)


def needed_keys(store: Store, corpora: Mapping[str, CorpusSettings]) -> Keys:
    """The keys of the texts of all chunks, and of all rows of the index versions that are kept."""
    parts = [_keys(pa.array([], pa.string()))]
    for name in folders_in(store.corpus_uri("")):
        parts += [_keys(hashes) for hashes in _hashes_of(store, name, corpora.get(name))]
    return np.unique(np.concatenate(parts))


def _hashes_of(store: Store, name: str, corpus: CorpusSettings | None) -> Iterator[pa.Array]:
    chunks = store.chunks(name).open_existing()
    if chunks is not None:
        template = corpus.embed_template if corpus else None
        for batch in chunks.to_batches(columns=list(COLUMNS), batch_size=_ROWS):
            yield batch["text_hash"]
            if corpus and template is not None:
                keys, _ = embedded_texts(store, corpus, pa.Table.from_batches([batch]))
                yield pa.array(keys, pa.string())
    for generation in generations_in(store, name):
        table = store.index(name, generation, dimensions=1)
        versions = sorted({version for version, _ in tagged_publications(table).values()})
        seen: set[int] = set()
        # A fragment loses rows and never gains any: what an older version had of it holds what a newer one has.
        for dataset in (*map(table.open, versions), table.open()):
            yield from _hashes_in(dataset, seen)


def _hashes_in(dataset: "lance.LanceDataset", seen: set[int]) -> Iterator[pa.Array]:
    """The hashes of the texts in the fragments that are not `seen` yet, which they are then."""
    for fragment in dataset.get_fragments():
        if fragment.fragment_id not in seen:
            seen.add(fragment.fragment_id)
            for batch in fragment.to_batches(columns=["text_hash"]):
                yield batch["text_hash"]


def generations_in(store: Store, corpus: str) -> list[str]:
    """The generations of which `corpus` has an index table."""
    prefix = "index_"
    return [name.removeprefix(prefix) for name in tables_in(store.corpus_uri(corpus)) if name.startswith(prefix)]


def _doubt(store: Store, corpora: Mapping[str, CorpusSettings], embedding: str) -> str | None:
    """Why it cannot be told which vectors a corpus needs, or None: what is not configured may have been embedded with a
    template, and then its keys are not the hashes of its chunks."""
    for name in folders_in(store.corpus_uri("")):
        published = None if name in corpora else latest_publication(store, name)
        if name in corpora or (published and fingerprint(embedding_identity(published.embedding)) != embedding):
            continue
        chunks = store.chunks(name).read(["text_hash"])["text_hash"].unique()
        if len(store.vectors(embedding).known(chunks.to_pylist())) < len(chunks):
            return (
                f"corpus {name} is not configured, and has chunks whose vectors cannot be told; configure it again, or"
                f" delete it: rag-assets purge {name}"
            )
    return None


def _waiting(store: Store, embedding: str, noted: pa.Table, needed: Keys, *, now: datetime) -> pa.Table:
    """The vectors that nothing needs, and since when that is known."""
    parts = [UNNEEDED.empty_table()]
    for hashes in store.vectors(embedding).text_hashes():
        column = pa.array(hashes, pa.string()).unique()
        unneeded = column.filter(pc.invert(_is_among(column, needed)))
        place = pc.index_in(unneeded, value_set=noted["text_hash"].combine_chunks())
        since = pc.fill_null(noted["since"].combine_chunks().take(place), pa.scalar(now, UNNEEDED.field("since").type))
        parts.append(pa.table([unneeded, since], schema=UNNEEDED))
    # Equal texts that two runs embedded at once are two rows.
    return pa.concat_tables(parts).group_by("text_hash").aggregate([("since", "min")]).rename_columns(UNNEEDED.names)


def _keys(hashes: pa.Array) -> Keys:
    return np.unique(np.array([int(value[:16], 16) for value in hashes.to_pylist()], dtype=np.uint64))


def _is_among(hashes: pa.Array, keys: Keys) -> pa.Array:
    values = np.array([int(value[:16], 16) for value in hashes.to_pylist()], dtype=np.uint64)
    if not len(keys):
        return pa.array(np.zeros(len(values), dtype=bool))
    # Not `np.isin`, which makes `keys` unique once more in each call: ten minutes for 1,000,000 vectors.
    place = np.searchsorted(keys, values)
    return pa.array(keys[np.minimum(place, len(keys) - 1)] == values)
