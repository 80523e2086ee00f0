"""What Dagster's bookkeeping costs: an ingest run with a free embedder, minus the same stages called directly."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import yaml

from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.corpora import write_small_files
from rag_assets_tests.benchmarks.measuring import cpu_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import Workbench

_MANY = {"tiny": 3, "full": 1_000}
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


class _Corpus:
    """One folder, ingested twice: by the command line, and by the stages alone into tables of their own.

    It begins with one document, so that databases and tables exist and everything is imported.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.platform = Platform(root, options={"max_documents_per_run": 10_000})
        self._bench = Workbench(self.platform.corpus, Store(str(root / "without-dagster")), self.platform.notes)
        self._written = 0
        self.cost(1)

    def cost(self, documents: int) -> _Cost:
        """Add so many documents and ingest them."""
        write_small_files(self.platform, documents, first=self._written)
        self._written += documents
        each = 1000 / documents
        return _Cost(each * cpu_seconds(self.platform.ingest), each * cpu_seconds(self._bench.ingest))


def run(size: Size, folder: Path) -> Report:
    many, few, stock = _MANY[size], _FEW[size], _STOCK[size]
    corpora = [_Corpus(folder / str(number)) for number in range(_REPEATS[size])]
    of_few = _median([corpus.cost(few) for corpus in corpora])
    of_many = _median([corpus.cost(many) for corpus in corpora])
    of_stock = _stock_cost(corpora[0], stock)
    return Report(
        name="bookkeeping",
        title="CPU time a document, and Dagster's share of it",
        figures=[
            Figure(f"all, {many:,} documents", of_many.total, "ms", Baseline("no Dagster", of_many.without_dagster)),
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
            "Bookkeeping is what is left when the CPU time of the same stages, called without Dagster, is taken off.",
            "The stock event log writes one event a transaction; it is measured once, with fewer documents.",
        ],
    )


def _stock_cost(corpus: _Corpus, documents: int) -> _Cost:
    """The cost with the event log that Dagster comes with. It goes on in the same files."""
    path = corpus.platform.dagster_home / "dagster.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    del settings["event_log_storage"]
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with mock.patch.dict(os.environ, {"DAGSTER_EVENT_BATCH_SIZE": "0"}):
        return corpus.cost(documents)


def _median(costs: Sequence[_Cost]) -> _Cost:
    return sorted(costs, key=lambda cost: cost.bookkeeping)[len(costs) // 2]
