"""Embeddings from any server that speaks OpenAI's protocol: OpenAI, vLLM, Ollama, llama.cpp, LiteLLM and others.

Here belongs one request and what its reply means for the texts in it. How texts become requests is `batching`; how the
server is reached, and what its failures mean, is `openai_client`.
"""

import functools
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_assets.config import OpenAIEmbedding
from rag_assets.embedding.openai_client import OpenAIServer, blames_length, blames_model, server_words
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

if TYPE_CHECKING:
    import openai

CODE_VERSION = "1"
USD_PER_MILLION_TOKENS = {  # OpenAI's price list, November 2026
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.10,
}
_REFUSALS = {400, 413, 422}


class OpenAIProvider:
    """One embedding model behind an OpenAI-compatible server."""

    def __init__(self, settings: OpenAIEmbedding) -> None:
        self._settings = settings
        self._server = OpenAIServer("embedding", settings)
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
        }

    @property
    def limits(self) -> RequestLimits:
        """As configured."""
        settings = self._settings
        return RequestLimits(
            inputs=settings.max_inputs_per_request,
            tokens=settings.max_tokens_per_request,
            tokens_per_input=settings.max_tokens_per_input,
        )

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` with its prefix: exact for OpenAI's own models, an upper estimate for others.

        Others are reckoned at 1.4 word pieces a token and two marks: one cl100k token is at most 1.39 word pieces in 95
        of 100 texts (prose, Python, Markdown; measured in November 2026).
        """
        from rag_assets.tokenizing import count_tokens

        settings = self._settings
        prefix = max(settings.document_prefix, settings.query_prefix, key=len)
        tokens = count_tokens(prefix + without_lone_surrogates(text), "cl100k_base")
        return tokens if settings.model in USD_PER_MILLION_TOKENS else math.ceil(1.4 * tokens) + 2

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        """Embed `texts` in one request, with as many retries and as long a wait as the settings and the server say.

        Raises `TextRefused` or `BatchRefused` for 400, 413 and 422, else `ProviderError` with the setting to change.
        """
        if not texts:
            return Embedded(vectors=np.empty((0, self._settings.dimensions or 0), dtype=np.float32), tokens=0)
        prefix = self._settings.query_prefix if kind == "query" else self._settings.document_prefix
        reply = self._request([prefix + without_lone_surrogates(text) for text in texts])
        vectors = self._vectors(reply, expected=len(texts))
        tokens = getattr(getattr(reply, "usage", None), "total_tokens", None)
        if not isinstance(tokens, int):
            tokens = sum(map(self.count_tokens, texts))
        return Embedded(vectors=vectors, tokens=tokens, cost_usd=self._cost_usd(tokens))

    def _request(self, inputs: list[str]) -> Any:
        client = self._client

        import openai

        try:
            return client.embeddings.create(
                model=self._settings.model,
                input=inputs,
                dimensions=self._settings.dimensions or openai.omit,
                encoding_format="float" if self._asks_for_floats else openai.omit,  # the client's own is base64
            )
        except openai.APIStatusError as error:
            if (
                error.status_code in _REFUSALS
                and "encoding_format" in server_words(error)
                and not self._asks_for_floats
            ):
                self._asks_for_floats = True
                return self._request(inputs)
            raise self._refusal(error, inputs=len(inputs)) from error
        except openai.APIConnectionError as error:
            raise self._server.explain(error) from error
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
            # What the client raises for a reply that is not JSON, or is JSON of another shape.
            raise self._malformed(f"no list of embeddings ({type(error).__name__}: {error})") from error

    def _refusal(self, error: "openai.APIStatusError", *, inputs: int) -> Exception:
        """Whose fault an error is, as the exception to raise."""
        words, dimensions = server_words(error), self._settings.dimensions
        if blames_length(error):
            return TextTooLong(words) if inputs == 1 else BatchRefused(words)
        if error.status_code not in _REFUSALS or blames_model(error):
            return self._server.explain(error)
        if dimensions is not None and "dimensions" in words.lower():
            return ProviderError(
                f"{self._server} said {error.status_code}: {words}; check embedding.dimensions {dimensions}."
            )
        return TextRefused(words) if inputs == 1 else BatchRefused(words)

    def _vectors(self, reply: Any, *, expected: int) -> Vectors:
        """The vectors of `reply` in the order of the inputs, checked, of unit length."""
        items = list(getattr(reply, "data", None) or [])
        if len(items) != expected:
            raise self._malformed(f"{len(items)} vectors for {expected} texts")
        order = [getattr(item, "index", None) for item in items]
        if any(number is not None for number in order):
            if set(order) != set(range(expected)):
                raise self._malformed(f"vectors numbered {order[:10]} for {expected} texts")
            items.sort(key=lambda item: item.index)
        rows = [getattr(item, "embedding", None) for item in items]
        sizes = sorted({len(row) if isinstance(row, list) else 0 for row in rows})
        if len(sizes) > 1 or sizes[0] == 0:
            raise self._malformed(f"vectors of {' and '.join(map(str, sizes))} numbers")
        wanted = self._settings.dimensions
        if wanted is not None and sizes[0] != wanted:
            raise self._malformed(
                f"vectors of {sizes[0]} numbers, but embedding.dimensions is {wanted}",
                remedy=f"set embedding.dimensions to {sizes[0]}, remove it, or name a model that can be shortened",
            )
        try:
            vectors = np.array(rows, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise self._malformed(f"vectors that are not numbers ({error})") from error
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise self._malformed("a vector with a number that is not finite")
        if not lengths.all():
            raise self._malformed("a vector of zeros")
        return np.asarray(vectors / lengths, dtype=np.float32)

    def _malformed(self, found: str, *, remedy: str = "check embedding.base_url and embedding.model") -> ProviderError:
        return ProviderError(
            f"{self._server} answered for embedding.model {self._settings.model!r} with {found};"
            f" nothing of it was kept; {remedy}."
        )

    def _cost_usd(self, tokens: int) -> float:
        price = self._settings.usd_per_million_tokens
        if price is None:
            price = 0.0 if self._server.base_url else USD_PER_MILLION_TOKENS.get(self._settings.model, 0.0)
        return tokens * price / 1_000_000

    @functools.cached_property
    def _client(self) -> "openai.OpenAI":
        client = self._server.client()
        weakref.finalize(self, client.close)
        return client
