"""Embeddings from any server that speaks OpenAI's protocol: OpenAI, vLLM, Ollama, llama.cpp, LiteLLM and others.

Here belongs one request and what its reply means for the texts in it. How texts become requests is `batching`; how the
server is reached, and what its failures mean, is `rag_assets.calling`.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_assets.calling.failures import FailureKind, kind_of, server_words
from rag_assets.calling.openai_client import MalformedReplyError, OpenAIServer
from rag_assets.config import OpenAIEmbedding
from rag_assets.embedding.provider import (
    BatchRefused,
    Embedded,
    Kind,
    RequestLimits,
    TextRefused,
    TextTooLong,
    Vectors,
    without_lone_surrogates,
)
from rag_assets.errors import ProviderError
from rag_assets.pricing import embedding_price

if TYPE_CHECKING:
    import openai

CODE_VERSION = "1"
_REFUSED = {FailureKind.REFUSED, FailureKind.TOO_LARGE}
_COUNTS_KEPT = 4096  # a text is counted when its request is filled, and when it is sent


class OpenAIProvider:
    """One embedding model behind an OpenAI-compatible server."""

    def __init__(self, settings: OpenAIEmbedding) -> None:
        self._settings = settings
        self._server = OpenAIServer("embedding", settings, model=settings.model)
        self._count = functools.lru_cache(maxsize=_COUNTS_KEPT)(self._counted)
        self._asks_for_floats = False

    @property
    def name(self) -> str:
        """`openai/<model>`."""
        return f"openai/{self._settings.model}"

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a vector.

        The address of the server is not part of it: an address moves (a port, a proxy, a new host), and embedding a
        corpus again for that costs money. The name of the model is the user's statement of what answers there; whoever
        serves other weights under an old name must give them a new one. Limits are not part of it either: they only
        change where a text over `max_tokens_per_input` is cut into windows.
        """
        settings = self._settings
        return {
            "provider": "openai",
            "model": settings.model,
            "dimensions": settings.dimensions,
            "query_prefix": settings.query_prefix,
            "document_prefix": settings.document_prefix,
            "code_version": CODE_VERSION,
            **({"truncated": True} if settings.truncate_dimensions else {}),
        }

    @property
    def limits(self) -> RequestLimits:
        """As configured."""
        settings = self._settings
        return RequestLimits(
            inputs=settings.max_inputs_per_request,
            tokens=min(settings.max_tokens_per_request, settings.tokens_per_minute or settings.max_tokens_per_request),
            tokens_per_input=settings.max_tokens_per_input,
            concurrency=settings.concurrency,
        )

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` with its prefix: exact for OpenAI's own models, an upper estimate for others.

        Others are reckoned at 1.4 word pieces a token and two marks: one cl100k token is at most 1.39 word pieces in 95
        of 100 texts (prose, Python, Markdown; measured in November 2026).
        """
        return self._count(text)

    def _counted(self, text: str) -> int:
        from rag_assets.tokenizing import count_tokens

        settings = self._settings
        prefix = max(settings.document_prefix, settings.query_prefix, key=len)
        tokens = count_tokens(prefix + without_lone_surrogates(text), "cl100k_base")
        return tokens if embedding_price(settings.model) is not None else math.ceil(1.4 * tokens) + 2

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        """Embed `texts` in one request, sent when the limits allow and repeated as the settings and the server say.

        Raises `TextRefused` or `BatchRefused` for 400, 413 and 422, else `ProviderError` with the setting to change.
        """
        if not texts:
            return Embedded(vectors=np.empty((0, self._settings.dimensions or 0), dtype=np.float32), tokens=0)
        prefix = self._settings.query_prefix if kind == "query" else self._settings.document_prefix
        vectors, billed = self._request([prefix + without_lone_surrogates(text) for text in texts], texts)
        tokens = billed if billed is not None else sum(map(self.count_tokens, texts))
        return Embedded(vectors=vectors, tokens=tokens, cost_usd=tokens * self.usd_per_million_tokens / 1_000_000)

    def _request(self, inputs: list[str], texts: Sequence[str]) -> tuple[Vectors, int | None]:
        """The vectors of `inputs`, and the tokens that the server counted, where it says."""
        import openai

        asked_for = None if self._settings.truncate_dimensions else self._settings.dimensions

        def send(client: openai.OpenAI) -> Any:
            return client.embeddings.with_raw_response.create(
                model=self._settings.model,
                input=inputs,
                dimensions=asked_for or openai.omit,
                encoding_format="float" if self._asks_for_floats else openai.omit,  # the client's own is base64
            )

        def read(reply: Any) -> tuple[Vectors, int | None]:
            tokens = getattr(getattr(reply, "usage", None), "total_tokens", None)
            return self._vectors(reply, expected=len(inputs)), tokens if isinstance(tokens, int) else None

        try:
            return self._server.call(send, read, tokens=sum(map(self.count_tokens, texts)))
        except openai.APIStatusError as error:
            if kind_of(error) in _REFUSED and "encoding_format" in server_words(error) and not self._asks_for_floats:
                self._asks_for_floats = True
                return self._request(inputs, texts)
            raise self._refusal(error, inputs=len(inputs)) from error
        except (openai.APIError, MalformedReplyError) as error:
            raise self._server.explain(error) from error

    def _refusal(self, error: "openai.APIStatusError", *, inputs: int) -> Exception:
        """Whose fault an error is, as the exception to raise."""
        words, dimensions = server_words(error), self._settings.dimensions
        kind = kind_of(error)
        if kind is FailureKind.TOO_LARGE:
            return TextTooLong(words) if inputs == 1 else BatchRefused(words)
        if kind is not FailureKind.REFUSED:
            return self._server.explain(error)
        if dimensions is not None and "dimensions" in words.lower():
            return ProviderError(
                f"{self._server} said {error.status_code}: {words}; check embedding.dimensions {dimensions}.",
                kind=FailureKind.REQUEST,
            )
        return TextRefused(words) if inputs == 1 else BatchRefused(words)

    def _vectors(self, reply: Any, *, expected: int) -> Vectors:
        """The vectors of `reply` in the order of the inputs, checked, of unit length."""
        items = list(getattr(reply, "data", None) or [])
        if len(items) != expected:
            raise MalformedReplyError(f"{len(items)} vectors for {expected} texts")
        order = [getattr(item, "index", None) for item in items]
        if any(number is not None for number in order):
            if set(order) != set(range(expected)):
                raise MalformedReplyError(f"vectors numbered {order[:10]} for {expected} texts")
            items.sort(key=lambda item: item.index)
        rows = [getattr(item, "embedding", None) for item in items]
        sizes = sorted({len(row) if isinstance(row, list) else 0 for row in rows})
        if len(sizes) > 1 or sizes[0] == 0:
            raise MalformedReplyError(f"vectors of {' and '.join(map(str, sizes))} numbers")
        wanted, truncates = self._settings.dimensions, self._settings.truncate_dimensions
        if wanted is not None and (sizes[0] < wanted if truncates else sizes[0] != wanted):
            raise ProviderError(
                f"{self._server} answered for embedding.model {self._settings.model!r} with vectors of {sizes[0]} numbers,"
                f" but embedding.dimensions is {wanted}; nothing of it was kept; set embedding.dimensions to {sizes[0]},"
                " remove it, or name a model that can be shortened: where the server does not do it, truncate_dimensions"
                " does it here.",
                kind=FailureKind.REQUEST,
            )
        try:
            vectors = np.array(rows, dtype=np.float64)[:, :wanted]
        except (TypeError, ValueError) as error:
            raise MalformedReplyError(f"vectors that are not numbers ({error})") from error
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise MalformedReplyError("a vector with a number that is not finite")
        if not lengths.all():
            raise MalformedReplyError("a vector of zeros")
        return np.asarray(vectors / lengths, dtype=np.float32)

    @property
    def usd_per_million_tokens(self) -> float:
        """As configured, else as listed for OpenAI itself; a server of one's own costs nothing unless told otherwise."""
        told = self._settings.usd_per_million_tokens
        if told is not None:
            return told
        return 0.0 if self._server.base_url else embedding_price(self._settings.model) or 0.0
