"""Reranking as a person meets it: `search`, `ask`, the job `ask`, `evaluate`, and what is kept of it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
import yaml

from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.reranking.rerank_server import FakeRerankServer
from rag_assets_tests.reranking.tiny_cross_encoder import write_cross_encoder

QUESTION = "Who keeps the lighthouse?"
TEXTS = {
    "far.md": "Nothing is here but sand.",
    "keeper.md": "The lighthouse is kept by Amara Osei.",
    "market.md": "Fish is sold on Fridays.",
    "song.md": "Who keeps the sheep, who keeps the goats?",
}
KEPT_IN_FUSED_ORDER = "; passages are in fused order."


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One published corpus for all questions: what a test changes is its settings."""
    with FakeOpenAI() as fake:
        platform = Platform(tmp_path_factory.mktemp("harbour"), fake)
        for name, text in TEXTS.items():
            platform.write(name, text)
        platform.ingest()
        yield platform


@pytest.fixture
def server() -> Iterator[FakeRerankServer]:
    """A rerank endpoint."""
    with FakeRerankServer() as fake:
        yield fake


@pytest.fixture
def harbour(shared: Platform, server: FakeRerankServer) -> Platform:
    shared.configure(
        rerank={"provider": "http", "base_url": server.base_url, "model": "m", "first_wait_seconds": 0.001}
    )
    return shared


def favour_sand(server: FakeRerankServer) -> None:
    """Let the server like the passage about sand best."""

    def reply(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        scores = [0.9 if "sand" in text else 0.1 for text in body["documents"]]
        return 200, {"results": [{"index": at, "relevance_score": score} for at, score in enumerate(scores)]}

    server.reply = reply  # type: ignore[method-assign]


def found(platform: Platform, *options: str) -> dict[str, Any]:
    outcome = platform.run("search", QUESTION, "--json", "--top-k", "2", *options)
    assert outcome.status == 0, outcome.err
    return outcome.json


def test_search_shows_the_best_of_all_that_the_reranker_read(harbour: Platform, server: FakeRerankServer):
    favour_sand(server)
    plain = found(harbour, "--no-rerank")
    assert plain["reranker"] is None
    assert "far.md" not in [one["document"] for one in plain["results"]]
    assert server.requests == []

    reranked = found(harbour)
    assert reranked["reranker"].startswith("http/m@")
    assert reranked["notes"] == []
    assert [(one["document"], one["score"]) for one in reranked["results"]] == [
        ("far.md", 0.9),
        (plain["results"][0]["document"], 0.1),
    ]
    assert sorted(server.requests[0]["documents"]) == sorted(TEXTS.values())
    kept = {one["chunk_id"]: one["similarity"] for one in plain["results"]}
    assert reranked["results"][1]["similarity"] == kept[reranked["results"][1]["chunk_id"]]


def test_it_reads_as_many_as_it_is_told_to(harbour: Platform, server: FakeRerankServer):
    harbour.configure(rerank={"provider": "http", "base_url": server.base_url, "model": "m", "candidates": 3})
    found(harbour)
    assert len(server.requests[0]["documents"]) == 3


def test_an_answer_tells_who_ordered_its_passages(harbour: Platform, server: FakeRerankServer):
    answer = harbour.ask(QUESTION)
    assert answer["reranker"].startswith("http/m@")
    assert harbour.store.answers().read().to_pylist()[-1]["reranker"] == answer["reranker"]
    assert answer["timings_ms"]["rerank"] > 0
    assert f", reranked by {answer['reranker']}, " in " ".join(harbour.run("ask", QUESTION).out.split())
    assert answer["citations"][0]["score"] in (0.0, 0.25, 0.5, 0.75, 1.0)


def test_what_reranking_costs_is_part_of_what_the_answer_costs(harbour: Platform, server: FakeRerankServer):
    before = harbour.ask(QUESTION)["usage"]
    server.usage = {"usage": {"total_tokens": 100}}
    settings = {"provider": "http", "base_url": server.base_url, "model": "m", "usd_per_million_tokens": 10_000}
    harbour.configure(rerank=settings)
    after = harbour.ask(QUESTION)["usage"]
    assert after["cost_usd"] == pytest.approx(before["cost_usd"] + 1.0)
    assert after["prompt_tokens"] == before["prompt_tokens"] + 100


def test_the_model_that_reranked_is_in_the_fingerprint_and_its_address_is_not(
    harbour: Platform, server: FakeRerankServer
):
    before = harbour.ask(QUESTION)["fingerprint"]
    settings = {"provider": "http", "base_url": f"{server.base_url}/", "model": "m", "timeout_seconds": 9}
    harbour.configure(rerank=settings)
    assert harbour.ask(QUESTION)["fingerprint"] == before
    harbour.configure(rerank={**settings, "model": "n"})
    assert harbour.ask(QUESTION)["fingerprint"] != before


def test_one_that_fails_is_noted_and_the_question_is_answered(harbour: Platform, server: FakeRerankServer):
    plain = harbour.ask(QUESTION, "--no-rerank")
    server.fail_next(500, times=99)
    answer = harbour.ask(QUESTION)
    assert answer["answer"] == plain["answer"]
    assert answer["reranker"] is None
    [note] = [note for note in answer["notes"] if note not in plain["notes"]]
    assert note.startswith("The reranker http/m failed: The rerank server ")
    assert note.endswith(KEPT_IN_FUSED_ORDER)
    assert answer["fingerprint"] == plain["fingerprint"]
    outcome = harbour.run("search", QUESTION)
    assert (outcome.status, KEPT_IN_FUSED_ORDER in outcome.err) == (0, True)


def test_one_that_hangs_is_cut_off(harbour: Platform, server: FakeRerankServer):
    server.released.clear()
    settings = {"provider": "http", "base_url": server.base_url, "model": "m", "timeout_seconds": 0.2}
    harbour.configure(rerank=settings)
    assert harbour.ask(QUESTION)["notes"][0].endswith(KEPT_IN_FUSED_ORDER)
    server.released.set()


def test_a_cross_encoder_of_a_folder_is_found_beside_the_configuration(harbour: Platform):
    write_cross_encoder(harbour.root / "model", ["Amara", "sand."], factor=5)
    harbour.configure(rerank={"provider": "cross_encoder", "folder": "model"})
    outcome = harbour.run("search", "Amara", "--json", "--top-k", "2")
    best = outcome.json["results"][0]
    assert (best["document"], round(best["score"], 3)) == ("keeper.md", 0.993)
    assert outcome.json["reranker"].startswith("cross_encoder/model@")


def test_a_chat_model_orders_the_passages(harbour: Platform):
    fake = harbour.fake
    assert fake is not None
    fake.chat_reply = "[4, 3, 2, 1]"
    plain = [one["document"] for one in harbour.search(QUESTION, "--no-rerank")]
    harbour.configure(rerank={"provider": "llm", "base_url": fake.base_url, "model": "chat"})
    assert [one["document"] for one in harbour.search(QUESTION)] == plain[::-1]


def run(platform: Platform, **config: Any) -> dg.ExecuteInProcessResult:
    with mock.patch.dict(os.environ, platform.environment), dg.DagsterInstance.get() as instance:
        definition = platform.definitions().resolve_job_def("ask")
        return definition.execute_in_process(
            instance=instance, run_config={"question": QUESTION, **config}, raise_on_error=False
        )


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    [event] = [event for event in result.all_events if event.is_successful_output and event.step_key == "rerank"]
    return {label: value.value for label, value in event.step_output_data.metadata.items()}


def test_the_job_shows_where_each_passage_stood(harbour: Platform, server: FakeRerankServer):
    favour_sand(server)
    result = run(harbour, top_k=2)
    metadata = metadata_of(result)
    assert metadata["reranker"].startswith("http/m@")
    assert metadata["seconds"] > 0
    first, second = (record.data for record in metadata["ranks"].records)
    assert {**first, "before": None} == {"rank": 1, "before": None, "passage": "far.md:1", "score": 0.9}
    assert first["before"] > 2
    assert (second["rank"], second["before"]) == (2, 1)
    assert result.output_for_node("generate").reranker == metadata["reranker"]
    assert metadata_of(run(harbour, rerank=False))["reranker"] == "none"


def test_the_job_tries_what_may_pass_again_then_answers_in_fused_order(harbour: Platform, server: FakeRerankServer):
    """Each attempt of the step makes one attempt at the server."""
    harbour.configure(rerank={"provider": "http", "base_url": server.base_url, "model": "m", "max_retries": 0})
    server.fail_next(503, times=1)
    result = run(harbour)
    assert result.success
    assert [event.step_key for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"] == [
        "rerank"
    ]
    assert result.output_for_node("generate").reranker.startswith("http/m@")

    server.fail_next(503, times=2)
    answer = run(harbour).output_for_node("generate")
    assert (answer.reranker, answer.notes[0].endswith(KEPT_IN_FUSED_ORDER)) == (None, True)

    server.fail_next(401, times=1)
    result = run(harbour)
    assert not [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]
    assert result.output_for_node("generate").reranker is None


def test_several_corpora_are_reranked_once_by_the_first(shared: Platform, tmp_path: Path, server: FakeRerankServer):
    favour_sand(server)
    path = tmp_path / "corpora.yaml"
    notes = yaml.safe_load((shared.root / "corpora.yaml").read_text())["corpora"]["notes"]
    notes |= {"source": str(shared.corpus), "rerank": {"provider": "http", "base_url": server.base_url, "model": "m"}}
    other = {**notes, "rerank": {"provider": "http", "base_url": "http://127.0.0.1:9", "model": "never"}}
    both = Platform(tmp_path, fake=shared.fake)
    path.write_text(yaml.safe_dump({"corpora": {"notes": notes, "other": other}}, sort_keys=False))
    with mock.patch.object(Platform, "home", shared.home):
        assert both.run("ingest", "other").status == 0
        report = both.run("search", QUESTION, "--json", "-c", "all", "--top-k", "2").json
    assert report["reranker"].startswith("http/m@")
    assert {(one["corpus"], one["document"]) for one in report["results"]} == {("notes", "far.md"), ("other", "far.md")}
    assert len(server.requests) == 1


def test_an_evaluation_says_which_questions_were_judged_in_fused_order(harbour: Platform, server: FakeRerankServer):
    row = {"id": "keeper", "question": QUESTION, "document": "keeper.md", "passages": ["Amara Osei"]}
    (harbour.root / "questions.jsonl").write_text(json.dumps(row) + "\n")
    questions = str(harbour.root / "questions.jsonl")
    assert harbour.run("evaluate", "--questions", questions, "--json", "--no-answers").json["warnings"] == []
    server.fail_next(401, times=9)
    report = harbour.run("evaluate", "--questions", questions, "--json", "--no-answers").json
    [warning] = report["warnings"]
    assert warning.startswith("1 of 1 questions were judged in fused order: the reranker http/m: The rerank server ")
