"""How long a question takes: by its parts in a process that runs already, and with the start of a fresh one."""

import itertools
import statistics
import time
from functools import partial
from pathlib import Path

from rag_assets.asking import ask, make_question
from rag_assets.embedding.providers import make_provider
from rag_assets_tests.benchmarks.corpora import missing_pages, pages_of, pages_platform
from rag_assets_tests.benchmarks.measuring import COMMAND_LINE, median, python_seconds, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size

_TITLE = "A question, answered from the page that says it"
_WARM = {"tiny": 2, "full": 20}
_COLD = {"tiny": 1, "full": 5}
_QUESTIONS = (
    "How do I declare the type of a response?",
    "What happens when a header is missing?",
    "How are background tasks started?",
    "Where do I put the settings of an application?",
    "What is the difference between async and plain functions?",
)


def run(size: Size, folder: Path) -> Report:
    if why := missing_pages(size):
        return Report("ask", _TITLE, skipped=why)
    platform = pages_platform(folder, size)
    platform.ingest()
    store, settings = platform.store, platform.settings
    provider = make_provider(platform.notes.embedding)
    ask(store, settings, make_question(settings, _QUESTIONS[-1]))
    parts: dict[str, list[float]] = {"retrieve": [], "rerank": [], "generate": [], "whole": []}
    embedding: list[float] = []
    for text in itertools.islice(itertools.cycle(_QUESTIONS), _WARM[size]):
        started = time.perf_counter()
        answer = ask(store, settings, make_question(settings, text))
        parts["whole"].append(1000 * (time.perf_counter() - started))
        for part in ("retrieve", "rerank", "generate"):
            parts[part].append(answer.timings_ms[part])
        embedding.append(1000 * wall_seconds(partial(provider.embed, [text], "query")))
    question = [*COMMAND_LINE, "ask", _QUESTIONS[0]]
    cold = 1000 * median(_COLD[size], lambda: python_seconds(*question, environment=platform.environment))
    start = 1000 * median(_COLD[size], lambda: python_seconds("-c", "import lance"))
    whole, retrieve, rerank, generate = (
        statistics.median(parts[part]) for part in ("whole", "retrieve", "rerank", "generate")
    )
    return Report(
        name="ask",
        title=_TITLE,
        figures=[
            Figure("retrieve", retrieve, "ms", Baseline("embedding the question", statistics.median(embedding))),
            Figure("rerank (late_interaction)", rerank, "ms", Baseline("the whole question", whole)),
            Figure("generate (extractive)", generate, "ms", Baseline("the whole question", whole)),
            Figure("the whole question, in a process that runs already", whole, "ms"),
            Figure("`rag-assets ask` afresh", cold, "ms", Baseline("a fresh Python that imports lance", start)),
        ],
        notes=[
            f"{answer.chunks_indexed:,} chunks from {len(pages_of(platform))} pages; wall time, median of {_WARM[size]},"
            f" afresh of {_COLD[size]}.",
        ],
    )
