"""From what corpora.yaml says to a reranker."""

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from rag_assets.config import (
    EmbeddingSettings,
    LateInteractionRerank,
    LLMRerank,
    NoRerank,
    PluginEmbedding,
    PluginRerank,
    RerankSettings,
    load_settings,
)
from rag_assets.errors import ConfigError
from rag_assets.plugins import ProviderPlugin
from rag_assets.records import Passage
from rag_assets.reranking.reordering import reorder
from rag_assets.reranking.reranker import Reranked
from rag_assets.reranking.rerankers import make_reranker
from rag_assets_tests.answering.passages import passage


class Lengths(BaseModel):
    """Settings of a reranker."""

    sign: int = 1


class ByLength:
    """Likes long passages best, or with another sign short ones."""

    name = "lengths"

    def __init__(self, settings: Lengths) -> None:
        self._sign = settings.sign
        self.identity: Mapping[str, object] = {"provider": "lengths", "sign": settings.sign}

    def rerank(self, question: str, passages: Sequence[Passage]) -> Reranked:
        return Reranked([self._sign * len(one.text) for one in passages])


PLUGIN = ProviderPlugin(settings=Lengths, make=ByLength)


def load(folder: Path, rerank: Mapping[str, Any], **keys: Any) -> RerankSettings:
    path = folder / "corpora.yaml"
    path.write_text(yaml.safe_dump({"corpora": {"docs": {"source": "docs/", "rerank": rerank}}, **keys}))
    return load_settings(path).corpora["docs"].rerank


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is installed."""
    plugin = EntryPoint("lengths", f"{__name__}:PLUGIN", "rag_assets.rerank_providers")
    monkeypatch.setattr("rag_assets.plugins.entry_points", lambda **wanted: EntryPoints([plugin]).select(**wanted))


def test_by_default_only_an_index_of_the_embedded_model_is_reranked(tmp_path: Path):
    path = tmp_path / "corpora.yaml"
    path.write_text("corpora: {a: {source: a/}, b: {source: b/, embedding: {provider: hashing}}}")
    corpora = load_settings(path).corpora
    assert corpora["a"].rerank == LateInteractionRerank()
    assert corpora["b"].rerank == NoRerank()
    path.write_text("corpora: {a: {source: a/, rerank: {provider: none}}}")
    assert load_settings(path).corpora["a"].rerank == NoRerank()


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"provider": "cross_encoder", "folder": "models/ms-marco"}, "cross_encoder/ms-marco"),
        ({"provider": "cross_encoder", "model": "acme/ms-marco"}, "cross_encoder/acme/ms-marco"),
        ({"provider": "http", "base_url": "https://a.example/v2", "model": "rerank-v3.5"}, "http/rerank-v3.5"),
        ({"provider": "http", "base_url": "http://a.example:8080", "api": "tei"}, "http/a.example:8080"),
        ({"provider": "late_interaction"}, "late_interaction"),
        ({"provider": "llm"}, "llm/gpt-4o-mini"),
    ],
    ids=str,
)
def test_a_name_needs_neither_model_nor_server(tmp_path: Path, keys: dict[str, Any], name: str):
    settings = load(tmp_path, keys)
    assert not isinstance(settings, NoRerank)
    assert make_reranker(settings).name == name


def test_a_plugin_is_given_its_own_keys_and_the_platform_keeps_the_common_ones(tmp_path: Path, lengths: None):
    settings = load(tmp_path, {"provider": "lengths", "sign": -1, "candidates": 2})
    assert isinstance(settings, PluginRerank)
    assert (settings.candidates, settings.timeout_seconds, settings.keys) == (2, 20.0, {"sign": -1})
    passages, reranking = reorder(settings, "question", [passage("long"), passage("s"), passage("")])
    assert [one.text for one in passages] == ["s", "long", ""]
    assert reranking.identity == {"provider": "lengths", "sign": -1}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sing": 1}, r"rerank\.sing: unknown key; did you mean 'sign'\? Allowed: sign$"),
        ({"candidates": 0}, r"rerank\.candidates: 0 is not allowed"),
        ({"api_key": "abc"}, r"rerank: api_key looks like a secret"),
    ],
    ids=str,
)
def test_the_keys_of_a_plugin_are_checked(tmp_path: Path, lengths: None, keys: dict[str, Any], said: str):
    with pytest.raises(ConfigError, match=said):
        load(tmp_path, {"provider": "lengths", **keys})


def test_the_price_of_a_chat_model_is_that_of_the_list(tmp_path: Path):
    prices = {"generation": {"m": {"input": 1.0, "output": 2.0}}}
    settings = load(tmp_path, {"provider": "llm", "model": "m", "usd_per_million_input_tokens": 5.0}, prices=prices)
    assert isinstance(settings, LLMRerank)
    assert (settings.usd_per_million_input_tokens, settings.usd_per_million_output_tokens) == (5.0, 2.0)


def test_a_name_that_is_ours_in_one_section_is_free_in_another():
    """An embedding plugin called `http` was taken for the reranker of that name when its publication was read."""
    adapter: TypeAdapter[EmbeddingSettings] = TypeAdapter(EmbeddingSettings)
    settings = PluginEmbedding.model_validate({"provider": "http", "url": "x"})
    assert adapter.validate_json(settings.model_dump_json()) == settings
