"""Which chunking strategy finds the passage that answers, with embedder and retrieval fixed.

Also `python -m rag_assets_tests.benchmarks.chunking_quality`, which prints every measure and can be kept small.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets.chunking.chunks import STRATEGIES
from rag_assets.config import ChunkingSettings, EmbeddingSettings, HashingEmbedding, LocalEmbedding
from rag_assets.retrieving.parents import read_parents
from rag_assets.tokenizing import count_tokens
from rag_assets_tests.benchmarks.answers import (
    NDCG,
    RECALL,
    RECIPROCAL_RANK,
    Scores,
    answer_rank,
    difference,
    mean,
    phrases_in,
    scores_of_ranks,
)
from rag_assets_tests.benchmarks.corpora import PAGES, missing_pages
from rag_assets_tests.benchmarks.kept_vectors import quality_workbench, vectors_folder
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.benchmarks.tables import markdown_table
from rag_assets_tests.questions import FASTAPI, Question, load_questions
from rag_assets_tests.workbench import Workbench

_TITLE = "Chunking: is the passage that answers among the first?"
_DEPTH = 20
_READ = 5
_MADE_UP = {
    "passes.md": "# Passes\n\n## Grimsel\n\nThe Grimsel is closed from November to May.\n\n"
    "## Furka\n\nThe Furka is 2,429 metres high, and a bus goes there.\n",
    "lakes.md": "# Lakes\n\n## Oeschinen\n\nRowing boats are for hire at the Oeschinen.\n",
}
_MADE_UP_QUESTIONS = [
    Question("closed", "When is the Grimsel closed?", "passes.md", ("from November to May",)),
    Question("height", "How high is the Furka?", "passes.md", ("2,429 metres",)),
    Question("boats", "Where are rowing boats for hire?", "lakes.md", ("at the Oeschinen",)),
    Question("bread", "How is bread baked?", None),
]


@dataclass(frozen=True)
class Quality:
    """How one strategy did. Tokens count in the tokenizer of the chunking settings.

    `whole` is the share of questions whose answer is in one passage, found or not; `tokens_read` what the first five
    passages hold together on average, parents in place of their children.
    """

    chunks: int
    mean_tokens: float
    whole: float
    tokens_read: float
    scores: Scores


def measure(
    folder: Path,
    *,
    pages: Path,
    names: Sequence[str],
    questions: Sequence[Question],
    embedding: EmbeddingSettings,
    strategies: Sequence[str],
) -> Mapping[str, Quality]:
    """Cut, embed and index the pages called `names` once a strategy, and ask those of `questions` that they answer."""
    asked = [question for question in questions if question.document in names]
    found = {}
    for strategy in strategies:
        bench = quality_workbench(
            folder / strategy,
            pages=pages,
            vectors=vectors_folder(folder),
            chunking=ChunkingSettings.model_validate({"strategy": strategy}),
            embedding=embedding,
        )
        bench.materialize(*names)
        bench.publish()
        found[strategy] = _quality(bench, asked)
    return found


def _quality(bench: Workbench, questions: Sequence[Question]) -> Quality:
    ranks: dict[str, int | None] = {}
    read = []
    for question in questions:
        passages = read_parents(bench.search(question.question, top_k=_DEPTH))
        ranks[question.id] = answer_rank(question, passages)
        read.append(sum(count_tokens(passage.text, bench.corpus.chunking.tokenizer) for passage in passages[:_READ]))
    chunks = bench.store.chunks(bench.corpus.name).read(["document", "text", "tokens", "parent"]).to_pylist()
    return Quality(
        chunks=len(chunks),
        mean_tokens=statistics.fmean(chunk["tokens"] for chunk in chunks),
        whole=statistics.fmean(_is_whole(question, chunks) for question in questions),
        tokens_read=statistics.fmean(read),
        scores=scores_of_ranks(ranks),
    )


def _is_whole(question: Question, chunks: Sequence[Mapping[str, object]]) -> bool:
    texts = (_text(chunk) for chunk in chunks if chunk["document"] == question.document)
    return any(len(phrases_in(text, question)) == len(question.contains) for text in texts)


def _text(chunk: Mapping[str, object]) -> str:
    parent = chunk["parent"]
    return str(parent["text"] if isinstance(parent, dict) else chunk["text"])


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("chunking_quality", _TITLE, skipped=why)
    found = _tiny(folder) if size == "tiny" else _full(folder, pages=None)
    default = next(iter(found))
    asked = len(found[default].scores[NDCG])
    return Report(
        name="chunking_quality",
        title=_TITLE,
        figures=[
            Figure(
                f"{strategy}: {name}",
                100 * mean(quality.scores, measure_),
                "%",
                Baseline(default, 100 * mean(found[default].scores, measure_)) if strategy != default else None,
            )
            for name, measure_ in (("nDCG@10", NDCG), ("recall@5", RECALL))
            for strategy, quality in found.items()
        ],
        notes=[
            f"{asked} questions; hybrid search, {_DEPTH} passages deep; each strategy with its default limits.",
            "An answer is found at the rank at which every phrase that it needs has been read.",
        ],
    )


def _tiny(folder: Path) -> Mapping[str, Quality]:
    pages = folder / "pages"
    pages.mkdir()
    for name, text in _MADE_UP.items():
        (pages / name).write_text(text, encoding="utf-8")
    embedding = HashingEmbedding(provider="hashing")
    return measure(
        folder,
        pages=pages,
        names=list(_MADE_UP),
        questions=_MADE_UP_QUESTIONS,
        embedding=embedding,
        strategies=list(STRATEGIES),
    )


def _full(folder: Path, *, pages: int | None, strategies: Sequence[str] = tuple(STRATEGIES)) -> Mapping[str, Quality]:
    names = sorted(page.relative_to(PAGES).as_posix() for page in PAGES.rglob("*.md"))[:pages]
    return measure(
        folder,
        pages=PAGES,
        names=names,
        questions=load_questions(FASTAPI),
        embedding=LocalEmbedding(),
        strategies=strategies,
    )


def as_table(found: Mapping[str, Quality]) -> str:
    """Every measure as a Markdown table, a strategy a row, each compared with the first."""
    first = next(iter(found))
    header = ["strategy", "nDCG@10", f"against {first}", "recall@5", "MRR@10", "in one passage", "chunks"]
    rows = [[*header, "tokens a chunk", f"tokens in first {_READ}"]]
    for strategy, quality in found.items():
        gain, error = difference(quality.scores[NDCG], found[first].scores[NDCG])
        rows.append(
            [
                strategy,
                f"{mean(quality.scores, NDCG):.3f}",
                "–" if strategy == first else f"{gain:+.3f} ± {error:.3f}",
                f"{mean(quality.scores, RECALL):.3f}",
                f"{mean(quality.scores, RECIPROCAL_RANK):.3f}",
                f"{quality.whole:.3f}",
                f"{quality.chunks:,}",
                f"{quality.mean_tokens:.0f}",
                f"{quality.tokens_read:.0f}",
            ]
        )
    return markdown_table(rows)


def main() -> None:
    """Print the table, and on request the questions that each strategy misses."""
    parser = argparse.ArgumentParser(prog="python -m rag_assets_tests.benchmarks.chunking_quality", description=__doc__)
    parser.add_argument("--pages", type=int, metavar="N", help="only the first N pages and the questions they answer")
    parser.add_argument("--strategies", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES), metavar="NAME")
    parser.add_argument("--misses", action="store_true", help="also list what is not among the first five")
    asked = parser.parse_args()
    if why := missing_pages("full"):
        parser.error(why)
    with tempfile.TemporaryDirectory(prefix="chunking-quality-") as folder:
        found: dict[str, Quality] = {}
        for strategy in asked.strategies:
            found |= _full(Path(folder), pages=asked.pages, strategies=[strategy])
            print(f"{strategy}: nDCG@10 {mean(found[strategy].scores, NDCG):.3f}", file=sys.stderr)
    print(as_table(found))
    for strategy, quality in found.items():
        if asked.misses:
            print(f"\n{strategy}:", ", ".join(name for name, value in quality.scores[RECALL].items() if not value))


if __name__ == "__main__":
    main()
