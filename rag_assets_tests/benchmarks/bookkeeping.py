"""What Dagster's bookkeeping costs: an ingest run with a free embedder, minus the same stages called directly."""

import itertools
import os
from collections.abc import Callable, Sequence
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
    runs = [_costs(folder / str(number), [few, many]) for number in range(_REPEATS[size])]
    of_few, of_many = map(_median, zip(*runs, strict=True))
    with mock.patch.dict(os.environ, {"DAGSTER_EVENT_BATCH_SIZE": "0"}):
        (of_stock,) = _costs(folder / "stock", [stock], configure=_use_stock_event_log)
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


def _costs(
    root: Path, batches: Sequence[int], *, configure: Callable[[Platform], None] = lambda _: None
) -> list[_Cost]:
    """Ingest batch after batch of new documents. Databases and tables exist, and modules are imported, before."""
    root.mkdir()
    platform = Platform(root, options={"max_documents_per_run": 10_000})
    configure(platform)
    bench = Workbench(platform.corpus, Store(str(root / "without-dagster")), platform.notes)
    costs: list[_Cost] = []
    for first, documents in zip(itertools.accumulate([0, 1, *batches]), [1, *batches], strict=False):
        write_small_files(platform, documents, first=first)
        costs.append(
            _Cost(cpu_seconds(platform.ingest) * 1000 / documents, cpu_seconds(bench.ingest) * 1000 / documents)
        )
    return costs[1:]


def _use_stock_event_log(platform: Platform) -> None:
    path = platform.dagster_home / "dagster.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    del settings["event_log_storage"]
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")


def _median(costs: Sequence[_Cost]) -> _Cost:
    return sorted(costs, key=lambda cost: cost.bookkeeping)[len(costs) // 2]
