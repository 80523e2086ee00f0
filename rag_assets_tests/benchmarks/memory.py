"""The most memory that a first ingest holds, beside what it takes to import what it uses and load the model."""

from pathlib import Path

from rag_assets.config import LocalEmbedding
from rag_assets.embedding.local import LocalProvider
from rag_assets_tests.benchmarks.corpora import missing_pages, pages_of, pages_platform
from rag_assets_tests.benchmarks.measuring import in_child, peak_memory
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size

_TITLE = "Peak memory of a first ingest"
_MIB = 1024 * 1024


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("memory", _TITLE, skipped=why)
    pages = len(pages_of(pages_platform(folder, size)))
    imports, peak = in_child(_peaks, folder, size)
    return Report(
        name="memory",
        title=_TITLE,
        figures=[
            Figure(
                f"{pages} pages",
                peak / _MIB,
                "MiB",
                Baseline("everything imported, model loaded, a word embedded", imports / _MIB),
            )
        ],
        notes=["Resident memory at its peak, both of one process; one run."],
    )


def _peaks(folder: Path, size: Size) -> tuple[int, int]:
    """The peak in bytes before the first ingest of the pages in `folder`, with all that it uses in memory, and after."""
    import lance  # noqa: F401  # Dagster came with the platform
    import lancedb  # noqa: F401

    LocalProvider(LocalEmbedding()).embed(["word"], "document")
    before = peak_memory()
    assert pages_platform(folder, size).ingest()["chunks"]
    return before, peak_memory()
