"""What people say of retrieval on the command line, in corpora.yaml and in the job: filters, copies, variety, neighbours."""

import os
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from rag_assets.defs.code_location import build_definitions
from rag_assets_tests.platform import Platform

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa"


def page(author: str, *paragraphs: str) -> str:
    return f"---\nauthor: {author}\ntags: [pass, alps]\n---\n" + "\n\n".join(paragraphs) + "\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    platform = Platform(tmp_path_factory.mktemp("passes"))
    platform.write(
        "guide/grimsel.md", page("Ann", "The Grimsel is closed.", "It opens in June.", "Snow lies until then.")
    )
    platform.write("notes/grimsel.md", page("Bob", "The Grimsel is closed.", f"The Grimsel has a lake, {WORDS}."))
    platform.write("furka.md", "The Furka is high.")
    platform.ingest()
    return platform


@pytest.fixture
def passes(shared: Platform) -> Iterator[Platform]:
    yield shared
    shared.configure(retrieval={})


def documents(platform: Platform, *options: str) -> set[str]:
    return {row["document"] for row in platform.search("Is the Grimsel closed?", *options)}


def executed(platform: Platform, **config: Any) -> Any:
    with mock.patch.dict(os.environ, platform.environment):
        job = build_definitions(platform.settings).resolve_job_def("ask")
        result = job.execute_in_process(run_config={"question": "Is the Grimsel closed?", **config})
    return result.output_for_node("generate")


def test_filters_may_be_given_several_times_and_beside_a_condition(passes: Platform):
    assert documents(passes, "--filter", "author=Ann") == {"guide/grimsel.md"}
    assert documents(passes, "-f", "tag=alps", "-f", "author!=Ann") == {"notes/grimsel.md"}
    assert documents(passes, "-f", "tag=alps", "--where", "document LIKE 'guide/%'") == {"guide/grimsel.md"}
    assert documents(passes, "-f", "path=*.md") == {"furka.md"}


def test_an_answer_reads_only_what_passes_the_filters(passes: Platform):
    assert passes.ask("Is the Grimsel closed?", "-f", "author=Bob")["sources"] == ["notes/grimsel.md"]
    assert executed(passes, filters=["author=Bob"]).sources == ["notes/grimsel.md"]


def test_filters_of_the_corpus_hold_for_every_question(passes: Platform):
    passes.configure(retrieval={"filters": ["author=Ann"]})
    assert documents(passes) == {"guide/grimsel.md"}
    assert documents(passes, "-f", "author=Bob") == {"notes/grimsel.md"}
    assert passes.ask("Is the Grimsel closed?")["sources"] == ["guide/grimsel.md"]


def test_copies_are_one_passage_that_tells_of_the_other(passes: Platform):
    assert documents(passes) == {"guide/grimsel.md", "notes/grimsel.md", "furka.md"}
    passes.configure(retrieval={"collapse": 0.9})
    rows = passes.search("The Grimsel is closed.")
    closed = [row for row in rows if row["text"] == "The Grimsel is closed."]
    assert len(closed) == 1
    places = [(place["document"], place["start_line"], place["corpus"]) for place in closed[0]["also_in"]]
    assert {closed[0]["document"], *(place[0] for place in places)} == {"guide/grimsel.md", "notes/grimsel.md"}
    assert places[0][1:] == (5, "notes")
    assert "also in " in passes.run("search", "The Grimsel is closed.").out
    [citation] = [one for one in passes.ask("Is the Grimsel closed?")["citations"] if one["also_in"]]
    assert citation["also_in"] == closed[0]["also_in"]
    kept = passes.store.answers().read(["citation_also_in"]).to_pylist()[-1]["citation_also_in"]
    assert closed[0]["also_in"] in kept


def test_an_answer_reads_around_its_passages(passes: Platform):
    text = (passes.corpus / "guide/grimsel.md").read_text().partition("---\n")[2].partition("---\n")[2]
    options = ("-f", "author=Ann", "--top-k", "1", "--neighbours", "1")
    [citation] = passes.ask("When does it open, in June?", *options)["citations"]
    assert citation["text"] == text.strip()
    assert text[citation["start_char"] : citation["end_char"]] == citation["text"]
    assert (citation["start_line"], citation["end_line"]) == (5, 9)
    answer = executed(passes, filters=["author=Ann"], top_k=1, neighbours=1)
    assert [one.text for one in answer.citations] == ["The Grimsel is closed.\n\nIt opens in June."]
    passes.configure(retrieval={"neighbours": 20})
    assert {one["text"] for one in passes.ask("Is the Grimsel closed?", "-f", "author=Ann")["citations"]} == {
        text.strip()
    }


def test_neighbours_that_are_gone_are_noted_and_the_passages_answer(passes: Platform, monkeypatch: pytest.MonkeyPatch):
    from rag_assets import asking
    from rag_assets.errors import StoreError

    def lost(*_: object, **__: object) -> None:
        raise StoreError("version 3 is gone")

    monkeypatch.setattr(asking, "read_neighbours", lost)
    answer = passes.ask("Is the Grimsel closed?", "--neighbours", "1")
    assert answer["answered"]
    assert "The chunks around the passages could not be read: version 3 is gone" in answer["notes"]


def test_diversity_prefers_a_passage_that_says_something_else(passes: Platform):
    def texts(*options: str) -> list[str]:
        outcome = passes.run("search", "The Grimsel is closed.", "--json", "--top-k", "2", *options)
        return [row["text"] for row in outcome.json["results"]]

    assert texts() == ["The Grimsel is closed."] * 2
    assert len(set(texts("--diversity", "0.5"))) == 2
    passes.configure(retrieval={"diversity": 0.5})
    assert len(set(texts())) == 2
    assert texts("--diversity", "0") == ["The Grimsel is closed."] * 2
    answer = executed(passes, top_k=2, diversity=0.5)
    assert answer.answered


def test_weights_are_those_of_the_corpus(passes: Platform):
    passes.configure(retrieval={"weights": {"vector": 0}})
    assert {row["similarity"] for row in passes.search("Grimsel")} == {None}


@pytest.mark.parametrize(
    "where",
    [
        "1=1) OR (1=1",
        "1=1) --",
        "(1=1",
        "1=1 /* ",
        "document = 'a",
        "1=1; DROP",
        "$$($$) OR (0=1 OR $$)$$='x'",
        "E'\\') OR (1=1'",
    ],
)
def test_no_condition_gets_around_a_filter(passes: Platform, where: str):
    told = passes.run("search", "Is the Grimsel closed?", "--filter", "author=Ann", "--where", where)
    assert told.status == 1
    assert "is not one SQL condition" in told.err


def test_a_condition_may_hold_anything_in_quotes(passes: Platform):
    where = "document != 'a);--' OR title = '$ it''s (fine'"
    assert documents(passes, "-f", "author=Ann", "--where", where) == {"guide/grimsel.md"}
