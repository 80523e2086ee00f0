"""How fast the embedded model is, beside the same weights multiplied as floats, and what the stage around it costs.

The package of the weights holds a graph that turns them into floats. It is run here as it is shipped.
"""

import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import onnxruntime

from rag_assets.config import ChunkingSettings, LocalEmbedding
from rag_assets.embedding import local
from rag_assets.embedding.provider import Vectors
from rag_assets.materializing.embedded_texts import COLUMNS, embedded_texts
from rag_assets_tests.benchmarks.corpora import missing_pages, pages_of, pages_platform
from rag_assets_tests.benchmarks.kept_vectors import KeptVectors, quality_workbench
from rag_assets_tests.benchmarks.measuring import cpu_seconds, medians_in_turn, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.workbench import CORPUS, Workbench

_TITLE = "The embedded model"
_TIMES_FLOATS = 2.0
_TIMES_BARE = 1.15
_SAMPLE = 100

Window = Sequence[int]


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("local_embedding", _TITLE, skipped=why)
    platform = pages_platform(folder, size)
    names = pages_of(platform)
    bench = quality_workbench(
        folder / "home",
        pages=platform.corpus,
        vectors=folder / "vectors",
        chunking=ChunkingSettings(),
        embedding=LocalEmbedding(),
    )
    bench.read(*names)
    bench.chunk(*names)
    windows = [list(local._windows(*local._encode(text))) for text in _texts(bench)]
    repeats = 1 if size == "tiny" else 5
    return Report(
        name="local_embedding",
        title=_TITLE,
        figures=[*_speed(windows, repeats), *_stage(bench, names, windows, folder, repeats)],
        notes=[
            f"{len(windows)} different texts of {len(names)} pages, {np.mean([sum(map(len, of)) for of in windows]):.0f}"
            f" word pieces each; the first two figures over {min(_SAMPLE, len(windows))} of them, on one core.",
            f"Median of {repeats}, in turn. It depends on the processor: VNNI or AMX, or neither.",
            "The bare model: the same windows, already cut into word pieces, on as many threads, the longest first.",
            "Other work on the machine meets stage and model unequally; CPU time it meets less.",
        ],
    )


def _texts(bench: Workbench) -> list[str]:
    """The different texts of the chunks, as they are embedded."""
    rows = bench.store.chunks(CORPUS).read(list(COLUMNS))
    return list(dict(zip(*embedded_texts(bench.store, bench.corpus, rows), strict=True)).values())


def _speed(windows: Sequence[Sequence[Window]], repeats: int) -> list[Figure]:
    """Texts a CPU-second, and how near the vectors are."""
    # Spread over the pages: neighbours are alike.
    texts = windows[:: max(1, len(windows) // _SAMPLE)][:_SAMPLE]
    sample = [window for of_text in texts for window in of_text]
    ours, floats = local._model().embed, _floats()
    near = [float(ours(window) @ floats(window)) for window in sample]

    def seconds(embed: Callable[[Window], Vectors]) -> Callable[[], float]:
        return lambda: cpu_seconds(lambda: [embed(window) for window in sample])

    in_int8, in_floats = (len(texts) / taken for taken in medians_in_turn(repeats, seconds(ours), seconds(floats)))
    return [
        Figure(
            "texts a CPU-second",
            in_int8,
            "/s",
            Baseline("in floats", in_floats),
            Goal("at least", round(_TIMES_FLOATS * in_floats, 1)),
        ),
        Figure("cosine to the vector in floats, least", min(near), ""),
    ]


def _stage(
    bench: Workbench, names: Sequence[str], windows: Sequence[Sequence[Window]], folder: Path, repeats: int
) -> list[Figure]:
    """The seconds of the stage `embeddings` beside those of the model alone, over the same texts."""
    model, threads = local._model(), local._usable_cpus()
    longest_first = sorted((window for of_text in windows for window in of_text), key=len, reverse=True)
    stores = (KeptVectors(bench.store.home, str(folder / f"vectors-{number}")) for number in count())

    def stage() -> None:
        report = replace(bench, store=next(stores)).embed(*names)
        assert report.total("texts_embedded") == len(windows)

    def bare() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(model.embed, longest_first))

    cpu: dict[Callable[[], None], list[float]] = {stage: [], bare: []}

    def seconds(work: Callable[[], None]) -> Callable[[], float]:
        return lambda: wall_seconds(lambda: cpu[work].append(cpu_seconds(work)))

    ours, alone = medians_in_turn(repeats, seconds(stage), seconds(bare))
    cpu_ours, cpu_alone = (statistics.median(cpu[work]) for work in (stage, bare))
    return [
        Figure(
            "`embeddings` of all texts",
            ours,
            "s",
            Baseline("the bare model", alone),
            Goal("at most", round(_TIMES_BARE * alone, 2)),
        ),
        Figure("CPU time of the same", cpu_ours, "s", Baseline("the bare model", cpu_alone)),
    ]


def _floats() -> Callable[[Window], Vectors]:
    """The graph of the package as it is, one window at a time on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(local._model_bytes(), options, providers=["CPUExecutionProvider"])
    start, end = (local._tokenizer().token_to_id(mark) for mark in ("[CLS]", "[SEP]"))

    def embed(window: Window) -> Vectors:
        ids = np.array([[start, *window, end]])
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        return local._unit(session.run(["last_hidden_state"], inputs)[0][0].mean(axis=0, dtype=np.float64))

    return embed
