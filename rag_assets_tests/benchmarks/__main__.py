"""`python -m rag_assets_tests.benchmarks`: run benchmarks, each in a process of its own, and print a table for each."""

import argparse
import importlib.metadata
import json
import os
import platform
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rag_assets_tests.benchmarks import CLUSTERS, LARGE, NAMES, QUALITY, RACES, SERVERS, run_benchmark
from rag_assets_tests.benchmarks.measuring import in_child
from rag_assets_tests.benchmarks.reports import as_json, as_markdown, as_text


def main() -> None:
    """See the module."""
    asked = _arguments()
    machine = _machine()
    print(", ".join(f"{name} {value}" for name, value in machine.items()), end="\n\n")
    reports = []
    started = time.monotonic()
    for name in asked.only:
        with tempfile.TemporaryDirectory(prefix=f"benchmark-{name}-") as folder:
            report = in_child(run_benchmark, name, asked.size, Path(folder))
        reports.append(report)
        print(as_markdown(report) if asked.markdown else as_text(report), end="\n\n", flush=True)
    print(f"{len(reports)} benchmarks in {time.monotonic() - started:,.0f} s")
    if asked.json:
        found = {"machine": machine, "size": asked.size, "benchmarks": [as_json(report) for report in reports]}
        asked.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rag_assets_tests.benchmarks", description=__doc__)
    every = (*NAMES, *QUALITY, *RACES, *LARGE, *SERVERS, *CLUSTERS)
    parser.add_argument("--only", nargs="+", choices=every, default=NAMES, metavar="NAME", help=", ".join(every))
    parser.add_argument("--size", choices=("tiny", "full"), default="full", help="tiny only shows that they run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    parser.add_argument("--markdown", action="store_true", help="print Markdown, for docs/benchmarks.md")
    return parser.parse_args()


def _machine() -> Mapping[str, str]:
    """What the figures depend on."""
    versions = {name: importlib.metadata.version(name) for name in ("dagster", "lancedb", "pylance", "onnxruntime")}
    now = f"{datetime.now(UTC):%Y-%m-%d}"
    return {"date": now, "cores": str(os.cpu_count()), "Python": platform.python_version(), **versions}


if __name__ == "__main__":
    main()
