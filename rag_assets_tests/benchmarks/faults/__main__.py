"""Break a platform in every way that we know, and print what saw it and what mended it as a Markdown table."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rag_assets_tests.benchmarks.faults.catalogue import FAULTS
from rag_assets_tests.benchmarks.faults.faults import as_markdown, undergo
from rag_assets_tests.benchmarks.faults.scratch import copy, prepare
from rag_assets_tests.fakes import FakeOpenAI


def main() -> int:
    """Exit with 1 when a fault was not seen, or not mended."""
    parser = argparse.ArgumentParser(prog="python -m rag_assets_tests.benchmarks.faults", description=__doc__)
    parser.add_argument("--only", metavar="WORDS", default="", help="only faults whose name holds these words")
    asked = parser.parse_args()
    started = time.monotonic()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, FakeOpenAI() as fake:
        whole = prepare(Path(folder) / "whole", fake)
        for number, fault in enumerate(fault for fault in FAULTS if asked.only in fault.name):
            outcome = undergo(fault, copy(whole, Path(folder) / f"{number:02}"))
            print(f"{fault.name}: seen by {', '.join(outcome.seen) or 'nothing'}; left {outcome.left}", file=sys.stderr)
            outcomes.append(outcome)
    print(as_markdown(outcomes))
    print(f"{len(outcomes)} faults in {time.monotonic() - started:,.0f} s", file=sys.stderr)
    return 0 if all(outcome.holds for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
