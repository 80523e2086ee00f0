"""How fast a first ingest is with the default embedder, and whether it is the embedder that takes the time."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from rag_assets.config import LocalEmbedding
from rag_assets.embedding.local import LocalProvider
from rag_assets.embedding.provider import Embedded, Kind
from rag_assets_tests.benchmarks.corpora import missing_pages, pages_platform
from rag_assets_tests.benchmarks.measuring import wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size

_TITLE = "First ingest with the embedded model"
_GOAL = Goal("at least", 80)


class _Busy:
    """The wall seconds in which at least one thread is inside."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = 0
        self._since = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._since = time.perf_counter()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self.seconds += time.perf_counter() - self._since


class _TimedProvider(LocalProvider):
    """The default provider, which knows how long it was at work."""

    def __init__(self, settings: LocalEmbedding) -> None:
        super().__init__(settings)
        self.embedding = _Busy()
        self.counting = _Busy()

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        with self.embedding:
            return super().embed(texts, kind)

    def count_tokens(self, text: str) -> int:
        with self.counting:
            return super().count_tokens(text)


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("throughput", _TITLE, skipped=why)
    import lancedb  # noqa: F401  # seconds, and no matter of throughput; Dagster came with the platform

    platform = pages_platform(folder, size)
    provider = _TimedProvider(LocalEmbedding())
    done: list[dict[str, int]] = []
    with mock.patch("rag_assets.defs.resources.make_provider", return_value=provider):
        seconds = wall_seconds(lambda: done.append(platform.ingest()))
    documents, chunks, texts = (done[0][key] for key in ("added", "chunks", "texts_embedded"))
    return Report(
        name="throughput",
        title=_TITLE,
        figures=[
            Figure("documents a second", documents / seconds, "/s"),
            Figure(
                "chunks a second",
                chunks / seconds,
                "/s",
                Baseline("in the embedder alone", texts / provider.embedding.seconds),
            ),
            Figure("share of time in the embedder", 100 * provider.embedding.seconds / seconds, "%", goal=_GOAL),
            Figure("share of time counting word pieces", 100 * provider.counting.seconds / seconds, "%"),
        ],
        notes=[
            f"{documents} pages, {chunks} chunks of {texts} different texts, {seconds:.1f} s; one run.",
            "Loading the model is the embedder's time. Dagster and LanceDB were imported before, their tables are new.",
        ],
    )
