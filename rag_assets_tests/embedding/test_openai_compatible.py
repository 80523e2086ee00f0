"""Every failure of a provider, against a server that speaks the protocol."""

import time
from typing import Any

import numpy as np
import pytest

from rag_assets.config import OpenAIEmbedding
from rag_assets.embedding.hashing import hashed_bags
from rag_assets.embedding.openai_compatible import OpenAIProvider
from rag_assets.embedding.provider import BatchRefused, TextRefused, TextTooLong
from rag_assets.errors import ProviderError
from rag_assets_tests.fakes import FakeOpenAI, Malformation


def _provider(fake: FakeOpenAI, **settings: Any) -> OpenAIProvider:
    return OpenAIProvider(OpenAIEmbedding(**{"provider": "openai", "base_url": fake.base_url, **settings}))


def _failure(fake: FakeOpenAI, texts: tuple[str, ...] = ("one", "two"), **settings: Any) -> str:
    with pytest.raises(ProviderError) as caught:
        _provider(fake, **settings).embed(texts, "document")
    return str(caught.value)


def test_texts_become_unit_vectors_in_their_order(fake: FakeOpenAI):
    reply = _provider(fake).embed(["the cat sat", "prices fell"], "document")
    assert reply.vectors == pytest.approx(hashed_bags(["the cat sat", "prices fell"], 64))
    assert reply.vectors.dtype == np.float32
    assert reply.tokens == 4
    assert fake.embedded_texts == ["the cat sat", "prices fell"]


def test_no_request_is_made_for_no_text(fake: FakeOpenAI):
    assert _provider(fake).embed([], "document").vectors.shape[0] == 0
    assert fake.requests == []


def test_prefixes_are_sent_with_the_kind_of_text_they_are_for(fake: FakeOpenAI):
    provider = _provider(fake, query_prefix="query: ", document_prefix="passage: ")
    provider.embed(["cat"], "document")
    provider.embed(["cat"], "query")
    assert fake.embedded_texts == ["passage: cat", "query: cat"]


def test_the_model_and_its_dimensions_are_asked_for(fake: FakeOpenAI):
    reply = _provider(fake, model="m", dimensions=16).embed(["a"], "document")
    assert reply.vectors.shape == (1, 16)
    assert fake.requests[0].body == {"model": "m", "input": ["a"], "dimensions": 16, "encoding_format": "base64"}


def test_vectors_are_shortened_here_for_a_server_that_does_not_do_it(fake: FakeOpenAI):
    whole = _provider(fake).embed(["the cat sat"], "document").vectors[0]
    provider = _provider(fake, dimensions=16, truncate_dimensions=True)
    short = provider.embed(["the cat sat"], "document").vectors
    assert "dimensions" not in fake.requests[1].body
    assert short == pytest.approx(np.array([whole[:16] / np.linalg.norm(whole[:16])]))
    assert provider.identity != _provider(fake, dimensions=16).identity
    assert "vectors of 64 numbers, but embedding.dimensions is 65" in _failure(
        fake, dimensions=65, truncate_dimensions=True
    )


def test_a_key_is_sent_in_the_header_that_a_gateway_wants(fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AZURE_KEY", "abc")
    _provider(fake, api_key_env="AZURE_KEY", api_key_header="api-key").embed(["a"], "document")
    _provider(fake, api_key_env="AZURE_KEY").embed(["a"], "document")
    sent = [(request.headers.get("api-key"), request.headers.get("authorization")) for request in fake.requests]
    assert sent == [("abc", None), (None, "Bearer abc")]


def test_dimensions_are_not_sent_when_none_are_configured(fake: FakeOpenAI):
    _provider(fake).embed(["a"], "document")
    assert "dimensions" not in fake.requests[0].body


def test_a_lone_surrogate_is_replaced_before_it_is_sent(fake: FakeOpenAI):
    _provider(fake).embed(["a\ud800b", "\ud83d\ude00"], "document")
    assert fake.embedded_texts == ["a\ufffdb", "\U0001f600"]


class TestKeys:
    def test_a_server_of_ones_own_needs_none(self, fake: FakeOpenAI):
        _provider(fake).embed(["a"], "document")
        assert fake.requests[0].headers["authorization"] == "Bearer none"

    def test_the_named_variable_is_sent(self, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("MY_KEY", "sk-mine\n")
        _provider(fake, api_key_env="MY_KEY").embed(["a"], "document")
        assert fake.requests[0].headers["authorization"] == "Bearer sk-mine"

    def test_openai_without_a_key_is_refused_before_any_request_and_the_variable_is_named(self):
        provider = OpenAIProvider(OpenAIEmbedding(provider="openai", api_key_env="MY_KEY"))
        with pytest.raises(ProviderError, match=r"MY_KEY is not set.*embedding\.api_key_env"):
            provider.embed(["a"], "document")

    def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(
        self, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-ü-secret")
        message = _failure(fake)
        assert "OPENAI_API_KEY" in message
        assert "secret" not in message

    def test_openais_own_variable_for_the_address_is_honoured(self, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        reply = OpenAIProvider(OpenAIEmbedding(provider="openai")).embed(["some words"], "document")
        assert (fake.embedded_texts, reply.cost_usd) == (["some words"], 0.0)

    def test_an_address_without_a_scheme_is_refused_at_once(self, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OPENAI_BASE_URL", "127.0.0.1:1/v1")
        message = _failure(fake, base_url=None)
        assert message.endswith("is '127.0.0.1:1/v1'; it must start with http:// or https://.")


class TestCost:
    def test_a_configured_price_is_applied_to_the_tokens_that_the_server_counted(self, fake: FakeOpenAI):
        reply = _provider(fake, usd_per_million_tokens=2.0).embed(["x" * 400], "document")
        assert (reply.tokens, reply.cost_usd) == (100, 0.0002)

    def test_a_server_of_ones_own_is_free(self, fake: FakeOpenAI):
        assert _provider(fake).embed(["x" * 400], "document").cost_usd == 0.0

    @pytest.mark.parametrize(
        ("model", "price"),
        [
            ("text-embedding-3-small", 0.02),
            ("text-embedding-3-large", 0.13),
            ("text-embedding-ada-002", 0.10),
            ("new", 0.0),
        ],
    )
    def test_openais_own_models_have_their_list_price(self, model: str, price: float):
        provider = OpenAIProvider(OpenAIEmbedding(provider="openai", model=model))
        assert provider.usd_per_million_tokens == price

    def test_tokens_are_counted_here_when_the_server_does_not_say(self, fake: FakeOpenAI):
        fake.malform_next("no_usage")
        assert _provider(fake).embed(["hello world"], "document").tokens == 2


class TestTokens:
    def test_openais_own_models_are_counted_exactly_with_their_prefix(self, fake: FakeOpenAI):
        assert _provider(fake).count_tokens("hello world") == 2
        assert _provider(fake, document_prefix="hello ").count_tokens("world") == 2
        assert _provider(fake).count_tokens("a\ud800") > 1

    def test_other_models_are_counted_generously(self, fake: FakeOpenAI):
        assert _provider(fake, model="bge-small").count_tokens("hello world") == 5


class TestFailuresThatEndTheRun:
    @pytest.mark.parametrize(
        ("status", "code", "message", "named"),
        [
            (
                401,
                "invalid_api_key",
                "Incorrect API key provided.",
                "check the key in $OPENAI_API_KEY (embedding.api_key",
            ),
            (403, None, "Country not supported.", "may not use embedding.model 'text-embedding-3-small'"),
            (403, "model_not_found", "Project has no access to the model.", "check embedding.model"),
            (404, "model_not_found", "The model `x` does not exist.", "check embedding.model 'text-embedding-3-small'"),
            (404, None, 'model "x" not found, try pulling it first', "check embedding.model"),
            (400, None, "Invalid model name passed in model=x", "check embedding.model"),
            (404, None, "Not Found", "check embedding.base_url: it usually ends in /v1"),
            (429, "insufficient_quota", "You exceeded your current quota.", "no credit left"),
            (402, None, "Payment required.", "no credit left"),
            (405, None, "Method not allowed.", "check the settings under embedding"),
        ],
    )
    def test_one_call_and_the_setting_is_named(
        self, fake: FakeOpenAI, status: int, code: str | None, message: str, named: str
    ):
        fake.fail_next(status, code=code, message=message)
        failure = _failure(fake)
        assert named in failure
        assert message in failure
        assert fake.base_url in failure
        assert len(fake.requests) == 1

    def test_dimensions_that_the_model_does_not_know(self, fake: FakeOpenAI):
        fake.fail_next(400, message="This model does not support specifying dimensions.")
        assert "check embedding.dimensions 16" in _failure(fake, dimensions=16)


class TestFailuresThatPass:
    def test_429_five_times_is_waited_out_as_long_as_it_says(self, fake: FakeOpenAI):
        fake.fail_next(429, code="rate_limit_exceeded", headers={"Retry-After": "0.05"}, times=5)
        started = time.monotonic()
        _provider(fake).embed(["once"], "document")
        assert time.monotonic() - started >= 0.25
        assert (len(fake.requests), fake.embedded_texts) == (6, ["once"])

    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
    def test_a_passing_failure_is_tried_again(self, fake: FakeOpenAI, status: int):
        fake.fail_next(status, headers={"Retry-After-Ms": "1"})
        _provider(fake).embed(["once"], "document")
        assert (len(fake.requests), fake.embedded_texts) == (2, ["once"])

    def test_retries_are_bounded_and_the_server_is_named(self, fake: FakeOpenAI):
        fake.fail_next(503, message="Overloaded.", headers={"Retry-After-Ms": "1"}, times=9)
        failure = _failure(fake, max_retries=2)
        assert failure.startswith(f"The embedding server {fake.base_url} said 503: Overloaded. (up to 3 attempts")
        assert len(fake.requests) == 3

    def test_a_wait_of_more_than_two_minutes_is_told_and_not_sat_out(self, fake: FakeOpenAI):
        fake.fail_next(429, headers={"Retry-After": "3600"})
        assert "it asks to wait 3600 s" in _failure(fake)
        assert len(fake.requests) == 1

    def test_a_lost_connection_is_tried_again(self, fake: FakeOpenAI):
        fake.malform_next("reset")
        _provider(fake, max_retries=1).embed(["once"], "document")
        assert (len(fake.requests), fake.embedded_texts) == (2, ["once"])

    def test_a_server_that_is_down_is_named(self):
        with FakeOpenAI() as fake:
            provider = _provider(fake, max_retries=0)
            provider.embed(["warm"], "document")
        with pytest.raises(ProviderError, match=r"127\.0\.0\.1:\d+/v1 cannot be reached .* embedding\.base_url"):
            provider.embed(["a"], "document")

    def test_a_server_that_does_not_answer_in_time_is_named(self, fake: FakeOpenAI):
        fake.latency_seconds = 0.3
        assert "did not answer within 0.05 s (1 attempt)" in _failure(fake, timeout_seconds=0.05, max_retries=0)


class TestRefusals:
    @pytest.mark.parametrize("status", [400, 413, 422])
    def test_of_several_texts_is_a_refused_batch(self, fake: FakeOpenAI, status: int):
        fake.fail_next(status, message="Something in it is bad.")
        with pytest.raises(BatchRefused, match=r"Something in it is bad\."):
            _provider(fake).embed(["a", "b"], "document")
        assert len(fake.requests) == 1

    @pytest.mark.parametrize("status", [400, 413, 422])
    def test_of_one_text_is_a_refused_text(self, fake: FakeOpenAI, status: int):
        fake.fail_next(status, message="It is bad.")
        with pytest.raises(TextRefused, match=r"It is bad\."):
            _provider(fake).embed(["a"], "document")

    @pytest.mark.parametrize(
        ("status", "message"),
        [
            (400, "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."),
            (400, "Invalid 'input[0]': maximum input length is 8192 tokens."),
            (400, "the input length exceeds the context length"),
            (413, "Input validation error: `inputs` must have less than 512 tokens. Given: 600"),
            (500, "input (600 tokens) is too large to process. increase the physical batch size (current: 512)"),
            (429, "Request too large for m in organization o on tokens per min (TPM): Limit 150000, Requested 205000."),
        ],
        ids=["openai", "openai-input", "ollama", "tei", "llama.cpp", "openai-tpm"],
    )
    def test_for_length_is_told_apart_in_the_words_of_each_server_and_not_retried(
        self, fake: FakeOpenAI, status: int, message: str
    ):
        fake.fail_next(status, message=message, times=2)
        with pytest.raises(TextTooLong):
            _provider(fake).embed(["a"], "document")
        with pytest.raises(BatchRefused):
            _provider(fake).embed(["a", "b"], "document")
        assert len(fake.requests) == 2

    def test_of_base64_is_answered_by_asking_for_floats(self, fake: FakeOpenAI):
        provider = _provider(fake)
        fake.fail_next(400, message="encoding_format 'base64' is not supported")
        provider.embed(["a"], "document")
        provider.embed(["b"], "document")
        assert [request.body["encoding_format"] for request in fake.requests] == ["base64", "float", "float"]
        assert fake.embedded_texts == ["a", "b"]


class TestReplies:
    @pytest.mark.parametrize("how", ["shuffled", "no_index"])
    def test_vectors_are_matched_to_texts_by_index_where_there_is_one(self, fake: FakeOpenAI, how: Malformation):
        fake.malform_next(how)
        reply = _provider(fake).embed(["the cat sat", "prices fell"], "document")
        assert reply.vectors == pytest.approx(hashed_bags(["the cat sat", "prices fell"], 64))

    @pytest.mark.parametrize(
        ("how", "found"),
        [
            ("fewer_vectors", "1 vectors for 2 texts"),
            ("same_index", "vectors numbered [0, 0] for 2 texts"),
            ("nan", "a number that is not finite"),
            ("zero", "a vector of zeros"),
            ("mixed_sizes", "vectors of 63 and 64 numbers"),
            ("truncated_json", "no JSON of that kind (JSONDecodeError"),
            ("not_json", "no JSON of that kind"),
        ],
    )
    def test_a_malformed_reply_is_asked_for_once_more_and_then_refused_whole(
        self, fake: FakeOpenAI, how: Malformation, found: str
    ):
        fake.malform_next(how, times=3)
        failure = _failure(fake, first_wait_seconds=0.01)
        assert len(fake.requests) == 2
        assert found in failure
        assert "nothing of it was kept; check embedding.base_url and embedding.model" in failure

    @pytest.mark.parametrize("how", ["fewer_vectors", "nan", "truncated_json"])
    def test_one_malformed_reply_is_no_failure(self, fake: FakeOpenAI, how: Malformation):
        fake.malform_next(how)
        reply = _provider(fake, first_wait_seconds=0.01).embed(["a", "b"], "document")
        assert reply.vectors == pytest.approx(hashed_bags(["a", "b"], 64))

    def test_vectors_of_another_size_than_configured_are_refused(self, fake: FakeOpenAI):
        fake.malform_next("wrong_size")
        failure = _failure(fake, dimensions=64)
        assert "vectors of 63 numbers, but embedding.dimensions is 64" in failure
        assert "set embedding.dimensions to 63, remove it" in failure

    def test_vectors_are_scaled_to_unit_length(self, fake: FakeOpenAI):
        reply = _provider(fake)._vectors(_Reply([[3.0, 4.0]]), expected=1)
        assert reply.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]


class _Reply:
    def __init__(self, vectors: list[list[float]]) -> None:
        self.data = [_Item(number, vector) for number, vector in enumerate(vectors)]


class _Item:
    def __init__(self, index: int, embedding: list[float]) -> None:
        self.index = index
        self.embedding = embedding
