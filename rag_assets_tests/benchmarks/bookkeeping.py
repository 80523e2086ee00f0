"""What Dagster's bookkeeping costs: an ingest run with a free embedder, minus the same stages called directly."""

import os
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import yaml

from rag_assets import dagster_storage  # noqa: F401  # sets the batch size of events, before a platform copies the environment
from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.corpora import write_small_files
from rag_assets_tests.benchmarks.measuring import cpu_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import Workbench

_MANY = {"tiny": 4, "full": 1_000}
_FEW = {"tiny": 2, "full": 150}
_STOCK = {"tiny": 2, "full": 200}
_REPEATS = {"tiny": 1, "full": 3}
_GOAL = Goal("at most", 15)


@dataclass(frozen=True)
class _Cost:
    """CPU milliseconds a document."""

    total: float
    without_dagster: float

    @property
    def bookkeeping(self) -> float:
        return self.total - self.without_dagster


def run(size: Size, folder: Path) -> Report:
    many, few, stock = _MANY[size], _FEW[size], _STOCK[size]
    of_many = _median([_cost(folder / f"many-{n}", many) for n in range(_REPEATS[size])])
    of_few = _median([_cost(folder / f"few-{n}", few) for n in range(_REPEATS[size])])
    of_stock = _stock_cost(folder / "stock", stock)
    return Report(
        name="bookkeeping",
        title="CPU time a document, of which Dagster's bookkeeping",
        figures=[
            Figure(
                f"all, {many:,} documents", of_many.total, "ms", Baseline("without Dagster", of_many.without_dagster)
            ),
            Figure(
                f"bookkeeping, {many:,} documents",
                of_many.bookkeeping,
                "ms",
                Baseline(f"stock event log, {stock:,} documents", of_stock.bookkeeping),
                _GOAL,
            ),
            Figure(
                f"bookkeeping, {few:,} documents",
                of_few.bookkeeping,
                "ms",
                Baseline(f"{many:,} documents", of_many.bookkeeping),
            ),
        ],
        notes=[
            f"One run of `rag-assets ingest`, four assets and one tiny chunk a document; median of {_REPEATS[size]}.",
            "The stock event log writes one event a transaction, so it is measured once and with fewer documents.",
            "Bookkeeping is what is left when the CPU time of the same stages, called without Dagster, is taken off.",
        ],
    )


def _cost(root: Path, documents: int, *, stock: bool = False) -> _Cost:
    """Ingest `documents` new documents beside one that is known: databases and tables exist, modules are imported."""
    root.mkdir()
    platform = Platform(root, options={"max_documents_per_run": 10_000})
    if stock:
        _use_stock_event_log(platform)
    bench = Workbench(platform.corpus, Store(str(root / "without-dagster")), platform.notes)
    bench.write("known.md", "Known before.")
    platform.ingest()
    bench.ingest()
    write_small_files(platform, documents)
    per_document = 1000 / documents
    return _Cost(cpu_seconds(platform.ingest) * per_document, cpu_seconds(bench.ingest) * per_document)


def _stock_cost(root: Path, documents: int) -> _Cost:
    with mock.patch.dict(os.environ, {"DAGSTER_EVENT_BATCH_SIZE": "0"}):
        return _cost(root, documents, stock=True)


def _use_stock_event_log(platform: Platform) -> None:
    path = platform.dagster_home / "dagster.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    del settings["event_log_storage"]
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")


def _median(costs: list[_Cost]) -> _Cost:
    return sorted(costs, key=lambda cost: cost.bookkeeping)[len(costs) // 2]
