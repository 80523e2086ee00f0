"""Personas as a person meets them: `--persona`, the job `ask`, `rag-assets personas`, and what is kept of it."""

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest
import yaml

from rag_assets_tests.answering.test_personas import KEEPER, SHIPPED, write_persona
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform

QUESTION = "Who keeps the lighthouse?"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """One platform for all questions: what a test changes is its personas and its generator."""
    with FakeOpenAI() as fake:
        yield Platform(tmp_path_factory.mktemp("harbour"), fake)


@pytest.fixture
def harbour(shared: Platform) -> Platform:
    """A published corpus, answered by a chat model, with the keeper in a folder of its own."""
    fake = fake_of(shared)
    shared.configure(generation={"provider": "openai", "base_url": fake.base_url, "model": "chat"})
    add_keeper(shared)
    if not any(shared.corpus.iterdir()):
        shared.write("harbour.md", "The lighthouse is kept by Amara Osei.")
        shared.write("guide/market.md", "Fish is sold on Fridays, and the lighthouse keeper buys it.")
        shared.ingest()
    fake.requests.clear()
    return shared


def fake_of(platform: Platform) -> FakeOpenAI:
    assert platform.fake is not None
    return platform.fake


def add_keeper(platform: Platform) -> None:
    write_persona(platform.root / "ours")
    name_folder(platform)


def name_folder(platform: Platform) -> None:
    path = platform.root / "corpora.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "personas": "ours"}))


def chat_requests(platform: Platform) -> list[dict[str, Any]]:
    return [request.body for request in fake_of(platform).requests_to("/chat/completions")]


def test_the_model_is_told_who_answers_and_the_answer_says_it(harbour: Platform):
    answer = harbour.ask(QUESTION, "--persona", "keeper")
    system = chat_requests(harbour)[-1]["messages"][0]["content"]
    assert system.startswith("You answer questions from numbered sources")
    for part in ("role", "style", "expected_output", "archetype"):
        assert KEEPER[part] in system
    for part in (
        "inputs",
        "constraints",
        "responsibilities",
        "role_skills",
        "role_collaborators",
        "adoption_checklist",
    ):
        assert f"- {KEEPER[part][0]}" in system
    assert answer["persona_id"] == "keeper"
    kept = harbour.store.answers().read(["persona_id", "prompt_version", "fingerprint"]).to_pylist()
    assert kept[-1] == {name: answer[name] for name in ("persona_id", "prompt_version", "fingerprint")}
    assert " as keeper, " in harbour.run("ask", QUESTION, "--persona", "keeper").out


def test_passages_are_the_same_with_and_without_a_persona(harbour: Platform):
    plain, spoken = harbour.ask(QUESTION), harbour.ask(QUESTION, "--persona", "keeper")
    first, second = (request["messages"] for request in chat_requests(harbour))
    assert first[1] == second[1]
    assert first[0] != second[0]
    assert plain["persona_id"] is None
    assert plain["citations"] == spoken["citations"] != []
    assert plain["prompt_version"] == spoken["prompt_version"]


def test_the_fingerprint_follows_everything_that_makes_the_answer(harbour: Platform):
    def fingerprint(*options: str, question: str = QUESTION) -> str:
        found = harbour.ask(question, *options)["fingerprint"]
        assert isinstance(found, str)
        return found

    same = fingerprint("--persona", "keeper")
    assert fingerprint("--persona", "keeper") == same
    seen = {same, fingerprint(), fingerprint("--persona=keeper", "--top-k=1"), fingerprint(question="And who else?")}
    write_persona(harbour.root / "ours", style="Loud.")
    seen.add(fingerprint("--persona", "keeper"))
    assert len(seen) == 5
    write_persona(harbour.root / "ours")
    chat = {"provider": "openai", "base_url": fake_of(harbour).base_url, "model": "chat"}
    harbour.configure(generation={**chat, "timeout_seconds": 7, "usd_per_million_input_tokens": 3})
    name_folder(harbour)
    assert fingerprint("--persona", "keeper") == same
    harbour.configure(generation={**chat, "temperature": 0.7})
    name_folder(harbour)
    assert fingerprint("--persona", "keeper") not in seen


def test_a_persona_with_a_filter_reads_only_what_passes_it(harbour: Platform):
    write_persona(harbour.root / "ours", where="document LIKE 'guide/%'")
    answer = harbour.ask(QUESTION, "--persona", "keeper")
    assert answer["sources"] == ["guide/market.md"]
    assert "The persona keeper reads only where document LIKE 'guide/%'" in answer["notes"]
    answer = harbour.ask(QUESTION, "--persona", "keeper", "--where", "document = 'harbour.md'")
    assert answer["sources"] == ["harbour.md"]
    assert answer["notes"] == []


def test_the_job_asks_as_a_persona(harbour: Platform):
    definitions = harbour.definitions()
    with harbour.instance() as instance:
        job = definitions.resolve_job_def("ask")
        result = job.execute_in_process(run_config={"question": QUESTION, "persona": "keeper"}, instance=instance)
        assert result.output_for_node("generate").persona_id == "keeper"
        assert KEEPER["role"] in chat_requests(harbour)[-1]["messages"][0]["content"]
        with pytest.raises(dg.Failure, match="there is no persona 'pirate'; there are: fact-checker, keeper, "):
            job.execute_in_process(run_config={"question": QUESTION, "persona": "pirate"}, instance=instance)


def test_extracts_are_the_same_for_every_persona_and_say_so(harbour: Platform):
    harbour.configure(generation={"provider": "extractive"})
    name_folder(harbour)
    plain, spoken = harbour.ask(QUESTION), harbour.ask(QUESTION, "--persona", "keeper")
    assert plain["answer"] == spoken["answer"]
    assert (spoken["persona_id"], spoken["prompt_version"]) == ("keeper", None)
    note = "extractive sends no prompt, so the persona keeper changes nothing in its words."
    assert (plain["notes"], spoken["notes"]) == ([], [note])


def test_an_unknown_persona_and_a_broken_file_are_one_line(platform: Platform):
    add_keeper(platform)
    outcome = platform.run("ask", QUESTION, "--persona", "pirate")
    assert outcome.status == 1
    assert (
        outcome.err
        == f"rag-assets: there is no persona 'pirate'; there are: {', '.join(sorted([*SHIPPED, 'keeper']))}\n"
    )
    path = write_persona(platform.root / "ours", role=None)
    for command in (["ask", QUESTION, "--persona", "keeper"], ["personas"]):
        outcome = platform.run(*command)
        assert (outcome.status, outcome.err) == (1, f"rag-assets: {path}: role: is required\n")
    assert "no published index yet" in platform.run("ask", QUESTION).err


def test_personas_are_listed(platform: Platform):
    add_keeper(platform)
    listed = platform.run("personas", "--json").json["personas"]
    assert [one["id"] for one in listed] == sorted([*SHIPPED, "keeper"])
    assert next(one for one in listed if one["id"] == "keeper") == {
        "id": "keeper",
        "name": "The keeper",
        "phase": "operation",
        "category": "harbour",
        "role": "You keep the lighthouse.",
        "where": None,
        "file": str(platform.root / "ours" / "keeper.yaml"),
    }
    shown = platform.run("personas").out
    assert all(text in shown for text in ("keeper", "The keeper", "operation", "harbour", "You keep the lighthouse."))
