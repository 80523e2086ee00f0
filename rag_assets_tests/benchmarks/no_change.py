"""What it costs to find out that nothing changed: `rag-assets ingest` over many small files, beside looking at them."""

from collections.abc import Callable
from pathlib import Path

from rag_assets_tests.benchmarks import walking
from rag_assets_tests.benchmarks.corpora import write_small_files
from rag_assets_tests.benchmarks.measuring import COMMAND_LINE, median, python_seconds, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import Workbench

_FILES = {"tiny": 5, "full": 10_000}
_REPEATS = {"tiny": 1, "full": 5}


def run(size: Size, folder: Path) -> Report:
    files, repeats = _FILES[size], _REPEATS[size]
    platform = Platform(folder)
    write_small_files(platform, files)
    # The same tables as after ingest runs, without minutes of bookkeeping: with nothing to do, Dagster is not asked.
    Workbench(platform.corpus, platform.store, platform.notes).ingest()
    assert platform.ingest()["unchanged"] == files
    corpus = str(platform.corpus)

    def measured(work: Callable[[], float]) -> float:
        return 1000 * median(repeats, work)

    warm = measured(lambda: wall_seconds(platform.ingest))
    warm_walk = measured(lambda: wall_seconds(lambda: walking.walk(corpus)))
    cold = measured(lambda: python_seconds(*COMMAND_LINE, "ingest", environment=platform.environment))
    cold_walk = measured(lambda: python_seconds(walking.__file__, corpus))
    return Report(
        name="no_change",
        title=f"Ingest with nothing to do, {files:,} small files",
        figures=[
            Figure("in a process that runs already", warm, "ms", Baseline("os.walk and stat of each file", warm_walk)),
            Figure("`rag-assets ingest` afresh", cold, "ms", Baseline("os.walk and stat in a fresh Python", cold_walk)),
        ],
        notes=[f"Wall time, median of {repeats}. The files are in the cache of the file system."],
    )
