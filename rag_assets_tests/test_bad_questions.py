"""Questions that cannot be answered, asked by the command line and by the job: one line, or an honest answer."""

import json
from typing import Any

import dagster as dg
import pytest

from rag_assets_tests.platform import Platform


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    platform = Platform(tmp_path_factory.mktemp("questions"), options={"embedding": {"provider": "local"}})
    platform.write("harbour.md", "The lighthouse is kept by Amara Osei.")
    platform.ingest()
    return platform


def by_job(platform: Platform, question: str, **config: Any) -> Any:
    job = platform.definitions().resolve_job_def("ask")
    with platform.instance() as instance:
        result = job.execute_in_process(run_config={"question": question, **config}, instance=instance)
        return result.output_for_node("generate")


@pytest.mark.parametrize("question", ["駅はどこですか", "Сколько стоит билет?", "¿?!", "🐟"])
def test_a_question_in_another_script_is_declined_and_not_failed(shared: Platform, question: str):
    answer = shared.ask(question)
    assert (answer["answered"], answer["citations"]) == (False, [])
    assert answer["question"] == question


def test_so_is_it_by_the_job(shared: Platform):
    assert by_job(shared, "駅はどこですか").answered is False


def test_an_empty_corpus_has_nothing_to_ask(platform: Platform):
    platform.ingest()
    outcome = platform.run("ask", "Is anybody there?")
    assert outcome.err == "rag-assets: corpus notes has no published index yet; run: rag-assets ingest notes\n"
    with pytest.raises(dg.Failure, match="corpus notes has no published index yet"):
        by_job(platform, "Is anybody there?")


def test_a_corpus_that_was_emptied_answers_honestly(platform: Platform):
    platform.write("a.md", "The gate opens at seven.")
    platform.write("b.md", "Tickets cost 12 euros.")
    platform.ingest()
    for name in ("a.md", "b.md"):
        (platform.corpus / name).unlink()
    platform.ingest("--confirm-deletions")
    answer = platform.ask("When does the gate open?")
    assert (answer["answered"], answer["citations"], answer["chunks_indexed"]) == (False, [], 0)
    assert by_job(platform, "When does the gate open?").answered is False


def test_broken_questions_with_known_answers_are_named_by_their_line(shared: Platform):
    path = shared.root / "questions.jsonl"
    good = {"id": "a", "question": "Who keeps the lighthouse?", "document": "harbour.md"}
    for row, complaint in (
        ('{"id": "b", "question":', "questions.jsonl:2: is no JSON"),
        (
            json.dumps({**good, "id": "b", "answer": "x"}),
            "questions.jsonl:2: answer: unknown key; allowed: id, question",
        ),
        (json.dumps(good), "questions.jsonl:2: the id 'a' is taken; give each question another"),
    ):
        path.write_text(f"{json.dumps(good)}\n{row}\n")
        outcome = shared.run("evaluate", "--questions", str(path))
        assert (outcome.status, len(outcome.err.splitlines())) == (1, 1)
        assert complaint in outcome.err
    shared.configure(evaluation={"questions": str(path)})
    job = shared.definitions().resolve_job_def("notes_evaluate")
    with shared.instance() as instance, pytest.raises(dg.Failure, match="questions.jsonl:2: the id 'a' is taken"):
        job.execute_in_process(instance=instance)


def test_an_unknown_persona_is_told_by_the_job_too(shared: Platform):
    with pytest.raises(dg.Failure, match="there is no persona 'pirate'; there are: fact-checker"):
        by_job(shared, "Who?", persona="pirate")
    with pytest.raises(dg.Failure, match="the question is empty"):
        by_job(shared, "  ")
