"""Several processes that ingest documents of their own into one corpus: how much faster two are than one, and four."""

import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_assets_tests.workbench import Workbench, make_workbench

_DOCUMENTS_AT_ONCE = 250
_PARAGRAPHS = 8
_WORDS = 60


def documents_per_second(workers: int, documents: int, root: Path) -> float:
    """Documents that `workers` processes bring into the index of one corpus in a second; it is published once, after."""
    root.mkdir()
    bench = make_workbench(root)
    names = [f"{number // 100:03}/{number:05}.md" for number in range(documents)]
    for number, name in enumerate(names):
        bench.write(name, _text(number))
    context = multiprocessing.get_context("spawn")
    ready, times = context.Barrier(workers), context.Queue()
    shares = [names[number::workers] for number in range(workers)]
    processes = [context.Process(target=_work, args=(bench, share, ready, times)) for share in shares]
    for process in processes:
        process.start()
    spans: list[tuple[float, float]] = [times.get() for _ in processes]
    for process in processes:
        process.join()
    report = bench.publish()
    assert report.published is not None
    assert report.published.documents == documents
    return documents / (max(ended for _, ended in spans) - min(started for started, _ in spans))


def _work(bench: Workbench, documents: Sequence[str], ready: Any, times: Any) -> None:
    import lance  # noqa: F401

    ready.wait()
    started = time.monotonic()
    for start in range(0, len(documents), _DOCUMENTS_AT_ONCE):
        bench.materialize(*documents[start : start + _DOCUMENTS_AT_ONCE])
    times.put((started, time.monotonic()))


def _text(number: int) -> str:
    """Paragraphs that no other document has."""
    return "\n\n".join(
        " ".join(f"w{(number * 31 + part * 7 + word * (1 + number % 97)) % 49_999}" for word in range(_WORDS))
        for part in range(_PARAGRAPHS)
    )
