"""What every embedding provider offers. One module a provider beside this one; batching and storage know only this."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Kind = Literal["document", "query"]


@dataclass(frozen=True)
class RequestLimits:
    """What one request may hold, and how many requests may be in flight at once, each from a thread of its own. Tokens are
    those of `EmbeddingProvider.count_tokens`."""

    inputs: int
    tokens: int
    tokens_per_input: int
    concurrency: int = 1


@dataclass(frozen=True)
class Embedded:
    """One response. `vectors` has shape (texts, dimensions), rows in the order of the texts, each of unit length.

    `tokens` is what the provider says it consumed; `cost_usd` is 0.0 for local models.
    """

    vectors: Vectors
    tokens: int
    cost_usd: float = 0.0


class TextRefused(Exception):  # noqa: N818 - it says what happened to a text, and is dealt with
    """The provider refused one text for what it is (not for its company, not for the provider's own state)."""


class TextTooLong(TextRefused):
    """The provider refused one text for its length alone: its halves may pass."""


class BatchRefused(Exception):  # noqa: N818 - as above
    """The provider refused a request of several texts as too many or too long, or because of one it did not name."""


class BatchLost(Exception):  # noqa: N818 - as above
    """A request was lost with whoever worked on it, more than once: whether its texts are at fault is not known."""


class EmbeddingProvider(Protocol):
    """Turns texts into unit vectors. Stateless but for a client or a loaded model. `embed` is called from as many threads
    at once as `limits.concurrency` says."""

    @property
    def name(self) -> str:
        """What an answer names as its embedding model, such as `local/all-MiniLM-L6-v2`."""
        ...

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a vector: provider, model, dimensions, prefixes, code version. No secret, no address
        that may move, nothing that only changes speed."""
        ...

    @property
    def limits(self) -> RequestLimits:
        """What one request may hold, and how many may be in flight."""
        ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as this provider counts them (an upper estimate where it cannot be known)."""
        ...

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        """Embed non-blank `texts` (at most `limits` allows) in one request.

        Raises `TextRefused` when a single text is refused, `BatchRefused` when several are and halving may help,
        `BatchLost` when it should not be tried again now, and `rag_assets.errors.ProviderError` for what is no text's
        fault, after the bounded retries of the client.
        """
        ...


def price_of(provider: EmbeddingProvider) -> float:
    """US dollars for a million tokens: `usd_per_million_tokens` of a provider that costs money, 0.0 for all others."""
    return float(getattr(provider, "usd_per_million_tokens", 0.0))


def without_lone_surrogates(text: str) -> str:
    """`text` with U+FFFD for each surrogate that has no partner: neither UTF-8 nor a tokenizer can hold one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
