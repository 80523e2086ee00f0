"""How well the platform's search ranks the records of test collections, beside BM25 in the same run.

One record is one document and one chunk, so chunking plays no part. Also
`python -m rag_assets_tests.benchmarks.retrieval_quality`, which prints one table and can be kept small.
"""

import argparse
import csv
import functools
import importlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from rag_assets.config import (
    ChunkingSettings,
    EmbeddingSettings,
    HashingEmbedding,
    LateInteractionRerank,
    LocalEmbedding,
)
from rag_assets.records import Passage
from rag_assets.reranking.reordering import reorder
from rag_assets.retrieving.search import Mode
from rag_assets_tests.benchmarks.answers import NDCG, Ranking, Relevant, Scores, mean, scores_of
from rag_assets_tests.benchmarks.kept_vectors import quality_workbench, vectors_folder
from rag_assets_tests.benchmarks.measuring import REPOSITORY
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.benchmarks.tables import markdown_table

COLLECTIONS = REPOSITORY.parent / "shared" / "ir"
_TITLE = "Retrieval: nDCG@10 of test collections"
_BM25 = "bm25s"
_DEPTH = 10
_RERANK = LateInteractionRerank(timeout_seconds=600)
_WHOLE = ChunkingSettings(strategy="fixed_size", max_tokens=100_000, overlap_tokens=0)


@dataclass(frozen=True)
class Collection:
    """Texts by record, questions by id, and the grade of each relevant record by question."""

    texts: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Relevant]


_MADE_UP = Collection(
    texts={
        "grimsel": "Grimsel\nThe pass is closed from November to May.",
        "furka": "Furka\nThe pass is 2,429 metres high, and a bus goes there.",
        "oeschinen": "Oeschinen\nRowing boats are for hire at the lake.",
        "empty": "",
    },
    queries={"closed": "closed in November", "boats": "rowing boats for hire"},
    relevant={"closed": {"grimsel": 1}, "boats": {"oeschinen": 1}},
)


def load_collection(folder: Path, *, queries: int | None = None) -> Collection:
    """Read a collection in the layout of BEIR; `queries` takes only the first so many of those with a relevant record."""
    records = _lines(folder / "corpus.jsonl")
    relevant: dict[str, dict[str, int]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            relevant.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    asked = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl") if row["_id"] in relevant}
    asked = dict(list(asked.items())[:queries])
    return Collection(
        texts={row["_id"]: f"{row.get('title') or ''}\n{row['text']}".strip() for row in records},
        queries=asked,
        relevant={query: relevant[query] for query in asked},
    )


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measure(folder: Path, collection: Collection, embedding: EmbeddingSettings) -> Mapping[str, Scores]:
    """The scores of each search mode, and of BM25 where bm25s is installed, with tables below `folder`."""
    rankings = _search(folder, collection, embedding)
    if bm25 := _bm25(collection):
        rankings[_BM25] = bm25
    return {how: scores_of(found, collection.relevant) for how, found in rankings.items()}


def _search(folder: Path, collection: Collection, embedding: EmbeddingSettings) -> dict[str, Mapping[str, Ranking]]:
    pages = folder / "records"
    pages.mkdir(parents=True)
    bench = quality_workbench(
        folder / "home", pages=pages, vectors=vectors_folder(folder.parent), chunking=_WHOLE, embedding=embedding
    )
    record_of = {f"{number:06}.txt": record for number, record in enumerate(collection.texts)}
    for name, record in record_of.items():
        bench.write(name, collection.texts[record])
    bench.materialize(*record_of)
    bench.publish()

    def ranked(find: Callable[[str], Sequence[Passage]]) -> Mapping[str, Ranking]:
        return {
            query: [record_of[passage.document] for passage in find(text)[:_DEPTH]]
            for query, text in collection.queries.items()
        }

    def reranked(text: str) -> Sequence[Passage]:
        return reorder(_RERANK, text, bench.search(text, top_k=_RERANK.candidates))[0]

    by_mode = {mode: ranked(functools.partial(bench.search, mode=mode, top_k=_DEPTH)) for mode in get_args(Mode)}
    return {**by_mode, f"hybrid, {_RERANK.provider}": ranked(reranked)}


def _bm25(collection: Collection) -> Mapping[str, Ranking] | None:
    """The rankings of bm25s with its defaults, English stems and stop words; None where it is not installed."""
    try:
        bm25s, stemmer = importlib.import_module("bm25s"), importlib.import_module("Stemmer").Stemmer("english")
    except ImportError:
        return None

    def tokens(texts: Sequence[str]) -> object:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    records = list(collection.texts)
    index = bm25s.BM25()
    index.index(tokens(list(collection.texts.values())), show_progress=False)
    depth = min(_DEPTH, len(records))
    found, scores = index.retrieve(tokens(list(collection.queries.values())), k=depth, show_progress=False)
    return {
        query: [records[place] for place, score in zip(found[row], scores[row], strict=True) if score > 0]
        for row, query in enumerate(collection.queries)
    }


def missing_collections(size: Size) -> str | None:
    """Why there is nothing to measure with, or None. The tiny one is made up."""
    if size == "tiny" or COLLECTIONS.is_dir():
        return None
    return f"{COLLECTIONS.relative_to(REPOSITORY.parent)} is not beside the repository"


def run(size: Size, folder: Path) -> Report:
    if why := missing_collections(size):
        return Report("retrieval_quality", _TITLE, skipped=why)
    if size == "tiny":
        found = {"made up": measure(folder / "made up", _MADE_UP, HashingEmbedding(provider="hashing"))}
    else:
        found = _full(folder, names=_names(), queries=None)
    return Report(
        name="retrieval_quality",
        title=_TITLE,
        figures=[
            _figure(f"{name}: {mode}", scores, by_how.get(_BM25))
            for name, by_how in found.items()
            for mode, scores in by_how.items()
            if mode != _BM25
        ],
        notes=["One record is one document and one chunk; the platform's own search, 100 candidates of each kind."],
    )


def _figure(what: str, scores: Scores, bm25: Scores | None) -> Figure:
    value = 100 * mean(scores, NDCG)
    if bm25 is None:
        return Figure(what, value, "%")
    other = 100 * mean(bm25, NDCG)
    goal = Goal("at least", round(other, 1)) if ": hybrid" in what else None
    return Figure(what, value, "%", Baseline(_BM25, other), goal)


def _names() -> list[str]:
    return sorted(file.parent.name for file in COLLECTIONS.glob("*/corpus.jsonl"))


def _full(folder: Path, *, names: Sequence[str], queries: int | None) -> dict[str, Mapping[str, Scores]]:
    return {
        name: measure(folder / name, load_collection(COLLECTIONS / name, queries=queries), LocalEmbedding())
        for name in names
    }


def as_table(found: Mapping[str, Mapping[str, Scores]]) -> str:
    """nDCG@10 as a Markdown table: a way of searching a row, a collection a column."""
    ways = list(next(iter(found.values())))
    rows = [["nDCG@10", *found]]
    rows += [[way, *(f"{mean(by_way[way], NDCG):.3f}" for by_way in found.values())] for way in ways]
    rows.append(["queries", *(str(len(by_way[ways[0]][NDCG])) for by_way in found.values())])
    return markdown_table(rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m rag_assets_tests.benchmarks.retrieval_quality", description=__doc__
    )
    parser.add_argument("--queries", type=int, metavar="N", help="only the first N queries of each collection")
    parser.add_argument("--collections", nargs="+", metavar="NAME", help="only these, by the names of their folders")
    asked = parser.parse_args()
    if why := missing_collections("full"):
        parser.error(why)
    with tempfile.TemporaryDirectory(prefix="retrieval-quality-") as folder:
        print(as_table(_full(Path(folder), names=asked.collections or _names(), queries=asked.queries)))


if __name__ == "__main__":
    main()
