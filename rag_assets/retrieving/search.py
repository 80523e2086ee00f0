"""A question becomes ranked passages of the published index: vectors, full text, or both fused.

Only `lance` is imported, and only when a search is made: a question in a fresh process is answered quickly. What is done
with the passages is `rag_assets.asking`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from rag_assets.config import CorpusSettings, RetrievalSettings
from rag_assets.embedding.provider import EmbeddingProvider, TextRefused, Vectors
from rag_assets.errors import QuestionError, StoreError
from rag_assets.records import Parent, Passage
from rag_assets.retrieving.collapsing import collapse
from rag_assets.retrieving.conditions import condition_of
from rag_assets.retrieving.filters import Filter, parse_filters
from rag_assets.retrieving.fusing import fuse
from rag_assets.storing.publishing import Publication
from rag_assets.storing.search_indices import searched_column
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import first_line, is_in

if TYPE_CHECKING:
    import lance

Mode = Literal["hybrid", "vector", "text"]

# Where vectors have an index, so many of its partitions are looked at, and the vectors themselves of what is found there.
# Measured: docs/decisions/0014-vector-index-by-size.md.
PARTITIONS = 20
REFINE = 1
# As long as passages are collapsed to fewer than are wanted, so many times more are looked at, up to a limit.
_DEEPER = 4
_DEEPEST = 10_000
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
    """What to look for. `where`, a SQL condition on the columns of the index, and `filters` hold before anything is ranked;
    they come before the filters of the corpus on the same fields."""

    query: str
    mode: Mode
    top_k: int
    candidates: int
    where: str | None = None
    filters: Sequence[Filter] = ()


def search(
    store: Store,
    corpus: CorpusSettings,
    publication: Publication,
    wanted: Search,
    provider: EmbeddingProvider,
    *,
    vector: Vectors | None = None,
) -> list[Passage]:
    """The best `top_k` passages of `publication`, best first, near-duplicates collapsed as `corpus` says. `provider` must be
    the model that made the publication; `vector` is what it made of the query, where that is known already.

    Raises `QuestionError` when `where` or a filter is not a condition on the index, and when the model refuses the question.
    """
    if publication.table_version == 0:
        return []
    dataset = _open(store, corpus, publication)
    settings = corpus.retrieval
    condition = condition_of(
        dataset, corpus.name, where=wanted.where, filters=wanted.filters, defaults=parse_filters(settings.filters)
    )
    if vector is None and weighs(settings, wanted.mode, "vector"):
        vector = embed_question(wanted.query, provider)
    depth = max(wanted.candidates, wanted.top_k)
    while True:
        found = _ranked(dataset, corpus, wanted, vector=vector, condition=condition, depth=depth)
        passages = found
        if settings.collapse is not None:
            passages = collapse(found, threshold=settings.collapse, at_most=wanted.top_k)
        if len(passages) >= wanted.top_k or len(found) < depth or depth >= _DEEPEST:
            return passages[: wanted.top_k]
        depth = min(depth * _DEEPER, _DEEPEST)


def vectors_of(
    store: Store, corpus: CorpusSettings, publication: Publication, passages: Sequence[Passage]
) -> dict[str, Vectors]:
    """The vectors of `passages`, which were found in `publication`, by chunk id; each of shape (dimensions,)."""
    if not passages:
        return {}
    where = " AND ".join(
        is_in(column, sorted({getattr(passage, column) for passage in passages})) for column in ("document", "chunk_id")
    )
    rows = _open(store, corpus, publication).to_table(columns=["chunk_id", "vector"], filter=where)
    vectors = np.array(rows["vector"].combine_chunks().flatten(), np.float32).reshape(rows.num_rows, -1)
    return dict(zip(rows["chunk_id"].to_pylist(), vectors, strict=True))


def weighs(settings: RetrievalSettings, mode: Mode, kind: Literal["vector", "text"]) -> bool:
    """Whether the search of this kind has a say in the order."""
    weight: float = getattr(settings.weights, kind)
    return mode == kind or (mode == "hybrid" and weight > 0)


def embed_question(query: str, provider: EmbeddingProvider) -> Vectors:
    """The vector of a question, of shape (dimensions,). Raises `QuestionError` when the model refuses it."""
    try:
        vector: Vectors = provider.embed([query], "query").vectors[0]
    except TextRefused as error:
        said = " ".join(str(error).split())
        raise QuestionError(f"{provider.name} refuses the question: {said}; ask something shorter, or other") from error
    return vector


def _open(store: Store, corpus: CorpusSettings, publication: Publication) -> "lance.LanceDataset":
    return store.index(corpus.name, publication.generation, dimensions=1).open(publication.table_version)


def _ranked(
    dataset: "lance.LanceDataset",
    corpus: CorpusSettings,
    wanted: Search,
    *,
    vector: Vectors | None,
    condition: str | None,
    depth: int,
) -> list[Passage]:
    """What the searches find that have a say, the best `depth` of each, in one order."""
    settings = corpus.retrieval
    rankings: list[pa.Table] = []
    weights: list[float] = []
    if vector is not None and weighs(settings, wanted.mode, "vector"):
        rankings.append(_nearest(dataset, vector, depth, wanted.where, condition))
        weights.append(settings.weights.vector)
    if weighs(settings, wanted.mode, "text"):
        rankings.append(_full_text(dataset, wanted.query, depth, wanted.where, condition))
        weights.append(settings.weights.text)
    similarities, text_scores = _scores_of(rankings, "_distance"), _scores_of(rankings, "_score")
    rows: dict[str, dict[str, Any]] = {row["chunk_id"]: row for ranking in rankings for row in ranking.to_pylist()}
    scores = (
        fuse([ranking["chunk_id"].to_pylist() for ranking in rankings], weights=weights, rrf_k=settings.rrf_k)
        if len(rankings) > 1
        else _own_scores(rankings[0])
    )
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [
        _passage(corpus.name, rows[chunk_id], score, similarities.get(chunk_id), text_scores.get(chunk_id))
        for chunk_id, score in best
    ]


def _nearest(
    dataset: "lance.LanceDataset", vector: Vectors, depth: int, where: str | None, condition: str | None
) -> pa.Table:
    nearest = {
        "column": "vector",
        "q": vector,
        "k": depth,
        "metric": "cosine",
        "nprobes": PARTITIONS,
        "refine_factor": REFINE,
    }
    return _scan(dataset, [*_COLUMNS, "_distance"], where, condition, nearest=nearest)


def _full_text(
    dataset: "lance.LanceDataset", query: str, depth: int, where: str | None, condition: str | None
) -> pa.Table:
    from lance.query import MatchQuery

    words = MatchQuery(query, searched_column(dataset))
    return _scan(dataset, [*_COLUMNS, "_score"], where, condition, full_text_query=words, limit=depth)


def _scan(
    dataset: "lance.LanceDataset", columns: list[str], where: str | None, condition: str | None, **how: Any
) -> pa.Table:
    """The rows for which `condition` is true; of it, `where` is what a person wrote."""
    known = {*dataset.schema.names, "_distance", "_score"}
    columns = [name for name in columns if name in known]  # an earlier version of the code published fewer
    try:
        return dataset.scanner(columns=columns, filter=condition, prefilter=condition is not None, **how).to_table()
    except (ValueError, OSError) as error:
        if where is None:
            raise StoreError(
                f"the index {dataset.uri} cannot be searched: {first_line(error)[:200]}. rag-assets doctor tells what is"
                " damaged, and rag-assets doctor --fix mends it"
            ) from error
        names = ", ".join(name for name in dataset.schema.names if name != "vector")
        shown, said = where if len(where) <= 200 else f"{where[:200]} …", first_line(error)[:300]
        raise QuestionError(
            f"the condition {shown!r} cannot be applied: {said}. It is SQL on the columns {names}, such as: document LIKE"
            " 'guide/%'"
        ) from None


def _own_scores(ranking: pa.Table) -> dict[str, float]:
    ids = ranking["chunk_id"].to_pylist()
    if "_distance" in ranking.column_names:
        return dict(zip(ids, (1.0 - distance for distance in ranking["_distance"].to_pylist()), strict=True))
    return dict(zip(ids, ranking["_score"].to_pylist(), strict=True))


def _scores_of(rankings: Sequence[pa.Table], column: str) -> Mapping[str, float]:
    """The scores of the ranking that has `column`, none where no ranking has."""
    return next((_own_scores(ranking) for ranking in rankings if column in ranking.column_names), {})


def _passage(
    corpus: str, row: Mapping[str, Any], score: float, similarity: float | None, text_score: float | None
) -> Passage:
    values: dict[str, Any] = {name: row.get(name) for name in _COLUMNS}
    values["heading_path"] = tuple(row["heading_path"] or ())
    values["parent"] = Parent(**row["parent"]) if row.get("parent") else None
    return Passage(**values, score=score, similarity=similarity, text_score=text_score, corpus=corpus)
