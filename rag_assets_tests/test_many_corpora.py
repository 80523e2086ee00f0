"""One question over one, several or all corpora; each is asked in the model of its own index, and citations say which."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
import yaml

from rag_assets.asking import Found, make_question, rerank, retrieve_from_all
from rag_assets.config import HashingEmbedding, OpenAIEmbedding, RetrievalSettings, Settings
from rag_assets.defs.code_location import build_definitions
from rag_assets.errors import QuestionError
from rag_assets.records import Passage
from rag_assets.retrieving.fusing import fuse_corpora
from rag_assets.retrieving.parents import read_parents
from rag_assets_tests.answering.passages import passage
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import PARAGRAPHS, Outcome, Platform
from rag_assets_tests.workbench import Workbench, make_workbench

PASSES = ["The Grimsel is closed.", "The Furka is high."]
LAKES = ["Boats are for hire.", "The Grimsel has a lake."]


class Corpora(Platform):
    """A platform whose corpora are `passes` and `lakes`, by default with one model, and `empty`, which is never ingested."""

    def configure(self, **keys: Any) -> None:
        assert self.fake is not None
        embedding = {"provider": "openai", "base_url": self.fake.base_url, "model": "fake"}
        common = {"chunking": PARAGRAPHS, "embedding": embedding, "settle_seconds": 0}
        corpora = {name: {"source": name, **common, **keys.get(name, {})} for name in ("passes", "lakes", "empty")}
        (self.root / "corpora.yaml").write_text(yaml.safe_dump({"corpora": corpora}, sort_keys=False))

    def write_to(self, corpus: str, name: str, text: str) -> None:
        (self.root / corpus).mkdir(exist_ok=True)
        (self.root / corpus / name).write_text(text)


@pytest.fixture
def corpora(tmp_path: Path, fake: FakeOpenAI) -> Corpora:
    corpora = Corpora(tmp_path, fake)
    corpora.write_to("passes", "a.md", "\n\n".join(PASSES) + "\n")
    corpora.write_to("lakes", "a.md", "\n\n".join(LAKES) + "\n")
    corpora.write_to("empty", "a.md", "Nobody ingests this.\n")
    return corpora


def benches(tmp_path: Path, **embeddings: Any) -> dict[str, Workbench]:
    """A published corpus for each name, without Dagster; they share a store."""
    made = {}
    for name, embedding in embeddings.items():
        (tmp_path / name).mkdir()
        bench = make_workbench(tmp_path / name)
        bench.store = type(bench.store)(str(tmp_path / "home"))
        bench.corpus = bench.corpus.model_copy(update={"name": name, "embedding": embedding})
        made[name] = bench
    return made


def publish(bench: Workbench, *texts: str) -> None:
    bench.write("a.md", "\n\n".join(texts))
    bench.read("a.md")
    bench.chunk("a.md")
    bench.embed("a.md")
    bench.index("a.md")
    bench.publish()


def settings_of(made: dict[str, Workbench]) -> Settings:
    first = next(iter(made.values()))
    corpora = {name: bench.corpus for name, bench in made.items()}
    return Settings(path=Path("corpora.yaml"), home=first.store.home, corpora=corpora)


def find(made: dict[str, Workbench], text: str, corpus: str | Sequence[str], **how: Any) -> Found:
    settings = settings_of(made)
    question = make_question(settings, text, corpus=corpus, **how)
    return retrieve_from_all(next(iter(made.values())).store, settings, question)


HASHING = HashingEmbedding(provider="hashing", dimensions=64)


class TestRankings:
    def test_are_fused_by_rank_and_the_first_corpus_wins_a_tie(self):
        a, b = ([in_corpus(corpus, f"{corpus}{rank}") for rank in (1, 2)] for corpus in ("a", "b"))
        fused = fuse_corpora([a, b])
        assert [one.text for one in fused] == ["a1", "b1", "a2", "b2"]
        assert [one.score for one in fused] == [1 / 61, 1 / 61, 1 / 62, 1 / 62]

    def test_hold_a_passage_that_two_corpora_have_twice(self):
        twins = [[in_corpus(corpus, "the same")] for corpus in ("a", "b")]
        assert twins[0][0].chunk_id == twins[1][0].chunk_id
        assert [one.corpus for one in fuse_corpora(twins)] == ["a", "b"]
        assert len(read_parents(fuse_corpora(twins))) == 2


def in_corpus(corpus: str, text: str) -> Passage:
    return replace(passage(text, "a.md"), corpus=corpus, chunk_id=text)


class TestRetrieving:
    def test_finds_passages_of_every_corpus_and_says_which(self, tmp_path: Path):
        made = benches(tmp_path, passes=HASHING, lakes=HASHING)
        publish(made["passes"], *PASSES)
        publish(made["lakes"], *LAKES)
        found = find(made, "Is the Grimsel closed?", ["passes", "lakes"])
        assert {(one.corpus, one.text) for one in found.passages} == {
            *(("passes", text) for text in PASSES),
            *(("lakes", text) for text in LAKES),
        }
        assert [(one.corpus, one.text) for one in found.passages[:2]] == [
            ("passes", "The Grimsel is closed."),
            ("lakes", "The Grimsel has a lake."),
        ]
        assert list(found.publications) == ["passes", "lakes"]
        assert find(made, "Is the Grimsel closed?", "all").passages == found.passages

    def test_of_one_corpus_is_as_before(self, tmp_path: Path):
        made = benches(tmp_path, passes=HASHING, lakes=HASHING)
        publish(made["passes"], *PASSES)
        publish(made["lakes"], *LAKES)
        for named in ("lakes", ["lakes"], ["lakes", "lakes"]):
            found = find(made, "Is the Grimsel closed?", named)
            assert sorted(one.text for one in found.passages) == sorted(LAKES)
            assert list(found.publications) == ["lakes"]
        assert find(made, "Is the Grimsel closed?", []).question.corpus == "passes"

    def test_keeps_to_top_k_over_all_corpora(self, tmp_path: Path):
        made = benches(tmp_path, passes=HASHING, lakes=HASHING)
        publish(made["passes"], *PASSES)
        publish(made["lakes"], *LAKES)
        found = find(made, "Is the Grimsel closed?", "all", top_k=3)
        reranked = rerank(settings_of(made).corpus("passes"), found)
        assert [len(reranked.passages), len(reranked.reserve)] == [3, 1]

    def test_embeds_the_question_once_a_model(self, tmp_path: Path, fake: FakeOpenAI):
        one, other = (OpenAIEmbedding(provider="openai", base_url=fake.base_url, model=name) for name in ("m", "n"))
        made = benches(tmp_path, a=one, b=other, c=one)
        for bench in made.values():
            publish(bench, *PASSES)
        assert fake.embedded_texts.count(PASSES[0]) == 2
        sent = len(fake.requests)
        found = find(made, "Is the Furka high?", "all")
        assert [request.body["model"] for request in fake.requests[sent:]] == ["m", "n"]
        assert found.embedding_model == "openai/m, openai/n"
        find(made, "Is the Furka high?", "all", mode="text")
        assert len(fake.requests) == sent + 2

    def test_notes_a_corpus_without_an_index_unless_it_is_the_only_one(self, tmp_path: Path):
        made = benches(tmp_path, empty=HASHING, lakes=HASHING)
        publish(made["lakes"], *LAKES)
        found = find(made, "Where are boats?", "all")
        assert found.notes == ["corpus empty has no published index yet; run: rag-assets ingest empty"]
        assert list(found.publications) == ["lakes"]
        with pytest.raises(QuestionError, match="corpus empty has no published index yet"):
            find(made, "Where are boats?", "empty")

    def test_says_so_when_none_of_them_has_an_index(self, tmp_path: Path):
        made = benches(tmp_path, a=HASHING, b=HASHING)
        with pytest.raises(QuestionError, match="corpora a, b have no published index yet; run: rag-assets ingest"):
            find(made, "Where are boats?", "all")

    def test_passes_over_a_corpus_without_the_field_of_a_filter(self, tmp_path: Path):
        made = benches(tmp_path, passes=HASHING, lakes=HASHING)
        publish(made["passes"], *PASSES)
        publish(made["lakes"], "---\nauthor: Ann\n---\n" + LAKES[0])
        found = find(made, "Where are boats?", "all", filters=["author=Ann"])
        assert [one.text for one in found.passages] == [LAKES[0]]
        assert len(found.notes) == 1
        assert found.notes[0].startswith("corpus passes is passed over: the filter 'author=Ann' cannot be applied")
        with pytest.raises(QuestionError, match="no document of corpus passes has the field 'colour'"):
            find(made, "Where are boats?", "all", filters=["colour=red"])

    def test_applies_the_filters_of_each_corpus_to_its_own_passages(self, tmp_path: Path):
        made = benches(tmp_path, passes=HASHING, lakes=HASHING)
        made["passes"].configure(retrieval=RetrievalSettings(filters=["document=nothing.md"]))
        publish(made["passes"], *PASSES)
        publish(made["lakes"], *LAKES)
        assert {one.corpus for one in find(made, "Is the Grimsel closed?", "all").passages} == {"lakes"}

    def test_collapses_copies_in_different_corpora(self, tmp_path: Path):
        made = benches(tmp_path, passes=HASHING, lakes=HASHING)
        made["passes"].configure(retrieval=RetrievalSettings(collapse=0.9))
        publish(made["passes"], *PASSES)
        publish(made["lakes"], *PASSES)
        found = find(made, "Is the Grimsel closed?", "all")
        assert [(one.corpus, [place.corpus for place in one.also_in]) for one in found.passages] == [
            ("passes", ["lakes"]),
            ("passes", ["lakes"]),
        ]

    def test_looks_for_variety_across_models(self, tmp_path: Path):
        made = benches(tmp_path, passes=HASHING, lakes=HashingEmbedding(provider="hashing", dimensions=32))
        publish(made["passes"], *PASSES)
        publish(made["lakes"], *LAKES)
        found = rerank(made["passes"].corpus, find(made, "Is the Grimsel closed?", "all", diversity=0.3, top_k=3))
        assert len(found.passages) == 3
        assert found.passages[0].text == PASSES[0]

    def test_a_corpus_may_be_called_all(self, tmp_path: Path):
        made = benches(tmp_path, lakes=HASHING, all=HASHING)
        publish(made["all"], *PASSES)
        assert list(find(made, "Is the Furka high?", "all").publications) == ["all"]

    def test_an_unknown_corpus_is_told(self, tmp_path: Path):
        made = benches(tmp_path, lakes=HASHING)
        with pytest.raises(QuestionError, match="there is no corpus 'rivers' in corpora.yaml; it has: lakes"):
            find(made, "Where are boats?", ["lakes", "rivers"])


def test_two_corpora_share_vectors_are_asked_together_and_a_new_one_needs_no_code(corpora: Corpora, fake: FakeOpenAI):
    """The whole way: command line, table of answers, job of the UI."""
    corpora.write_to("lakes", "b.md", PASSES[1] + "\n")
    for name in ("passes", "lakes"):
        assert corpora.run("ingest", name).status == 0
    assert sorted(fake.embedded_texts) == sorted({*PASSES, *LAKES})

    outcome = corpora.run("search", "Is the Grimsel closed?", "-c", "passes", "-c", "lakes", "--json")
    report = outcome.json
    assert (report["corpus"], report["index_versions"]) == ("passes, lakes", {"passes": 1, "lakes": 1})
    assert [(one["corpus"], one["document"]) for one in report["results"][:2]] == [
        ("passes", "a.md"),
        ("lakes", "a.md"),
    ]
    assert len(report["results"]) == 5

    printed = corpora.run("search", "Is the Grimsel closed?", "--corpus", "all")
    assert "passes: a.md:1-1" in printed.out
    assert "corpus empty has no published index yet" in printed.err
    assert "passes: " not in corpora.run("search", "Is the Grimsel closed?").out

    answer = corpora.ask("Is the Grimsel closed, and where is a lake?", "--corpus", "all")
    assert (answer["corpus"], answer["index_version"]) == ("passes, lakes", 1)
    assert answer["index_versions"] == {"passes": 1, "lakes": 1}
    assert (answer["documents_indexed"], answer["chunks_indexed"]) == (3, 5)
    assert {(one["corpus"], one["document"]) for one in answer["citations"]} >= {("passes", "a.md")}
    assert answer["num_sources"] == len({(one["corpus"], one["document"]) for one in answer["citations"]})
    assert answer["notes"][0] == "corpus empty has no published index yet; run: rag-assets ingest empty"
    kept = corpora.store.answers().read().to_pylist()[-1]
    assert json.loads(kept["index_versions"]) == {"passes": 1, "lakes": 1}
    assert kept["citation_corpora"] == [one["corpus"] for one in answer["citations"]]

    definitions = build_definitions(corpora.settings)
    assert "empty_ingest" in {job.name for job in definitions.resolve_all_job_defs()}
    question = "Is the Grimsel closed, and where is a lake?"
    for named, expected in ((["lakes", "passes"], "lakes, passes"), ("all", "passes, lakes"), ("lakes", "lakes")):
        answered = executed(corpora, definitions, {"question": question, "corpus": named})
        assert answered.corpus == expected


def executed(corpora: Corpora, definitions: dg.Definitions, config: dict[str, Any]) -> Any:
    with mock.patch.dict(os.environ, corpora.environment):
        result = definitions.resolve_job_def("ask").execute_in_process(run_config=config)
    return result.output_for_node("generate")


def test_settings_of_the_first_corpus_answer_and_the_model_is_told_the_corpus(corpora: Corpora, fake: FakeOpenAI):
    for name in ("passes", "lakes"):
        assert corpora.run("ingest", name).status == 0
    corpora.configure(lakes={"generation": {"provider": "openai", "base_url": fake.base_url, "model": "chat"}})
    assert corpora.ask("Is the Grimsel closed?", "-c", "lakes", "-c", "passes")["model"] == "openai/chat"
    prompt = fake.requests_to("/chat/completions")[0].body["messages"][1]["content"]
    assert 'corpus "lakes", document "a.md"' in prompt
    assert 'corpus "passes", document "a.md"' in prompt
    corpora.ask("Is the Grimsel closed?", "-c", "lakes")
    assert "corpus " not in fake.requests_to("/chat/completions")[1].body["messages"][1]["content"]
    assert refused(corpora, "ask", "Why?", "-c", "rivers") == "there is no corpus 'rivers'"


def refused(corpora: Corpora, *arguments: str) -> str:
    outcome: Outcome = corpora.run(*arguments)
    assert outcome.status == 1
    return outcome.err.removeprefix("rag-assets: ").split(" in ")[0]
