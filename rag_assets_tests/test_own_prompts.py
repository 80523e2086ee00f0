"""Prompts of a person's own: sent, versioned by what they say, and checked before anything is paid."""

import dagster as dg
import pytest

from rag_assets.answering.prompts import read_prompts
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform

QUESTION = "Who keeps the lighthouse?"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    platform = Platform(tmp_path_factory.mktemp("prompts"))
    platform.write("harbour.md", "The lighthouse is kept by Amara Osei.")
    platform.ingest()
    return platform


@pytest.fixture
def harbour(shared: Platform, fake: FakeOpenAI) -> Platform:
    """A published page, answered by a chat model whose prompts are in `ours`, relative to corpora.yaml."""
    chat = {"provider": "openai", "base_url": fake.base_url, "model": "chat", "prompts": "ours"}
    shared.configure(generation=chat)
    folder = shared.root / "ours"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    return shared


def test_they_take_the_place_of_ours_and_the_answer_says_which(harbour: Platform, fake: FakeOpenAI):
    prompts = harbour.root / "ours"
    (prompts / "system.md").write_text("Speak like a pilot. Unknown? NOT_IN_SOURCES.")
    (prompts / "question.md").write_text("Asked: $question\n\n$sources\n\n($boundary)")
    first = harbour.ask(QUESTION)
    system, user = fake.requests_to("/chat/completions")[-1].body["messages"]
    assert system["content"] == "Speak like a pilot. Unknown? NOT_IN_SOURCES."
    assert user["content"].startswith(f"Asked: {QUESTION}\n\nBEGIN ")
    assert "The lighthouse is kept by Amara Osei." in user["content"]
    assert first["prompt_version"] not in (None, read_prompts().version)
    (prompts / "system.md").write_text("Speak like a sailor. Unknown? NOT_IN_SOURCES.")
    second = harbour.ask(QUESTION)
    assert second["prompt_version"] != first["prompt_version"]
    assert second["fingerprint"] != first["fingerprint"]


def test_the_same_words_from_another_folder_are_the_same_prompts(harbour: Platform, fake: FakeOpenAI):
    (harbour.root / "ours" / "system.md").write_text(read_prompts().texts["system"])
    answer = harbour.ask(QUESTION)
    harbour.configure(generation={"provider": "openai", "base_url": fake.base_url, "model": "chat"})
    plain = harbour.ask(QUESTION)
    assert (answer["prompt_version"], answer["fingerprint"]) == (plain["prompt_version"], plain["fingerprint"])


def test_a_broken_one_is_told_in_one_line_before_anything_is_sent(harbour: Platform, fake: FakeOpenAI):
    path = harbour.root / "ours" / "question.md"
    path.write_text("$sources, $question")
    outcome = harbour.run("ask", QUESTION)
    assert outcome.status == 1
    assert outcome.err == (f"rag-assets: {path}: $boundary is missing; its places are $boundary, $question, $sources\n")
    job = harbour.definitions().resolve_job_def("ask")
    with harbour.instance() as instance, pytest.raises(dg.Failure, match=r"question\.md: \$boundary is missing"):
        job.execute_in_process(run_config={"question": QUESTION}, instance=instance)
    path.unlink()
    assert "holds no prompt; generation.prompts names a folder with system.md" in harbour.run("ask", QUESTION).err
    assert fake.requests == []
