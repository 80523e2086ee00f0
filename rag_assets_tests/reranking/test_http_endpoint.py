"""Against a local server with the endpoints of Cohere and of Text Embeddings Inference."""

from typing import Any

import pytest

from rag_assets.config import HttpRerank
from rag_assets.errors import ProviderError
from rag_assets.records import Usage
from rag_assets.reranking.http_endpoint import HttpReranker
from rag_assets.reranking.reranker import Reranked
from rag_assets_tests.answering.passages import passage
from rag_assets_tests.reranking.rerank_server import FakeRerankServer

TEXTS = ["Dogs bark.", "The cat sleeps.", "A cat."]


def reranker(server: FakeRerankServer, **keys: Any) -> HttpReranker:
    defaults = {"provider": "http", "base_url": server.base_url, "model": "fake-1", "first_wait_seconds": 0.001}
    return HttpReranker(HttpRerank.model_validate({**defaults, **keys}))


def rerank(server: FakeRerankServer, *texts: str, question: str = "cat sleeps", **keys: Any) -> Reranked:
    return reranker(server, **keys).rerank(question, [passage(text) for text in texts or TEXTS])


def test_scores_are_those_of_the_server_in_the_order_of_the_passages(server: FakeRerankServer):
    assert rerank(server).scores == [0.0, 1.0, 0.5]
    assert server.requests == [{"model": "fake-1", "query": "cat sleeps", "documents": TEXTS, "top_n": 3}]


def test_text_embeddings_inference_is_asked_in_its_own_way(server: FakeRerankServer):
    one = reranker(server, api="tei", base_url=server.address, model=None)
    assert one.rerank("cat sleeps", [passage(text) for text in TEXTS]).scores == [0.0, 1.0, 0.5]
    assert server.requests == [{"query": "cat sleeps", "texts": TEXTS, "truncate": True}]
    assert one.name == f"http/{server.address.removeprefix('http://')}"


@pytest.mark.parametrize("end", ["", "/", "/rerank", "/rerank/"])
def test_the_address_may_name_the_endpoint_itself(server: FakeRerankServer, end: str):
    assert rerank(server, base_url=server.base_url + end).scores == [0.0, 1.0, 0.5]


def test_the_key_comes_from_the_environment(server: FakeRerankServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RERANK_API_KEY", "sesame")
    rerank(server)
    monkeypatch.setenv("HOUSE_KEY", "open")
    rerank(server, api_key_env="HOUSE_KEY", api_key_header="X-Api-Key")
    assert [headers.get("authorization") for headers in server.headers] == ["Bearer sesame", None]
    assert server.headers[1]["x-api-key"] == "open"


def test_more_passages_than_a_request_may_hold_are_sent_in_several(server: FakeRerankServer):
    assert rerank(server, max_documents_per_request=2).scores == [0.0, 1.0, 0.5]
    assert [body["documents"] for body in server.requests] == [TEXTS[:2], TEXTS[2:]]


def test_lone_surrogates_are_sent_as_unicode(server: FakeRerankServer):
    assert rerank(server, "\ud800 cat", question="\udfff cat").scores == [1.0]


@pytest.mark.parametrize(
    ("told", "prices", "expected"),
    [
        ({}, {}, Usage()),
        ({"usage": {"total_tokens": 1000}}, {}, Usage(prompt_tokens=1000)),
        ({"usage": {"total_tokens": 1000}}, {"usd_per_million_tokens": 20}, Usage(prompt_tokens=1000, cost_usd=0.02)),
        ({"meta": {"billed_units": {"search_units": 3}}}, {"usd_per_thousand_searches": 2}, Usage(cost_usd=0.006)),
        ({}, {"usd_per_thousand_searches": 2}, Usage(cost_usd=0.002)),
        ({"usage": {"total_tokens": "many"}, "meta": []}, {"usd_per_thousand_searches": 2}, Usage(cost_usd=0.002)),
    ],
    ids=str,
)
def test_what_it_cost_is_counted(
    server: FakeRerankServer, told: dict[str, Any], prices: dict[str, Any], expected: Usage
):
    server.usage = told
    assert rerank(server, **prices).usage == expected


def test_tokens_are_counted_here_where_the_server_does_not_tell_them(server: FakeRerankServer):
    """Two passages of two tokens, each read beside a question of one."""
    usage = rerank(server, "A cat", "A dog", question="cat", usd_per_million_tokens=1_000_000).usage
    assert (usage.prompt_tokens, usage.cost_usd) == (6, 6.0)


def test_what_passes_is_tried_again(server: FakeRerankServer):
    server.fail_next(503, times=2)
    assert rerank(server).scores == [0.0, 1.0, 0.5]
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "attempts", "said"),
    [
        (500, 3, r"^The rerank server http://127\.0\.0\.1:\d+/v2 said 500: The fake was told to fail\."),
        (401, 1, r"said 401: .*check the key in \$RERANK_API_KEY \(rerank\.api_key_env\)"),
        (404, 1, r"said 404: .*check rerank\.base_url"),
        (422, 1, r"said 422: .*check the settings under rerank"),
    ],
)
def test_a_failure_names_the_setting(server: FakeRerankServer, status: int, attempts: int, said: str):
    server.fail_next(status, times=9)
    with pytest.raises(ProviderError, match=said):
        rerank(server)
    assert len(server.requests) == attempts


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"results": [{"index": 0, "relevance_score": 0.5}]}, "1 results for 3 documents"),
        ({"results": [{"index": 3, "relevance_score": 0.5}]}, "a result with the index 3, of 3 documents"),
        ({"results": [{"index": -1, "relevance_score": 0.5}]}, "a result with the index -1, of 3 documents"),
        ({"results": [{"index": True, "relevance_score": 0.5}]}, "a result with the index True"),
        ({"results": [{"relevance_score": 0.5}]}, "a result with the index None"),
        ({"results": [{"index": 0, "relevance_score": 1}] * 3}, "two results with the index 0"),
        (b'{"results": [{"index": 0, "relevance_score": NaN}]}', "the score nan, which is no finite number"),
        (b'[{"index": 0, "score": 1e999}]', "the score inf, which is no finite number"),
        ({"results": [{"index": 0, "relevance_score": "high"}]}, "the score 'high', which is no finite number"),
        ({"results": [{"index": 0}]}, "the score None, which is no finite number"),
        ({"results": {"0": 0.5}}, "no list of results"),
        ({"error": "no"}, "no list of results"),
        (["first", "second", "third"], "a result with the index None"),
        (b"<html>Welcome</html>", "what is no JSON"),
        (b'{"results": [{"ind', "what is no JSON"),
        (b"", "what is no JSON"),
    ],
    ids=str,
)
def test_a_reply_that_is_no_order_is_asked_for_once_more_then_told(server: FakeRerankServer, reply: Any, said: str):
    server.replies = [(200, reply)]
    assert rerank(server).scores == [0.0, 1.0, 0.5]
    server.replies = [(200, reply), (200, reply)]
    with pytest.raises(ProviderError, match=f"answered for rerank.model 'fake-1' with {said}"):
        rerank(server)
    assert len(server.requests) == 4


def test_nothing_is_sent_once_the_time_is_over(server: FakeRerankServer):
    server.fail_next(503, times=9)
    with pytest.raises(ProviderError, match="said 503"):
        rerank(server, first_wait_seconds=60, longest_wait_seconds=60, timeout_seconds=5)
    assert len(server.requests) == 1


def test_the_identity_is_that_of_the_model_wherever_it_is_served(server: FakeRerankServer):
    before = reranker(server).identity
    assert reranker(server, base_url="http://elsewhere/v1", api_key_env="X", timeout_seconds=1).identity == before
    assert reranker(server, model="fake-2").identity != before
    one, other = (reranker(server, api="tei", base_url=f"http://{host}", model=None) for host in ("a", "b"))
    assert one.identity != other.identity
