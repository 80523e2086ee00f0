"""A rerank endpoint: Cohere's, as of Jina, vLLM and llama.cpp, or that of Text Embeddings Inference.

Here belongs one request and what its reply means as scores. How a server is reached, limited and tried again, and what
its failures mean, is shared with embedding and chat.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_assets.calling.openai_client import MalformedReplyError, OpenAIServer
from rag_assets.config import HttpRerank
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.records import Passage, Usage
from rag_assets.reranking.reranker import Reranked
from rag_assets.tokenizing import count_tokens

if TYPE_CHECKING:
    import openai

CODE_VERSION = "1"
_TOKENIZER = "o200k_base"
_CHARACTERS_PER_TOKEN = 4


class HttpReranker:
    """One rerank endpoint."""

    def __init__(self, settings: HttpRerank) -> None:
        self._settings = settings
        self._server = OpenAIServer(
            "rerank", settings, model=settings.model or "", give_up_seconds=settings.timeout_seconds
        )

    @property
    def name(self) -> str:
        """`http/<model>`, or the host of a server that has one model."""
        return f"http/{self._settings.model or urlsplit(self._settings.base_url).netloc}"

    @property
    def identity(self) -> Mapping[str, object]:
        """The model's name is the statement of what it is; where there is none, its address."""
        settings = self._settings
        return {
            "provider": "http",
            "api": settings.api,
            "model": settings.model or settings.base_url,
            "code_version": CODE_VERSION,
        }

    def rerank(self, question: str, passages: Sequence[Passage]) -> Reranked:
        """The server's scores, from as few requests as `max_documents_per_request` allows. Raises `ProviderError`."""
        size = self._settings.max_documents_per_request
        texts = [without_lone_surrogates(passage.text) for passage in passages]
        asked = without_lone_surrogates(question)
        replies = [self._ask(asked, texts[start : start + size]) for start in range(0, len(texts), size)]
        usages = [usage for _, usage in replies]
        return Reranked(
            scores=[score for scores, _ in replies for score in scores],
            usage=Usage(
                prompt_tokens=sum(usage.prompt_tokens for usage in usages),
                cost_usd=sum(usage.cost_usd for usage in usages),
            ),
        )

    def _ask(self, question: str, texts: Sequence[str]) -> tuple[Sequence[float], Usage]:
        import openai

        body = self._body(question, texts)

        def send(client: "openai.OpenAI") -> Any:
            # the header by which the client's own `with_raw_response` asks for the headers of a reply as well
            options: Any = {"headers": {"X-Stainless-Raw-Response": "true"}}
            return client.post("/rerank", cast_to=object, body=body, options=options)

        def read(reply: object) -> tuple[Sequence[float], Usage]:
            value = _decoded(reply)
            return _scores(value, len(texts)), self._usage(value, question, texts)

        characters = sum(map(len, texts)) + len(question) * len(texts)
        try:
            return self._server.call(send, read, tokens=characters // _CHARACTERS_PER_TOKEN)
        except (openai.APIError, MalformedReplyError) as error:
            raise self._server.explain(error) from error

    def _body(self, question: str, texts: Sequence[str]) -> dict[str, object]:
        if self._settings.api == "tei":
            return {"query": question, "texts": list(texts), "truncate": True}
        return {"model": self._settings.model, "query": question, "documents": list(texts), "top_n": len(texts)}

    def _usage(self, reply: object, question: str, texts: Sequence[str]) -> Usage:
        """What the reply tells. Where a price asks for what it does not tell, tokens are counted here, and a request is one
        search."""
        settings = self._settings
        tokens = _told(reply, ("usage", "total_tokens"), ("usage", "prompt_tokens"), ("meta", "tokens", "input_tokens"))
        cost = 0.0
        if settings.usd_per_million_tokens is not None:
            if tokens is None:
                tokens = sum(count_tokens(text, _TOKENIZER) for text in (*texts, *[question] * len(texts)))
            cost += tokens * settings.usd_per_million_tokens / 1_000_000
        if settings.usd_per_thousand_searches is not None:
            searches = _told(reply, ("meta", "billed_units", "search_units"))
            cost += (1 if searches is None else searches) * settings.usd_per_thousand_searches / 1_000
        return Usage(prompt_tokens=round(tokens or 0), cost_usd=cost)


def _decoded(reply: object) -> object:
    """JSON that a server sent under another content type comes as text."""
    try:
        return json.loads(reply) if isinstance(reply, str) else reply
    except ValueError:
        raise MalformedReplyError(f"what is no JSON ({' '.join(str(reply).split())[:80]!r})") from None


def _scores(reply: object, count: int) -> Sequence[float]:
    """The scores in the order of the documents, from a list of `{index, relevance_score}` or `{index, score}`."""
    results = reply.get("results") if isinstance(reply, dict) else reply
    if not isinstance(results, list):
        raise MalformedReplyError("no list of results")
    scores: dict[int, float] = {}
    for result in results:
        index = result.get("index") if isinstance(result, dict) else None
        if type(index) is not int or not 0 <= index < count:
            raise MalformedReplyError(f"a result with the index {index!r}, of {count} documents")
        if index in scores:
            raise MalformedReplyError(f"two results with the index {index}")
        score = result.get("relevance_score", result.get("score"))
        if type(score) not in (int, float) or not math.isfinite(score):
            raise MalformedReplyError(f"the score {score!r}, which is no finite number")
        scores[index] = float(score)
    if len(scores) < count:
        raise MalformedReplyError(f"{len(scores)} results for {count} documents")
    return [scores[index] for index in range(count)]


def _told(reply: object, *paths: Sequence[str]) -> float | None:
    """The first number that stands under one of `paths`."""
    for path in paths:
        value = reply
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if type(value) in (int, float) and math.isfinite(value) and value >= 0:  # type: ignore[arg-type, operator]
            return float(value)  # type: ignore[arg-type]
    return None
