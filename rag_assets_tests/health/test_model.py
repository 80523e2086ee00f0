"""One configuration an index, the configured model, and the model that makes the vectors that it made."""

from collections.abc import Callable, Sequence

import lance
import pytest

from rag_assets.config import ChunkingSettings, HashingEmbedding, HealthSettings, OpenAIEmbedding
from rag_assets.embedding.hashing import hashed_bags
from rag_assets.embedding.provider import Vectors
from rag_assets.errors import ProviderError
from rag_assets.generations import generation_of
from rag_assets.health.model import configured_model, one_generation, same_vectors
from rag_assets.health.verdicts import Verdict
from rag_assets.storing.spending import spend_of
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.workbench import Workbench

Look = Callable[..., Verdict]


def test_an_index_has_rows_of_one_configuration(bench: Workbench, look: Look):
    assert look(one_generation).passed
    index = lance.dataset(bench.store.index("notes", generation_of(bench.corpus).id, dimensions=1).uri)
    index.update({"chunking": "'other'"}, where="document = 'b.md'")
    verdict = look(one_generation)
    assert not verdict.passed
    assert verdict.named == [{"index": generation_of(bench.corpus).id, "chunked with": "other"}]


def test_indices_of_other_generations_are_looked_at_too(bench: Workbench, look: Look):
    old = generation_of(bench.corpus).id
    bench.configure(chunking=ChunkingSettings(strategy="fixed_size", max_tokens=100, overlap_tokens=0))
    bench.ingest()
    assert look(one_generation).summary == "2 indices, each of one configuration."
    index = lance.dataset(bench.store.index("notes", old, dimensions=1).uri)
    index.update({"chunking": "'other'"}, where="document = 'b.md'")
    assert [row["index"] for row in look(one_generation).named] == [old]


def test_readers_see_what_the_configured_model_made(bench: Workbench, look: Look):
    assert look(configured_model).passed
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    bench.materialize("a.md")
    verdict = look(configured_model)
    assert not verdict.passed
    assert "made with another model; 33% of the documents are of the configured" in verdict.summary
    bench.ingest()
    assert look(configured_model).passed


class TestProbe:
    @pytest.fixture
    def served(self, bench: Workbench, fake: FakeOpenAI) -> FakeOpenAI:
        embedding = OpenAIEmbedding(provider="openai", base_url=fake.base_url, model="fake", max_retries=0)
        bench.configure(embedding=embedding)
        bench.ingest()
        return fake

    def test_the_model_makes_the_vectors_that_it_made(self, bench: Workbench, look: Look, served: FakeOpenAI):
        sent, paid = len(served.embedded_texts), spend_of(bench.store, "notes").texts
        verdict = look(same_vectors)
        assert verdict.passed
        assert verdict.figures["lowest_cosine"] == pytest.approx(1.0)
        assert len(served.embedded_texts) - sent == verdict.figures["probe_texts"] == 3
        assert spend_of(bench.store, "notes").texts - paid == 3, "what it sends is accounted for"

    def test_another_model_behind_the_same_name(self, look: Look, served: FakeOpenAI):
        def other(texts: Sequence[str], dimensions: int) -> Vectors:
            return hashed_bags([text[::-1] for text in texts], dimensions)

        served.vectors_of = other
        verdict = look(same_vectors)
        assert not verdict.passed
        assert "is not the model that it was" in verdict.summary
        served.dimensions = 32
        assert "makes vectors of 32 dimensions, and those of the index 64" in look(same_vectors).summary

    def test_a_model_that_does_not_answer(self, look: Look, served: FakeOpenAI):
        served.fail_next(401, code="invalid_api_key", times=9)
        with pytest.raises(ProviderError, match="OPENAI_API_KEY"):
            look(same_vectors)

    def test_nothing_is_sent_where_nothing_may_be(self, bench: Workbench, look: Look, served: FakeOpenAI):
        sent = len(served.embedded_texts)
        bench.configure(health=HealthSettings(probe_texts=0))
        assert look(same_vectors).figures == {"probe_texts": 0}
        bench.configure(health=HealthSettings(), embed_template="{title}: {text}")
        assert look(same_vectors).figures == {"probe_texts": 0}, "the published texts cannot be told"
        assert served.embedded_texts[sent:] == []
