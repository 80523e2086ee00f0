"""What workers of a Ray cluster add to the embedded model on one machine: shape and overhead, not speed-up by nodes."""

import os
from functools import partial
from pathlib import Path

from rag_assets.config import LocalEmbedding, RayWorkers
from rag_assets.embedding.batching import embed_all
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.providers import make_provider
from rag_assets.embedding.ray_workers import RayProvider
from rag_assets_tests import ray_cluster
from rag_assets_tests.benchmarks.measuring import medians_in_turn, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size

_TITLE = "The embedded model over Ray"
_WORKERS = (1, 2, 4)
_WORDS = 60


def run(size: Size, folder: Path) -> Report:
    """Embed made-up texts in this process with one thread and two, and over one, two and four workers of one thread."""
    if why := ray_cluster.missing():
        return Report("ray_workers", _TITLE, skipped=why)
    count, repeats = (16, 1) if size == "tiny" else (128, 5)
    texts = {str(number): " ".join(f"ship{number} of{word}" for word in range(_WORDS // 2)) for number in range(count)}
    one_thread = LocalEmbedding(threads=1)
    with ray_cluster.two_nodes({}) as cluster:
        over_ray = {
            workers: RayProvider(one_thread, RayWorkers(workers=workers, cpus=0.5, address=cluster.address))
            for workers in _WORKERS
        }
        started = {
            workers: wall_seconds(partial(provider.embed, ["ship"], "document"))
            for workers, provider in over_ray.items()
        }
        here, two, *seconds = medians_in_turn(
            repeats,
            *(
                partial(_seconds, provider, texts)
                for provider in (
                    make_provider(one_thread),
                    make_provider(LocalEmbedding(threads=2)),
                    *over_ray.values(),
                )
            ),
        )
        over_ray.clear()
    baseline = Baseline("here, one thread", count / here)
    return Report(
        name="ray_workers",
        title=_TITLE,
        figures=[
            Figure("texts a second here, two threads", count / two, "/s", baseline),
            *(
                Figure(f"texts a second, workers {workers}", count / taken, "/s", baseline)
                for workers, taken in zip(_WORKERS, seconds, strict=True)
            ),
            Figure("the first worker is ready", started[_WORKERS[0]], "s"),
        ],
        notes=[
            f"{count} texts of {_WORDS} words; two nodes on one machine of {os.cpu_count()} cores, one thread a worker; the"
            f" median of {repeats}, in turn.",
            "The first worker: from the first text to its vector, with the connection, its process and its model.",
        ],
    )


def _seconds(provider: EmbeddingProvider, texts: dict[str, str]) -> float:
    return wall_seconds(lambda: embed_all(texts, provider, keep=lambda *_: None))
