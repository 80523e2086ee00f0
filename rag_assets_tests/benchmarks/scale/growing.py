"""A folder of tiny documents is ingested whole, as a user does it; then a tick, a question, and the bytes on disk.

Everything is measured in a process of its own. The embedder is free, so that what is left is what the platform costs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from rag_assets.storing.listing import bytes_in
from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.corpora import write_small_files
from rag_assets_tests.benchmarks.measuring import cpu_seconds, in_child, median, peak_memory, wall_seconds
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import Workbench

_QUESTIONS = 30
_TICKS = 3


@dataclass(frozen=True)
class Cost:
    """What a corpus of so many `documents` costs. Of a document: milliseconds of CPU, of which `bookkeeping_ms` is what an
    ingest takes beside the same stages without Dagster, milliseconds that pass, and bytes of the tables and of Dagster's
    history. Of a tick with nothing to do: seconds. Of a question: milliseconds. Memory is what an ingest and a tick hold at
    their peak, in bytes."""

    documents: int
    cpu_ms: float
    bookkeeping_ms: float
    wall_ms: float
    ingest_memory: int
    tick_seconds: float
    tick_cpu_seconds: float
    tick_memory: int
    question_ms: float
    table_bytes: float
    history_bytes: float


def cost_of(documents: int, root: Path) -> Cost:
    """Ingest so many documents below `root`, by `rag-assets ingest`, and look at what came of it."""
    root.mkdir()
    write_small_files(Platform(root), documents)
    alone = in_child(_without_dagster, root)
    wall, cpu, memory = in_child(_ingest, root, documents)
    tick, tick_cpu, tick_memory = in_child(_tick, root)
    each = 1000 / documents
    return Cost(
        documents=documents,
        cpu_ms=each * cpu,
        bookkeeping_ms=each * (cpu - alone),
        wall_ms=each * wall,
        ingest_memory=memory,
        tick_seconds=tick,
        tick_cpu_seconds=tick_cpu,
        tick_memory=tick_memory,
        question_ms=1000 * in_child(_ask, root),
        table_bytes=bytes_in(str(root / "home")) / documents,
        history_bytes=bytes_in(str(root / "dagster")) / documents,
    )


def _ingest(root: Path, documents: int) -> tuple[float, float, int]:
    """Seconds that pass, seconds of CPU, and the peak of memory of `rag-assets ingest`."""
    platform = Platform(root)
    _import_everything()
    cpu: list[float] = []
    wall = wall_seconds(lambda: cpu.append(cpu_seconds(lambda: platform.ingest())))
    assert platform.ingest()["unchanged"] == documents
    return wall, cpu[0], peak_memory()


def _without_dagster(root: Path) -> float:
    """Seconds of CPU of the same stages, batch by batch as the runs are, into tables of their own."""
    platform = Platform(root)
    bench = Workbench(platform.corpus, Store(str(root / "without-dagster")), platform.notes)
    _import_everything()

    def work() -> None:
        pending = bench.scan().pending
        size = bench.corpus.max_documents_per_run
        for start in range(0, len(pending), size):
            bench.materialize(*pending[start : start + size])
            bench.publish()

    return cpu_seconds(work)


def _tick(root: Path) -> tuple[float, float, int]:
    """As `_ingest`, of one evaluation of the sensor while nothing is to be done: medians."""
    platform = Platform(root)
    definitions = platform.definitions()
    sensor = definitions.resolve_sensor_def("notes_corpus_sensor")
    assert definitions.resources
    store = {"store": definitions.resources["store"]}

    def evaluate() -> None:
        context = dg.build_sensor_context(
            instance=instance, definitions=definitions, resources=store, sensor_name=sensor.name
        )
        assert isinstance(sensor(context), dg.SkipReason)

    with platform.instance() as instance:
        evaluate()
        wall = median(_TICKS, lambda: wall_seconds(evaluate))
        return wall, median(_TICKS, lambda: cpu_seconds(evaluate)), peak_memory()


def _ask(root: Path) -> float:
    """Seconds of a hybrid search in a warm process: the median."""
    platform = Platform(root)
    bench = Workbench(platform.corpus, platform.store, platform.notes)
    ask: Callable[[], object] = lambda: bench.search("what tells of thing 7")  # noqa: E731
    for _ in range(3):
        ask()
    return median(_QUESTIONS, lambda: wall_seconds(ask))


def _import_everything() -> None:
    import lance  # noqa: F401
    import lancedb  # noqa: F401  # seconds, and no matter of size
