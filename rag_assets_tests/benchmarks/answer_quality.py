"""Questions over the FastAPI manual, with every setting at its default: is the passage found, and is it cited?

The baseline is fused search alone: no reranker, no neighbours. Both take the path of `rag-assets evaluate`.
"""

import json
from pathlib import Path

from rag_assets.config import CorpusSettings, EvaluationSettings, HashingEmbedding, LocalEmbedding, NoRerank
from rag_assets.records import Figures
from rag_assets.scoring.comparing import QUALITY
from rag_assets.scoring.evaluating import evaluate
from rag_assets_tests.benchmarks.corpora import PAGES, missing_pages
from rag_assets_tests.benchmarks.kept_vectors import quality_workbench, vectors_folder
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.questions import FASTAPI
from rag_assets_tests.workbench import CORPUS, Workbench

_TITLE = "Answers: questions over a manual, with the defaults"
_FUSED = "fused search alone"
_GOALS = {"recall_at_5": 90.0, "citation_recall": 85.0, "unanswerable_accuracy": 90.0}
_PAGES = {
    "passes.md": "# Passes\n\n## Grimsel\n\nThe Grimsel is closed from November to May.\n",
    "lakes.md": "# Lakes\n\n## Oeschinen\n\nRowing boats are for hire at the Oeschinen.\n",
}
_QUESTIONS = (
    {"question": "When is the Grimsel closed?", "document": "passes.md", "contains": ["from November to May"]},
    {"question": "Where are rowing boats for hire?", "document": "lakes.md", "contains": ["at the Oeschinen"]},
    {"question": "How is bread baked?", "document": None},
)


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("answer_quality", _TITLE, skipped=why)
    tiny = size == "tiny"
    pages, questions = _made_up(folder) if tiny else (PAGES, FASTAPI)
    embedding = HashingEmbedding(provider="hashing") if tiny else LocalEmbedding()
    defaults = CorpusSettings(name=CORPUS, source=str(pages), embedding=embedding)
    bench = quality_workbench(
        folder / "home",
        pages=pages,
        vectors=vectors_folder(folder),
        chunking=defaults.chunking,
        embedding=embedding,
    )
    bench.materialize(*sorted(page.relative_to(pages).as_posix() for page in pages.rglob("*.md")))
    bench.publish()
    fused = defaults.model_copy(
        update={"rerank": NoRerank(), "retrieval": defaults.retrieval.model_copy(update={"neighbours": 0})}
    )
    found, baseline = (_figures(bench, corpus, questions) for corpus in (defaults, fused))
    return Report(
        name="answer_quality",
        title=_TITLE,
        figures=[
            *(_share(name, found, baseline, goal=None if tiny else _GOALS.get(name)) for name in QUALITY),
            Figure("latency p50", found.latency_p50_ms, "ms", Baseline(_FUSED, baseline.latency_p50_ms)),
            Figure("latency p95", found.latency_p95_ms, "ms", Baseline(_FUSED, baseline.latency_p95_ms)),
        ],
        notes=["What each figure means: docs/evaluation.md. No key, no download."],
    )


def _made_up(folder: Path) -> tuple[Path, Path]:
    pages, questions = folder / "pages", folder / "questions.jsonl"
    pages.mkdir()
    for name, text in _PAGES.items():
        (pages / name).write_text(text, encoding="utf-8")
    questions.write_text("\n".join(map(json.dumps, _QUESTIONS)), encoding="utf-8")
    return pages, questions


def _figures(bench: Workbench, corpus: CorpusSettings, questions: Path) -> Figures:
    wanted = EvaluationSettings(questions=str(questions))

    def silent(stage: str, done: int, total: int) -> None:
        pass

    return evaluate(
        bench.store, corpus, bench.published, wanted, run_id="benchmark", progress=silent
    ).evaluation.figures


def _share(name: str, found: Figures, baseline: Figures, *, goal: float | None) -> Figure:
    value, other = getattr(found, name), getattr(baseline, name)
    return Figure(name, 100 * value, "%", Baseline(_FUSED, 100 * other), Goal("at least", goal) if goal else None)
