"""How fast, how small, how flat: each module measures one promise beside a baseline of the same run.

Run them with `make bench`. Ratios travel between machines, absolute figures do not. Nothing here is a test: the tests
only see that every benchmark runs at a tiny size.
"""

import importlib
from pathlib import Path

from rag_assets_tests.benchmarks.reports import Report
from rag_assets_tests.benchmarks.sizes import Size

NAMES = (
    "bookkeeping",
    "throughput",
    "local_embedding",
    "concurrency",
    "no_change",
    "one_edit",
    "ask",
    "memory",
    "reading",
    "splitting",
    "health",
)
QUALITY = ("chunking_quality", "retrieval_quality", "answer_quality", "conversations")
"""How well, not how fast: they take many minutes and run only when they are named."""
RACES = ("readers", "writers", "shared_store")
"""Processes against each other, for a minute or more: they run only when they are named."""
LARGE = ("replace", "index_sizes", "disk_use")
"""A million rows, or a thousand publications: they run only when they are named."""
SERVERS = ("real_server", "chat_answers")
"""With servers of others, from packages that no extra names: they run only when they are named."""


CLUSTERS = ("ray_workers",)
"""On a cluster that they start: they run only when they are named."""


def run_benchmark(name: str, size: Size, folder: Path) -> Report:
    """Run the benchmark `name` in this process, with its files below `folder`."""
    module = importlib.import_module(f"rag_assets_tests.benchmarks.{name}")
    report = module.run(size, folder)
    assert isinstance(report, Report)
    return report
