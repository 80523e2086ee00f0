"""How much room a corpus takes after a thousand publications, beside one that was made in a single one.

`python -m rag_assets_tests.benchmarks --only disk_use` prints it. Publications follow each other without a pause, so what
is kept for readers that may still be in it is kept for as long as ten of them take, as if one came every minute.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

from rag_assets.storing import tables
from rag_assets.storing.listing import bytes_in
from rag_assets.storing.maintaining import maintain
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

_PUBLICATIONS = {"tiny": 12, "full": 1_000}
_DOCUMENTS = {"tiny": 6, "full": 200}
_PARAGRAPHS = 8
_WORDS = 60
_MEASURE_EVERY = 10
_MIB = 1024 * 1024


def run(size: Size, folder: Path) -> Report:
    bench = make_workbench(folder)
    documents, publications = _DOCUMENTS[size], _PUBLICATIONS[size]
    for document in range(documents):
        _write(bench, document, 0)
    bench.ingest()
    peak = [0, 0]
    started = time.perf_counter()
    for number in range(1, publications + 1):
        each = (time.perf_counter() - started) / number
        with mock.patch.object(tables, "KEEP_VERSIONS_FOR", timedelta(seconds=10 * each)):
            _write(bench, number * 7 % documents, number)
            bench.ingest()
        if number % _MEASURE_EVERY == 0:
            peak = [max(pair) for pair in zip(peak, _bytes(bench), strict=True)]
    seconds = (time.perf_counter() - started) / publications
    versions = len(bench.store.index(CORPUS, bench.published.generation, dimensions=1).open().versions())
    fresh = Workbench(bench.folder, type(bench.store)(str(folder / "fresh")), bench.corpus)
    fresh.ingest()
    live, live_all = _bytes(fresh)
    with mock.patch.object(tables, "KEEP_VERSIONS_FOR", timedelta(0)):
        for days in (0, 100):
            later = datetime.now(UTC) + timedelta(days=days)
            maintain(bench.store, {CORPUS: bench.corpus}, bench.corpus, run_id="", now=later)
    after = _bytes(bench)[1]
    baseline = Baseline("made in one publication", live / _MIB)
    baseline_all = Baseline("made in one publication", live_all / _MIB)
    goal, goal_all = (Goal("at most", round(3 * b.value, 3)) for b in (baseline, baseline_all))
    return Report(
        name="disk_use",
        title=f"Room after {publications:,} publications",
        figures=[
            Figure("tables of the corpus, the most at any time", peak[0] / _MIB, "MiB", baseline, goal),
            Figure("with the vectors that are kept 90 days", peak[1] / _MIB, "MiB", baseline_all, goal_all),
            Figure("all, after maintenance 100 days later", after / _MIB, "MiB", baseline_all, goal_all),
        ],
        notes=[
            f"{documents} documents of {_PARAGRAPHS} chunks, one rewritten a publication, {1000 * seconds:,.0f} ms a"
            f" publication with its ingest; ten versions kept; {versions} table versions were there at the end. Measured"
            f" every {_MEASURE_EVERY} publications."
        ],
    )


def _bytes(bench: Workbench) -> tuple[int, int]:
    """The bytes of the tables of the corpus, and of everything."""
    return bytes_in(bench.store.corpus_uri(CORPUS)), bytes_in(bench.store.home)


def _write(bench: Workbench, document: int, number: int) -> None:
    """Rewrite half of the paragraphs of a document."""
    paragraphs = [
        " ".join(
            f"w{(document * 31 + part * 7 + word * (1 + (number if part % 2 else 0))) % 4999}" for word in range(_WORDS)
        )
        for part in range(_PARAGRAPHS)
    ]
    bench.write(f"{document:04}.md", "\n\n".join(paragraphs))
