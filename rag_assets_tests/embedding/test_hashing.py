import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.config import HashingEmbedding
from rag_assets.embedding.hashing import HashingProvider, hashed_bags


def test_a_text_has_the_same_vector_in_every_process_and_version():
    expected = [0.35355338, -0.35355338, 0.0, 0.0, 0.35355338, -0.35355338, 0.0, 0.70710677]
    assert hashed_bags(["the cat"], 8)[0].tolist() == pytest.approx(expected)
    assert hashed_bags(["THE  cat!"], 8)[0].tolist() == pytest.approx(expected)


def test_texts_that_share_words_are_near():
    cats, cat, stocks = hashed_bags(["the cat sat on the mat", "a cat sat on a mat", "prices fell sharply"], 384)
    assert cats @ cat > 0.6
    assert abs(cats @ stocks) < 0.2


@pytest.mark.parametrize("text", ["", "!!!", "\ud800", "\x00"])
def test_a_text_without_words_has_a_unit_vector_too(text: str):
    assert np.linalg.norm(hashed_bags([text], 4)) == pytest.approx(1.0)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(), max_size=6), st.integers(2, 40))
def test_a_vector_is_the_same_alone_and_in_company(texts: list[str], dimensions: int):
    together = hashed_bags(texts, dimensions)
    assert together.shape == (len(texts), dimensions)
    assert together.dtype == np.float32
    for text, vector in zip(texts, together, strict=True):
        assert vector.tobytes() == hashed_bags([text], dimensions)[0].tobytes()


def test_the_provider_counts_words_and_costs_nothing():
    provider = HashingProvider(HashingEmbedding(provider="hashing", dimensions=16))
    reply = provider.embed(["one two", "three"], "document")
    assert (reply.vectors.shape, reply.tokens, reply.cost_usd) == ((2, 16), 3, 0.0)
    assert provider.name == "hashing/16"
    assert provider.identity == {"provider": "hashing", "dimensions": 16, "code_version": "1"}
