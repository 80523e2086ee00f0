"""`python -m rag_assets_tests.benchmarks.scale`: what a document, a tick and a question cost as a corpus grows."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rag_assets_tests.benchmarks.reports import as_markdown as report_as_markdown
from rag_assets_tests.benchmarks.scale.growing import cost_of
from rag_assets_tests.benchmarks.scale.rows import measure_rows
from rag_assets_tests.benchmarks.scale.telling import as_markdown, as_svg, workers_as_markdown
from rag_assets_tests.benchmarks.scale.working import documents_per_second

_WORKERS = (1, 2, 4)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m rag_assets_tests.benchmarks.scale", description=__doc__)
    parser.add_argument("--documents", type=int, nargs="*", default=[1_000, 10_000], help="sizes; 100000 takes an hour")
    parser.add_argument("--workers", type=int, default=2_000, help="documents that the processes share; 0 for none")
    parser.add_argument(
        "--rows", type=int, default=0, help="also fill an index with so many chunks: 1000000 takes 15 GB"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the costs as SVG")
    parser.add_argument("--folder", type=Path, help="where the files go meanwhile; by default where temporary ones do")
    asked = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="scale-", dir=asked.folder) as name:
        folder = Path(name)
        costs = []
        for documents in asked.documents:
            costs.append(cost_of(documents, folder / str(documents)))
            print(as_markdown(costs), end="\n\n", flush=True)
        if asked.plot and costs:
            asked.plot.write_text(as_svg(costs) + "\n", encoding="utf-8")
        if asked.workers:
            rates = {n: documents_per_second(n, asked.workers, folder / f"workers-{n}") for n in _WORKERS}
            print(workers_as_markdown(rates), end="\n\n", flush=True)
        if asked.rows:
            print(report_as_markdown(measure_rows(asked.rows, folder / "rows")), end="\n\n", flush=True)
    print(f"{time.monotonic() - started:,.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
