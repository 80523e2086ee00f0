"""What the checks of a corpus cost at night: all of them over ten thousand documents, beside reading the tables once."""

from pathlib import Path

from rag_assets.config import HashingEmbedding, HealthSettings
from rag_assets.health.checks import Finding
from rag_assets.health.measuring import measure
from rag_assets.health.view import View
from rag_assets_tests.benchmarks.measuring import cpu_seconds, in_child, peak_memory
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

_DOCUMENTS = {"tiny": 4, "full": 10_000}
_SAMPLE = {"tiny": 2, "full": 500}
_PARAGRAPHS = 8
_WORDS = 60
_SHOWN = 3
_MIB = 1024 * 1024


def run(size: Size, folder: Path) -> Report:
    bench = make_workbench(folder)
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=384))
    for number in range(_DOCUMENTS[size]):
        bench.write(f"{number // 100:03}/{number:05}.md", _text(number))
    bench.ingest()
    read, peak_read = in_child(_read_everything, bench)
    seconds, peak, found = in_child(_measure, bench)
    assert all(one.verdict.passed for one in found), [one for one in found if not one.verdict.passed]
    bench.configure(health=HealthSettings(sample=_SAMPLE[size]))
    sampled, _, _ = in_child(_measure, bench)
    slowest = sorted(found, key=lambda one: -one.seconds)[:_SHOWN]
    baseline = Baseline("reading every row once", read)
    return Report(
        name="health",
        title=f"All checks of {_DOCUMENTS[size]:,} documents",
        figures=[
            Figure("every row compared", seconds, "s of CPU", baseline, Goal("at most", 60)),
            Figure(f"rows of {_SAMPLE[size]} documents compared", sampled, "s of CPU", baseline),
            Figure(
                "memory beside that before the first check", peak / _MIB, "MiB", Baseline("reading", peak_read / _MIB)
            ),
        ],
        notes=[
            f"{bench.published.chunks:,} rows of 384 dimensions. CPU time of all threads of one process; one run. The"
            f" slowest: {', '.join(f'{one.check.name} {one.seconds:.1f} s' for one in slowest)}."
        ],
    )


def _text(number: int) -> str:
    """Paragraphs that no other document has."""
    return "\n\n".join(
        " ".join(f"w{(number * 31 + part * 7 + word * (1 + number % 97)) % 49_999}" for word in range(_WORDS))
        for part in range(_PARAGRAPHS)
    )


def _read_everything(bench: Workbench) -> tuple[float, int]:
    before = _warm()
    index = bench.store.index(CORPUS, bench.published.generation, dimensions=1)

    def read() -> None:
        for table in (bench.store.documents(CORPUS), bench.store.chunks(CORPUS), index):
            for _ in table.scan(table.open().schema.names, rows=4_096):
                pass

    return cpu_seconds(read), peak_memory() - before


def _measure(bench: Workbench) -> tuple[float, int, list[Finding]]:
    before = _warm()
    found: list[Finding] = []
    seconds = cpu_seconds(lambda: found.extend(measure(View(bench.store, bench.corpus))))
    return seconds, peak_memory() - before, found


def _warm() -> int:
    """Import what is imported at first use, and return the memory that this process holds then."""
    import lance  # noqa: F401

    return peak_memory()
