"""The extra `sentence-transformers`: with a stand-in for the package, and with a real tiny model where it is installed."""

import importlib.util
import json
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rag_assets.config import SentenceTransformersEmbedding
from rag_assets.embedding import sentence_transformer
from rag_assets.embedding.provider import BatchRefused, TextTooLong
from rag_assets.embedding.providers import embedding_identity
from rag_assets.embedding.sentence_transformer import SentenceTransformersProvider
from rag_assets.errors import ProviderError

INSTALLED = importlib.util.find_spec("sentence_transformers") is not None


def provider(**keys: object) -> SentenceTransformersProvider:
    named = {} if "folder" in keys else {"model": "org/tiny"}
    settings = {"provider": "sentence_transformers", **named, **keys}
    return SentenceTransformersProvider(SentenceTransformersEmbedding.model_validate(settings))


class Tokenizer:
    """A word is a token; two marks."""

    def encode(self, text: str) -> list[int]:
        return [0, *range(len(text.split())), 1]


class StandIn:
    """What this project uses of `SentenceTransformer`. A text's vector counts its a's, b's, c's and d's, and one more."""

    def __init__(self, model: str, *, revision: str | None, device: str | None, trust_remote_code: bool) -> None:
        if model == "org/none":
            raise OSError("org/none is not a local folder\nand is not a valid model identifier")
        self.loaded = (model, revision, device, trust_remote_code)
        self.prompts = {"query": "a ", "document": ""}
        self.max_seq_length: float | None = 16
        self.tokenizer = Tokenizer()
        self.calls: list[tuple[str, int, int]] = []

    def encode_query(self, texts: Sequence[str], **how: Any) -> Any:
        return self._encode("query", texts, **how)

    def encode_document(self, texts: Sequence[str], **how: Any) -> Any:
        return self._encode("document", texts, **how)

    def _encode(
        self, kind: str, texts: Sequence[str], *, prompt: str | None, batch_size: int, show_progress_bar: bool
    ) -> Any:
        assert not show_progress_bar
        self.calls.append((kind, len(texts), batch_size))
        if len(texts) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if "nan" in texts[0]:
            return np.full((len(texts), 4), np.nan)
        if "crash" in texts[0]:
            raise RuntimeError("no kernel\nimage")
        prefix = self.prompts[kind] if prompt is None else prompt
        return np.array([[(prefix + text).count(letter) + 1 for letter in "abcd"] for text in texts], dtype=np.float32)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    module = ModuleType("sentence_transformers")
    monkeypatch.setattr(module, "SentenceTransformer", StandIn, raising=False)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    sentence_transformer._load.cache_clear()
    return StandIn


def unit(*numbers: float) -> list[float]:
    length = math.sqrt(sum(number * number for number in numbers))
    return [number / length for number in numbers]


def test_texts_become_unit_vectors(stand_in: type[StandIn]):
    embedded = provider().embed(["b", "c c"], "document")
    np.testing.assert_allclose(embedded.vectors, [unit(1, 2, 1, 1), unit(1, 1, 3, 1)], rtol=1e-6)
    assert embedded.vectors.dtype == np.float32
    assert embedded.tokens == 7


def test_a_model_has_its_own_prefixes_unless_others_are_set(stand_in: type[StandIn]):
    own = provider().embed(["b"], "query").vectors
    np.testing.assert_allclose(own, [unit(2, 2, 1, 1)], rtol=1e-6)
    other = provider(query_prefix="d d ", document_prefix="c ")
    np.testing.assert_allclose(other.embed(["b"], "query").vectors, [unit(1, 2, 1, 3)], rtol=1e-6)
    np.testing.assert_allclose(other.embed(["b"], "document").vectors, [unit(1, 2, 2, 1)], rtol=1e-6)
    none = provider(query_prefix="")
    np.testing.assert_allclose(none.embed(["b"], "query").vectors, [unit(1, 2, 1, 1)], rtol=1e-6)
    assert (provider().count_tokens("b"), other.count_tokens("b"), none.count_tokens("b")) == (4, 5, 3)


def test_shorter_vectors_are_the_first_numbers(stand_in: type[StandIn]):
    np.testing.assert_allclose(provider(dimensions=2).embed(["b"], "document").vectors, [unit(1, 2)], rtol=1e-6)
    with pytest.raises(ProviderError, match=r"org/tiny makes vectors of 4 numbers, but embedding\.dimensions is 5"):
        provider(dimensions=5).embed(["b"], "document")


def test_what_the_model_would_cut_is_refused(stand_in: type[StandIn]):
    assert provider().limits.tokens_per_input == 16
    with pytest.raises(TextTooLong, match="17 tokens are more than the 16 that sentence_transformers/org/tiny reads"):
        provider().embed(["b " * 15], "document")
    longer = provider(max_tokens=20)
    assert longer.limits.tokens_per_input == 20
    assert longer.embed(["b " * 15], "document").tokens == 17
    assert longer._model.max_seq_length == 20


@pytest.mark.parametrize("reads", [None, math.inf])
def test_a_model_without_a_limit_reads_everything(stand_in: type[StandIn], reads: float | None):
    one = provider()
    one._model.max_seq_length = reads
    assert one.embed(["b " * 5000], "document").tokens == 5002


def test_a_model_is_loaded_once_without_its_code_and_as_told(stand_in: type[StandIn]):
    told = {"revision": "abc", "device": "cuda:1", "batch_size": 7}
    one = provider(**told)
    one.embed(["b"], "query")
    provider(**told).embed(["b", "c"], "document")
    assert one._model.loaded == ("org/tiny", "abc", "cuda:1", False)
    assert one._model.calls == [("query", 1, 7), ("document", 2, 7)]


def test_a_request_that_does_not_fit_into_memory_is_halved(stand_in: type[StandIn]):
    with pytest.raises(BatchRefused, match="out of memory"):
        provider().embed(["b"] * 4, "document")


def test_what_is_no_texts_fault_is_told(stand_in: type[StandIn]):
    with pytest.raises(
        ProviderError, match=r"org/tiny fails on this device: no kernel image; lower embedding\.batch_size"
    ):
        provider().embed(["crash"], "document")
    with pytest.raises(ProviderError, match="org/tiny made a vector that is all zeros or not finite"):
        provider().embed(["nan"], "document")
    with pytest.raises(
        ProviderError, match=r"cannot load org/none: OSError: .* folder and is not .*; check embedding\.model"
    ):
        provider(model="org/none").embed(["b"], "document")


def test_a_missing_package_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    sentence_transformer._load.cache_clear()
    with pytest.raises(ProviderError, match=r"install it with: pip install 'rag-assets\[sentence-transformers\]'"):
        provider().embed(["b"], "document")


def test_what_changes_a_vector_changes_the_identity():
    plain = provider().identity
    changes: list[dict[str, object]] = [
        {"model": "org/other"},
        {"revision": "abc"},
        {"dimensions": 2},
        {"query_prefix": ""},
        {"document_prefix": "passage: "},
        {"max_tokens": 99},
    ]
    assert all(provider(**change).identity != plain for change in changes)
    assert provider(device="cuda", batch_size=1, max_inputs_per_request=9).identity == plain


def test_a_folder_is_known_by_its_files_wherever_it_lies(tmp_path: Path):
    folder = tmp_path / "tiny"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "1_Pooling/config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    before = provider(folder=str(folder)).identity
    folder = folder.rename(tmp_path / "moved")
    (folder / "README.md").write_text("prose")
    assert provider(folder=str(folder)).identity == before
    assert provider(folder=str(folder)).name == "sentence_transformers/moved"
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": "cls"}))
    assert provider(folder=str(folder)).identity != before
    with pytest.raises(ProviderError, match=r"no-such holds no model; check embedding\.folder"):
        embedding_identity(
            SentenceTransformersEmbedding(provider="sentence_transformers", folder=str(tmp_path / "no-such"))
        )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with random weights, saved as sentence-transformers does."""
    folder = tmp_path_factory.mktemp("tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sentence_transformers
        import torch
        import transformers
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
        from tokenizers import Tokenizer

        from rag_assets_tests.embedding.tiny_onnx import write_tokenizer

        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "query:", "cat", "dog", "sleeps", "barks"]
        write_tokenizer(folder, words)
        torch.manual_seed(1)
        size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=64, **size)
        transformers.BertModel(config).save_pretrained(folder / "bert")
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_file(str(folder / "tokenizer.json")),
            model_max_length=64,
            **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")},
        ).save_pretrained(folder / "bert")
        bert = Transformer(str(folder / "bert"))
        model = sentence_transformers.SentenceTransformer(
            modules=[bert, Pooling(32, "mean")], device="cpu", prompts={"query": "query: ", "document": ""}
        )
        model.save(str(folder / "model"))
    return folder / "model"


@pytest.mark.skipif(
    not INSTALLED, reason="needs sentence-transformers: pip install 'rag-assets[sentence-transformers]'"
)
@pytest.mark.filterwarnings("ignore")
def test_a_real_model_from_a_folder(tiny: Path):
    sentence_transformer._load.cache_clear()
    one = provider(folder=str(tiny), device="cpu")
    texts = ["cat sleeps", "dog barks", "cat " * 50]
    embedded = one.embed(texts, "document")
    assert embedded.vectors.shape == (3, 32)
    assert embedded.tokens == 4 + 4 + 52
    assert one.limits.tokens_per_input == 64
    np.testing.assert_allclose(np.linalg.norm(embedded.vectors, axis=1), 1, rtol=1e-6)
    alone = np.stack([one.embed([text], "document").vectors[0] for text in texts])
    np.testing.assert_allclose(embedded.vectors, alone, atol=1e-5)
    asked = one.embed(["cat sleeps"], "query").vectors
    np.testing.assert_allclose(asked, one.embed(["query: cat sleeps"], "document").vectors, atol=1e-5)
    with pytest.raises(TextTooLong, match="72 tokens are more than the 64"):
        one.embed(["cat " * 70], "document")
    short = provider(folder=str(tiny), device="cpu", dimensions=8).embed(texts, "document").vectors
    np.testing.assert_allclose(short, [unit(*row[:8]) for row in embedded.vectors.tolist()], atol=1e-5)
