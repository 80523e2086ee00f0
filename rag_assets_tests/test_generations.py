from typing import Any

import pytest

from rag_assets.config import (
    ChunkingSettings,
    CorpusSettings,
    EmbeddingSettings,
    HashingEmbedding,
    LocalEmbedding,
    OpenAIEmbedding,
    OpenAIGeneration,
    RetrievalSettings,
)
from rag_assets.generations import Generation, generation_of

OPENAI = OpenAIEmbedding(provider="openai", model="m", dimensions=64)


def generation(**keys: Any) -> Generation:
    return generation_of(CorpusSettings(**{"name": "docs", "source": "docs", "embedding": OPENAI, **keys}))


def openai(**keys: Any) -> EmbeddingSettings:
    return OPENAI.model_copy(update=keys)


def test_equal_settings_are_the_same_generation_in_every_corpus():
    assert generation() == generation()
    assert generation(name="other", source="elsewhere") == generation()


@pytest.mark.parametrize(
    "keys",
    [
        {"embedding": openai(base_url="http://moved/v1")},
        {"embedding": openai(api_key_env="OTHER_KEY")},
        {"embedding": openai(timeout_seconds=1.0, max_retries=0, max_inputs_per_request=1)},
        {"embedding": openai(usd_per_million_tokens=5.0)},
        {"generation": OpenAIGeneration(provider="openai")},
        {"retrieval": RetrievalSettings(mode="text")},
        {"include": ["**/*"], "max_documents_per_run": 1, "settle_seconds": 9.0},
        {"chunking": ChunkingSettings(strategy="auto")},
    ],
)
def test_what_changes_no_row_starts_no_generation(keys: dict[str, Any]):
    assert generation(**keys).id == generation().id


@pytest.mark.parametrize(
    "embedding",
    [
        openai(model="other"),
        openai(dimensions=32),
        openai(document_prefix="passage: "),
        openai(query_prefix="query: "),
        HashingEmbedding(provider="hashing", dimensions=64),
        LocalEmbedding(),
    ],
)
def test_another_model_is_another_generation_with_vectors_of_its_own(embedding: EmbeddingSettings):
    other = generation(embedding=embedding)
    assert other.id != generation().id
    assert other.embedding != generation().embedding
    assert other.chunking == generation().chunking


@pytest.mark.parametrize(
    "change", [{"max_tokens": 100}, {"overlap_tokens": 0}, {"strategy": "fixed_size"}, {"tokenizer": "o200k_base"}]
)
def test_another_way_of_cutting_is_another_generation_with_the_same_vectors(change: dict[str, Any]):
    other = generation(chunking=ChunkingSettings(**change))
    assert other.id != generation().id
    assert other.embedding == generation().embedding


def test_an_overlap_that_a_strategy_does_not_look_at_changes_nothing():
    ten, twenty = (ChunkingSettings(strategy="paragraph", overlap_tokens=overlap) for overlap in (10, 20))
    assert generation(chunking=ten) == generation(chunking=twenty)


def test_the_name_of_a_generation_fits_a_table_name():
    assert generation().id.isalnum()
    assert len(generation().id) == 12
