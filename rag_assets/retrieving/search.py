"""A question becomes ranked passages of the published index: vectors, full text, or both fused.

Only `lance` is imported, and only when a search is made: a question in a fresh process is answered quickly. What is done
with the passages is `rag_assets.asking`.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import pyarrow as pa

from rag_assets.config import CorpusSettings
from rag_assets.embedding.provider import EmbeddingProvider, TextRefused, Vectors
from rag_assets.errors import QuestionError
from rag_assets.records import Parent, Passage
from rag_assets.storing.publishing import Publication
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import first_line

T = TypeVar("T", bound=Hashable)
Mode = Literal["hybrid", "vector", "text"]

# Cormack, Clarke and Büttcher (SIGIR 2009) found 60 good on every collection they tried, and so did we on three.
_RRF_K = 60
# Where vectors have an index, so many of its partitions are looked at, and the vectors themselves of what is found there.
# Measured: docs/decisions/0014-vector-index-by-size.md.
PARTITIONS = 20
REFINE = 1
_COLUMNS = [
    "chunk_id",
    "document",
    "ordinal",
    "text",
    "title",
    "source_uri",
    "heading_path",
    "start_char",
    "end_char",
    "start_line",
    "end_line",
    "start_page",
    "end_page",
    "parent_chunk_id",
    "parent",
]


@dataclass(frozen=True)
class Search:
    """What to look for. `where` is a SQL condition on the columns of the index, checked before anything is ranked."""

    query: str
    mode: Mode
    top_k: int
    candidates: int
    where: str | None = None


def search(
    store: Store,
    corpus: CorpusSettings,
    publication: Publication,
    wanted: Search,
    provider: EmbeddingProvider,
    *,
    vector: Vectors | None = None,
) -> list[Passage]:
    """The best `top_k` passages of `publication`, best first. `provider` must be the model that made the publication;
    `vector` is what it made of the query, where that is known already.

    Raises `QuestionError` when `where` is not a condition on the index, and when the model refuses the question.
    """
    if publication.table_version == 0:
        return []
    dataset = store.index(corpus.name, publication.generation, dimensions=1).open(publication.table_version)
    depth = max(wanted.candidates, wanted.top_k)
    rankings: list[pa.Table] = []
    if wanted.mode in ("hybrid", "vector"):
        vector = embed_question(wanted.query, provider) if vector is None else vector
        rankings.append(_nearest(dataset, vector, depth, wanted.where))
    if wanted.mode in ("hybrid", "text"):
        rankings.append(_full_text(dataset, wanted.query, depth, wanted.where))
    similarities = _similarities(rankings)
    rows: dict[str, dict[str, Any]] = {row["chunk_id"]: row for ranking in rankings for row in ranking.to_pylist()}
    scores = (
        fuse([ranking["chunk_id"].to_pylist() for ranking in rankings])
        if len(rankings) > 1
        else _own_scores(rankings[0])
    )
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[: wanted.top_k]
    return [_passage(corpus.name, rows[chunk_id], score, similarities.get(chunk_id)) for chunk_id, score in best]


def embed_question(query: str, provider: EmbeddingProvider) -> Vectors:
    """The vector of a question, of shape (dimensions,). Raises `QuestionError` when the model refuses it."""
    try:
        vector: Vectors = provider.embed([query], "query").vectors[0]
    except TextRefused as error:
        said = " ".join(str(error).split())
        raise QuestionError(f"{provider.name} refuses the question: {said}; ask something shorter, or other") from error
    return vector


def fuse(rankings: Sequence[Sequence[T]]) -> dict[T, float]:
    """Reciprocal rank fusion: an item scores the sum of 1 / (60 + rank) over the rankings that hold it, ranks from 1."""
    scores: dict[T, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (_RRF_K + rank)
    return scores


def fuse_corpora(rankings: Sequence[Sequence[Passage]]) -> list[Passage]:
    """The passages of several corpora in one ranking. Scores of different corpora and models cannot be compared, so ranks
    are fused; the score of a passage becomes 1 / (60 + its rank), and the corpus that comes first wins a tie."""
    by_place = {(passage.corpus, passage.chunk_id): passage for ranking in rankings for passage in ranking}
    scores = fuse([[(passage.corpus, passage.chunk_id) for passage in ranking] for ranking in rankings])
    return [replace(by_place[place], score=score) for place, score in sorted(scores.items(), key=lambda item: -item[1])]


def _nearest(dataset: Any, vector: Vectors, depth: int, where: str | None) -> pa.Table:
    nearest = {
        "column": "vector",
        "q": vector,
        "k": depth,
        "metric": "cosine",
        "nprobes": PARTITIONS,
        "refine_factor": REFINE,
    }
    return _scan(dataset, [*_COLUMNS, "_distance"], where, nearest=nearest)


def _full_text(dataset: Any, query: str, depth: int, where: str | None) -> pa.Table:
    from lance.query import MatchQuery

    words = MatchQuery(query, "text")
    return _scan(dataset, [*_COLUMNS, "_score"], where, full_text_query=words, limit=depth)


def _scan(dataset: Any, columns: list[str], where: str | None, **how: Any) -> pa.Table:
    known = {*dataset.schema.names, "_distance", "_score"}
    columns = [name for name in columns if name in known]  # an earlier version of the code published fewer
    try:
        return dataset.scanner(columns=columns, filter=where, prefilter=where is not None, **how).to_table()
    except (ValueError, OSError) as error:
        if where is None:
            raise
        names = ", ".join(name for name in dataset.schema.names if name != "vector")
        raise QuestionError(
            f"the condition {where!r} cannot be applied: {first_line(error)}. It is SQL on the columns {names}, such as:"
            " document LIKE 'guide/%'"
        ) from None


def _own_scores(ranking: pa.Table) -> dict[str, float]:
    ids = ranking["chunk_id"].to_pylist()
    if "_distance" in ranking.column_names:
        return dict(zip(ids, (1.0 - distance for distance in ranking["_distance"].to_pylist()), strict=True))
    return dict(zip(ids, ranking["_score"].to_pylist(), strict=True))


def _similarities(rankings: Sequence[pa.Table]) -> Mapping[str, float]:
    for ranking in rankings:
        if "_distance" in ranking.column_names:
            return _own_scores(ranking)
    return {}


def _passage(corpus: str, row: Mapping[str, Any], score: float, similarity: float | None) -> Passage:
    values: dict[str, Any] = {name: row.get(name) for name in _COLUMNS}
    values["heading_path"] = tuple(row["heading_path"] or ())
    values["parent"] = Parent(**row["parent"]) if row.get("parent") else None
    return Passage(**values, score=score, similarity=similarity, corpus=corpus)
