"""What many chunks take on one machine: to index, to search, to change and to maintain, each in a process of its own."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rag_assets.config import HashingEmbedding
from rag_assets.storing.maintaining import maintain
from rag_assets_tests.benchmarks.measuring import in_child, median, peak_memory, wall_seconds
from rag_assets_tests.benchmarks.reports import Figure, Goal, Report
from rag_assets_tests.benchmarks.scale.filling import CHUNKS_A_DOCUMENT, fill, question
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

_GIB = 2**30
_MEMORY = Goal("at most", 8)
_DIMENSIONS = 384
_QUESTIONS = 50
_CHANGED_SHARE = 50


def measure_rows(rows: int, folder: Path) -> Report:
    """Fill an index with `rows` chunks, publish, ask, change a fiftieth, publish, and maintain."""
    folder.mkdir(exist_ok=True)
    bench = make_workbench(folder)
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=_DIMENSIONS))
    documents = rows // CHUNKS_A_DOCUMENT
    changed = range(documents // 3, documents // 3 + max(1, documents // _CHANGED_SHARE))
    steps: dict[str, Callable[[Workbench], object]] = {
        "published for the first time, with all search indices": _publish,
        f"{_QUESTIONS} questions": _ask,
        f"{len(changed) * CHUNKS_A_DOCUMENT:,} rows changed and published": _publish,
        "maintained": _maintain,
    }
    in_child(fill, bench, range(documents))
    figures = []
    for what, step in steps.items():
        if "changed" in what:
            in_child(fill, bench, changed, edition=1)
        seconds, peak = in_child(_measured, step, bench)
        figures.append(Figure(what, seconds, "s"))
        figures.append(Figure(f"{what}: memory at its peak", peak / _GIB, "GiB", goal=_MEMORY))
        if step is _ask:
            figures.append(Figure("one question in a warm process", 1000 * in_child(_ask, bench), "ms"))
    return Report(
        name="rows",
        title=f"{rows:,} chunks",
        figures=figures,
        notes=[
            f"{documents:,} documents of {CHUNKS_A_DOCUMENT} chunks, {_DIMENSIONS} dimensions, synthetic; seconds of one"
            " run, peak of the resident memory of the process that did it. Questions are hybrid, median.",
        ],
    )


def _measured(step: Callable[[Workbench], object], bench: Workbench) -> tuple[float, int]:
    return wall_seconds(lambda: step(bench)), peak_memory()


def _publish(bench: Workbench) -> None:
    report = bench.publish()
    assert report.moved, report.waiting


def _ask(bench: Workbench) -> float:
    """Seconds of a hybrid question, median, in a process that is warm by then."""
    numbers = iter(range(-3, _QUESTIONS))

    def ask() -> None:
        assert bench.search(question(abs(next(numbers))))

    for _ in range(3):
        ask()
    return median(_QUESTIONS, lambda: wall_seconds(ask))


def _maintain(bench: Workbench) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    report = maintain(bench.store, {CORPUS: bench.corpus}, bench.corpus, run_id="run", now=later)
    assert report.problem is None, report.problem
