"""Whether a slow provider is kept busy: requests a second, beside as many as its latency allows."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rag_assets.config import OpenAIEmbedding
from rag_assets.embedding.batching import embed_all
from rag_assets.embedding.claiming import MachineClaims
from rag_assets.embedding.openai_compatible import OpenAIProvider
from rag_assets.embedding.provider import Vectors
from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.measuring import median, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size

_TITLE = "A provider that takes 200 ms a request"
_LATENCY_SECONDS = 0.2
_TEXTS_A_REQUEST = 16


def run(size: Size, folder: Path) -> Report:
    """Embed made-up texts into a vector store, with one request in flight, and with four and eight."""
    rounds, repeats = (2, 1) if size == "tiny" else (25, 3)
    figures = []
    with _slow_server() as base_url:
        for concurrency in (1, 4, 8):
            numbers = itertools.count()
            seconds = median(
                repeats,
                lambda concurrency=concurrency, numbers=numbers: _seconds(  # type: ignore[misc]
                    base_url, folder / f"{concurrency}.{next(numbers)}", concurrency, rounds
                ),
            )
            figures.append(
                Figure(
                    f"requests a second, concurrency {concurrency}",
                    concurrency * rounds / seconds,
                    "/s",
                    Baseline("concurrency ÷ latency", concurrency / _LATENCY_SECONDS),
                    Goal("at least", 0.9 * concurrency / _LATENCY_SECONDS),
                )
            )
    return Report(
        name="concurrency",
        title=_TITLE,
        figures=figures,
        notes=[
            f"{_TEXTS_A_REQUEST} texts a request, {rounds} requests a place in flight; the median of {repeats}.",
            "Every response is in the vector store before its place in flight is taken again. The server is a process of"
            " its own on the same machine, and its work counts as ours.",
        ],
    )


def _seconds(base_url: str, folder: Path, concurrency: int, rounds: int) -> float:
    vectors = Store(str(folder)).vectors("slow")
    provider = OpenAIProvider(
        OpenAIEmbedding(
            provider="openai",
            model="slow",
            base_url=base_url,
            concurrency=concurrency,
            max_inputs_per_request=_TEXTS_A_REQUEST,
        )
    )
    provider.embed(["warm"], "document")
    texts = {f"{number:064d}": f"text {number}" for number in range(concurrency * rounds * _TEXTS_A_REQUEST)}

    def keep(keys: list[str], new: Vectors, tokens: list[int]) -> None:
        vectors.append(keys, np.asarray(new, dtype=np.float32), tokens)

    with MachineClaims(vectors.uri, vectors.watch().known) as claims:
        return wall_seconds(lambda: embed_all(texts, provider, keep=keep, claims=claims))  # type: ignore[arg-type]


@contextmanager
def _slow_server() -> Iterator[str]:
    command = [sys.executable, "-m", "rag_assets_tests.fakes", "--latency-seconds", str(_LATENCY_SECONDS)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate()
