"""The most memory that a first ingest holds, beside what it takes to import what it uses and load the model."""

from pathlib import Path

from rag_assets_tests.benchmarks.corpora import missing_pages, pages_of, pages_platform
from rag_assets_tests.benchmarks.measuring import in_child, peak_memory
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size

_TITLE = "Peak memory of a first ingest"
_MIB = 1024 * 1024


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("memory", _TITLE, skipped=why)
    platform = pages_platform(folder, size)
    peak = in_child(_ingest, folder, size)
    imports = in_child(_import)
    return Report(
        name="memory",
        title=_TITLE,
        figures=[
            Figure(
                f"{len(pages_of(platform))} pages",
                peak / _MIB,
                "MiB",
                Baseline("import dagster and lancedb, load the model, embed a word", imports / _MIB),
            )
        ],
        notes=["Resident memory, each in a process of its own; one run."],
    )


def _ingest(folder: Path, size: Size) -> int:
    assert pages_platform(folder, size).ingest()["chunks"]
    return peak_memory()


def _import() -> int:
    import dagster  # noqa: F401
    import lancedb  # noqa: F401

    from rag_assets.config import LocalEmbedding
    from rag_assets.embedding.local import LocalProvider

    LocalProvider(LocalEmbedding()).embed(["word"], "document")
    return peak_memory()
