"""How long a question takes in an index of ten thousand rows to a million, and what its vector index misses.

`python -m rag_assets_tests.benchmarks --only index_sizes` prints it. Vectors lie in clusters, as those of texts do: a
mixture of Gaussians in 32 dimensions, turned into 384 with some noise. Questions are drawn as the rows were.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_assets.config import CorpusSettings, HashingEmbedding
from rag_assets.embedding.provider import Vectors
from rag_assets.embedding.providers import make_provider
from rag_assets.records import index_schema
from rag_assets.retrieving.search import PARTITIONS, REFINE, Mode, Search, search
from rag_assets.storing.publishing import Publication
from rag_assets.storing.search_indices import IndexHealth, keep_search_indices
from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.measuring import peak_memory, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.workbench import CORPUS

_ROWS = {"tiny": (300,), "full": (10_000, 100_000, 1_000_000)}
_QUESTIONS = {"tiny": 3, "full": 100}
_SCANS = 7
_DIMENSIONS = 384
_LATENT = 32
_CLUSTERS = 2_000
_ROWS_AT_ONCE = 20_000
_WORDS = [f"word{number}" for number in range(5_000)]
_WORDS_A_ROW = 20
_CANDIDATES = 100
_DEPTH = 10
_GENERATION = "measured"


def run(size: Size, folder: Path) -> Report:
    figures, notes = [], []
    for rows in _ROWS[size]:
        made = _Collection(Store(str(folder / str(rows))), rows, _QUESTIONS[size])
        figures += made.figures()
        kind = made.health.vector_index or "no vector index"
        notes.append(
            f"{rows:,} rows: {kind}; search indices built in {made.build_seconds:.0f} s; peak memory so far"
            f" {peak_memory() / 2**30:.1f} GiB."
        )
    return Report(
        name="index_sizes",
        title="A question in an index of each size",
        figures=figures,
        notes=[
            f"{_DIMENSIONS} dimensions, {_QUESTIONS[size]} questions whose vectors are known, {_CANDIDATES} candidates, wall"
            " time in a warm process; ours and the bare calls in turn. The bare calls are LanceDB's with the same settings,"
            f" as Arrow, not fused. Recall is that of the first {_DEPTH} of a vector search.",
            *notes,
        ],
    )


@dataclass
class _Collection:
    """An index of so many rows, and questions to it."""

    store: Store
    rows: int
    questions: int
    build_seconds: float = 0.0
    health: IndexHealth = field(default_factory=lambda: IndexHealth(0, 0))

    def __post_init__(self) -> None:
        corpus = CorpusSettings(name=CORPUS, source=".", embedding=HashingEmbedding(provider="hashing"))
        self.corpus = corpus
        self.table = self.store.index(CORPUS, _GENERATION, dimensions=_DIMENSIONS)
        draw = _Mixture()
        self.vectors = draw(self.questions, np.random.default_rng(2))
        self.queries = [" ".join(np.random.default_rng(n).choice(_WORDS, 3)) for n in range(self.questions)]
        self.truth = self._fill(draw)
        self.build_seconds = wall_seconds(lambda: setattr(self, "health", keep_search_indices(self.table)))
        self.publication = Publication(
            version=1,
            generation=_GENERATION,
            table_version=int(self.table.open().version),
            published_at=datetime.now(UTC),
            run_id="",
            documents=self.rows,
            chunks=self.rows,
            embedding=corpus.embedding,
        )

    def _fill(self, draw: "_Mixture") -> Sequence[set[str]]:
        """Write the rows, and return the ids of those that are nearest to each question."""
        rng = np.random.default_rng(1)
        best = np.full((self.questions, _DEPTH), -2.0)
        nearest = np.zeros((self.questions, _DEPTH), dtype=np.int64)
        for start in range(0, self.rows, _ROWS_AT_ONCE):
            vectors = draw(min(_ROWS_AT_ONCE, self.rows - start), rng)
            self.table.append(_rows(start, vectors, rng))
            scores = np.hstack([best, self.vectors @ vectors.T])
            numbers = np.hstack([nearest, np.tile(np.arange(start, start + len(vectors)), (self.questions, 1))])
            first = np.argsort(-scores, axis=1)[:, :_DEPTH]
            best, nearest = (np.take_along_axis(values, first, axis=1) for values in (scores, numbers))
        self.table.compact(more_than_fragments=20)
        return [{_chunk_id(number) for number in row} for row in nearest.tolist()]

    def figures(self) -> list[Figure]:
        bare_vector, bare_text = self._bare()
        ours: dict[Mode, list[float]] = {"vector": [], "hybrid": []}
        bare: dict[Mode, list[float]] = {"vector": [], "hybrid": []}
        found = 0
        for number in range(-2, self.questions):  # the first two warm everything up
            for mode in ours:
                seconds = wall_seconds(lambda mode=mode, number=number: self._ours(mode, number))  # type: ignore[misc]
                plain = wall_seconds(lambda number=number: bare_vector(number))  # type: ignore[misc]
                if mode == "hybrid":
                    plain += wall_seconds(lambda number=number: bare_text(number))  # type: ignore[misc]
                if number >= 0:
                    ours[mode].append(1000 * seconds)
                    bare[mode].append(1000 * plain)
            found += len(self.truth[number] & set(self._ours("vector", number))) if number >= 0 else 0
        scan = self._scan_ms()
        figures = [
            Figure(
                f"{self.rows:,} rows, recall@{_DEPTH}",
                found / self.questions / _DEPTH,
                "of the nearest",
                goal=Goal("at least", 0.95),
            ),
            Figure(
                f"{self.rows:,} rows, vector p95",
                float(np.percentile(ours["vector"], 95)),
                "ms",
                Baseline("exact scan, p50", scan),
            ),
        ]
        for mode in ours:
            plain_p50 = float(np.median(bare[mode]))
            figures.append(
                Figure(
                    f"{self.rows:,} rows, {mode} p50",
                    float(np.median(ours[mode])),
                    "ms",
                    Baseline("bare LanceDB, p50", plain_p50),
                    Goal("at most", round(1.3 * plain_p50, 1)),
                )
            )
        return figures

    def _ours(self, mode: Mode, number: int) -> Sequence[str]:
        wanted = Search(self.queries[number], mode, top_k=_DEPTH, candidates=_CANDIDATES)
        provider = make_provider(self.corpus.embedding)
        found = search(
            self.store, self.corpus, self.publication, wanted, provider, vector=self.vectors[number].astype(np.float32)
        )
        return [passage.chunk_id for passage in found]

    def _bare(self) -> tuple[Callable[[int], pa.Table], Callable[[int], pa.Table]]:
        """LanceDB's own vector and full-text search of a table that is open already."""
        import lancedb

        folder, _, name = self.table.uri.rpartition("/")
        handle = lancedb.connect(folder).open_table(name.removesuffix(".lance"))
        columns = [column for column in handle.schema.names if column != "vector"]

        def by_vector(number: int) -> pa.Table:
            query: Any = handle.search(self.vectors[number])
            query = query.distance_type("cosine").nprobes(PARTITIONS).refine_factor(REFINE)
            return query.limit(_CANDIDATES).select([*columns, "_distance"]).to_arrow()

        def by_text(number: int) -> pa.Table:
            query = handle.search(self.queries[number], query_type="fts").limit(_CANDIDATES)
            return query.select([*columns, "_score"]).to_arrow()

        return by_vector, by_text

    def _scan_ms(self) -> float:
        dataset = self.table.open()

        def scan(number: int) -> None:
            nearest = {"column": "vector", "q": self.vectors[number], "k": _CANDIDATES, "metric": "cosine"}
            dataset.scanner(columns=["chunk_id", "_distance"], nearest={**nearest, "use_index": False}).to_table()

        numbers = range(min(_SCANS, self.questions))
        return 1000 * float(np.median([wall_seconds(lambda n=n: scan(n)) for n in numbers]))  # type: ignore[misc]


class _Mixture:
    """Draws unit vectors of shape (count, dimensions)."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self._centres = rng.normal(size=(_CLUSTERS, _LATENT)).astype(np.float32)
        self._turn = rng.normal(size=(_LATENT, _DIMENSIONS)).astype(np.float32)

    def __call__(self, count: int, rng: np.random.Generator) -> Vectors:
        centres = self._centres[rng.integers(0, _CLUSTERS, count)]
        inner = centres + 0.6 * rng.normal(size=centres.shape).astype(np.float32)
        found = inner @ self._turn + 0.6 * rng.normal(size=(count, _DIMENSIONS)).astype(np.float32)
        unit: Vectors = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
        return unit


def _rows(start: int, vectors: Vectors, rng: np.random.Generator) -> pa.Table:
    """Index rows with those vectors; a document a row, its words drawn so that few of them are frequent."""
    numbers = range(start, start + len(vectors))
    places = np.minimum(rng.zipf(1.3, size=(len(vectors), _WORDS_A_ROW)) - 1, len(_WORDS) - 1)
    columns = {
        "chunk_id": pa.array([_chunk_id(number) for number in numbers]),
        "document": pa.array([f"{number:07}.md" for number in numbers]),
        "text": pa.array([" ".join(_WORDS[place] for place in row) for row in places.tolist()]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), _DIMENSIONS),
    }
    schema = index_schema(_DIMENSIONS)
    blank = pa.nulls(len(vectors))
    return pa.table([columns[f.name] if f.name in columns else blank.cast(f.type) for f in schema], schema)


def _chunk_id(number: int) -> str:
    return f"{number:07}"
