"""Follow-up questions, asked by the command line and by the job."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform

QUESTION = "When does the lighthouse keeper light the lamp?"
REWRITE = "The last question of a conversation"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    with FakeOpenAI() as fake:
        platform = Platform(tmp_path_factory.mktemp("conversations"), fake)
        platform.write("lamp.md", "The lighthouse keeper lights the lamp at dusk.\n\nThe lamp burns whale oil.")
        platform.write("market.md", "Fish is sold on Fridays.\n\nThe market is closed in winter.")
        platform.ingest()
        yield platform


@pytest.fixture
def harbour(shared: Platform) -> Platform:
    """Quotes from two pages; questions are embedded by the fake."""
    shared.configure(generation={"provider": "extractive"})
    return shared


@pytest.fixture
def chatting(shared: Platform) -> Platform:
    """The same with a chat model, which knows how to rewrite one question."""
    fake = fake_of(shared)
    chat = {"provider": "openai", "base_url": fake.base_url, "model": "chat", "max_retries": 0}
    shared.configure(generation=chat)
    fake.chat_reply = replying("What does the lamp of the lighthouse burn?")
    fake.count_tokens = len
    fake.requests.clear()
    return shared


def fake_of(platform: Platform) -> FakeOpenAI:
    assert platform.fake is not None
    return platform.fake


def replying(rewritten: str) -> Callable[[list[dict[str, Any]]], str]:
    def reply(messages: list[dict[str, Any]]) -> str:
        return rewritten if messages[0]["content"].startswith(REWRITE) else "Whale oil [1]."

    return reply


def history(platform: Platform, *turns: tuple[str, str]) -> str:
    path = platform.root / "history.jsonl"
    path.write_text("".join(json.dumps({"question": asked, "answer": said}) + "\n" for asked, said in turns))
    return str(path)


def test_a_follow_up_is_searched_for_in_words_that_stand_alone(harbour: Platform):
    path = history(harbour, ("What does the lamp of the lighthouse burn?", "It burns `oil`."))
    answer = harbour.ask("When is it lit?", "--history", path)
    assert answer["question"] == "When is it lit?"
    assert answer["standalone_question"] == "When is it lit (lamp lighthouse burn oil)?"
    assert fake_of(harbour).embedded_texts[-1] == answer["standalone_question"]
    assert answer["timings_ms"]["rewrite"] >= 0
    assert answer["continues"] is None
    columns = ["question", "standalone_question"]
    (kept,) = harbour.store.answers().read(columns, where=f"run_id = '{answer['run_id']}'").to_pylist()
    assert kept == {name: answer[name] for name in columns}
    assert (
        "asked as: When is it lit (lamp lighthouse burn oil)?"
        in harbour.run("ask", "When is it lit?", "--history", path).out
    )


def test_a_question_that_stands_alone_is_left_alone(harbour: Platform):
    path = history(harbour, ("When is fish sold?", "On Fridays."))
    answer = harbour.ask(QUESTION, "--history", path)
    assert answer["standalone_question"] is None
    assert fake_of(harbour).embedded_texts[-1] == QUESTION
    assert "rewrite" not in harbour.ask(QUESTION)["timings_ms"]


def test_an_answer_is_continued_by_its_run_id_and_the_last_by_name(harbour: Platform):
    first = harbour.ask("What does the lamp of the lighthouse burn?")
    other = harbour.ask("When is the market closed?")
    second = harbour.ask("When is it lit?", "--continue", first["run_id"])
    assert second["continues"] == first["run_id"]
    assert "lamp lighthouse burn" in second["standalone_question"]
    last = harbour.ask("And why?", "--continue", "last")
    assert last["continues"] == second["run_id"]
    assert last["standalone_question"].startswith("And why (lit lamp lighthouse burn")
    assert other["continues"] is None


def test_a_json_answer_is_the_history_of_the_next_question(harbour: Platform):
    path = harbour.root / "answer.json"
    path.write_text(harbour.run("ask", "What does the lamp of the lighthouse burn?", "--json").out)
    assert "lamp lighthouse burn" in harbour.ask("When is it lit?", "--history", str(path))["standalone_question"]
    path.write_text(harbour.run("ask", "What does the lamp of the lighthouse burn?", "--json", "--stream").out)
    assert "lamp lighthouse burn" in harbour.ask("When is it lit?", "--history", str(path))["standalone_question"]


def test_a_chat_model_rewrites_and_its_tokens_are_counted(chatting: Platform):
    fake_of(chatting).count_tokens = lambda text: (
        100 if text.startswith(REWRITE) else 10 if text.startswith("The sources") else 1
    )
    path = history(chatting, ("How high is the lighthouse?", "It is 30 metres high [1]."))
    answer = chatting.ask("And what does its lamp burn?", "--history", path)
    rewriting, answering = fake_of(chatting).requests_to("/chat/completions")
    prompt = rewriting.body["messages"][0]["content"]
    assert '{"question": "How high is the lighthouse?", "answer": "It is 30 metres high."}' in prompt
    assert prompt.endswith("Last question: And what does its lamp burn?")
    assert answering.body["messages"][1]["content"].endswith("Question: What does the lamp of the lighthouse burn?")
    assert answer["question"] == "And what does its lamp burn?"
    assert answer["standalone_question"] == "What does the lamp of the lighthouse burn?"
    assert answer["usage"]["prompt_tokens"] == 100 + 1 + 10
    assert answer["usage"]["completion_tokens"] == 2
    assert answer["prompt_version"]


@pytest.mark.parametrize(
    ("rewritten", "used"),
    [
        ('Question: "What burns?"', "What burns?"),
        ("**Standalone question:** What burns [1]?", "What burns?"),
        ("It burns oil.\n\nThe keeper said so.", None),
        ("x" * 2000, None),
    ],
)
def test_what_a_model_writes_is_read_leniently_or_left(chatting: Platform, rewritten: str, used: str | None):
    fake_of(chatting).chat_reply = replying(rewritten)
    answer = chatting.ask("And what does it burn?", "--history", history(chatting, ("How high is it?", "High.")))
    assert answer["standalone_question"] == used
    note = "The model did not put the question into one line that stands alone; it was asked as it is."
    assert answer["notes"] == ([] if used else [note])


def test_a_model_that_cannot_rewrite_is_passed_over_with_a_note(chatting: Platform):
    fake_of(chatting).fail_next(500, message="Too warm.", path="/chat/completions")
    answer = chatting.ask("And what does it burn?", "--history", history(chatting, ("How high is it?", "High.")))
    assert (answer["answer"], answer["standalone_question"]) == ("Whale oil [1].", None)
    assert answer["notes"][0].startswith("The question was asked as it is, for it could not be rewritten: ")
    assert "Too warm." in answer["notes"][0]


def test_the_fingerprint_follows_what_was_asked_and_what_it_became(chatting: Platform):
    path = history(chatting, ("How high is it?", "High."))
    same = chatting.ask("And what does it burn?", "--history", path)["fingerprint"]
    assert chatting.ask("And what does it burn?", "--history", path)["fingerprint"] == same
    assert chatting.ask("What burns?", "--history", path)["fingerprint"] != same
    fake_of(chatting).chat_reply = replying("What does the keeper burn?")
    assert chatting.ask("And what does it burn?", "--history", path)["fingerprint"] != same


def test_the_job_takes_a_history_and_continues_an_answer(harbour: Platform):
    first = harbour.ask("What does the lamp of the lighthouse burn?")
    definitions = harbour.definitions()
    turn = {"question": "What does the lamp of the lighthouse burn?", "answer": "Whale oil."}
    with harbour.instance() as instance:
        job = definitions.resolve_job_def("ask")

        def asked(**config: Any) -> Any:
            run_config = {"question": "When is it lit?", **config}
            return job.execute_in_process(run_config=run_config, instance=instance).output_for_node("generate")

        assert asked(history=[turn]).standalone_question == "When is it lit (lamp lighthouse burn)?"
        followed = asked(continues=first["run_id"])
        assert (followed.continues, followed.standalone_question) == (
            first["run_id"],
            "When is it lit (lamp lighthouse burn)?",
        )
        assert asked(continues="last").continues == followed.run_id
        with pytest.raises(dg.Failure, match="there is no answer of the run 'nope' to continue"):
            asked(continues="nope")
        with pytest.raises(dg.Failure, match="history and continues are both given"):
            asked(continues="last", history=[turn])
        with pytest.raises(dg.Failure, match="history 1: answer is ''; it must be text"):
            asked(history=[{"question": "a", "answer": ""}])


def test_a_conversation_goes_on_in_its_corpora(tmp_path: Path):
    platform = Platform(tmp_path)
    platform.write("lamp.md", "The lamp burns whale oil.")
    other = tmp_path / "other"
    other.mkdir()
    (other / "fish.md").write_text("Fish is sold on Fridays.")
    path = tmp_path / "corpora.yaml"
    text = path.read_text()
    path.write_text(
        text + text.partition("\n")[2].replace("notes:", "fish:").replace("source: corpus", "source: other")
    )
    assert platform.run("ingest").status == 0
    first = platform.ask("When is fish sold?", "--corpus", "fish")
    assert platform.ask("And what?", "--continue", first["run_id"])["corpus"] == "fish"
    assert platform.ask("And what?", "--continue", first["run_id"], "--corpus", "notes")["corpus"] == "notes"
    both = platform.ask("When is fish sold?", "--corpus", "all")
    assert platform.ask("And what?", "--continue", both["run_id"])["corpus"] == "notes, fish"


def test_bad_input_is_one_line(platform: Platform):
    for options, complaint in (
        (["--history", str(platform.root / "none.jsonl")], "none.jsonl: no such file"),
        (["--continue", "last"], "nothing was asked yet, so there is nothing to continue"),
        (["--continue", "nope"], "there is no answer of the run 'nope' to continue"),
        (["--continue", "last", "--history", "x"], "name one of them"),
    ):
        outcome = platform.run("ask", "And on Windows?", *options)
        assert outcome.status == 1
        assert complaint in outcome.err
        assert len(outcome.err.splitlines()) == 1
