"""Texts become requests, and every response is kept before the next request is sent.

Here belongs what may travel together: the limits of a request, windows of a text that is too long for one input, and
what is done when the provider refuses a request or a text. Retries for what is no text's fault are the provider's.
"""

import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rag_assets.embedding.provider import BatchRefused, EmbeddingProvider, TextRefused, TextTooLong, Vectors
from rag_assets.errors import ProviderError

_SHORTEST_HALVED = 64
"""A text of fewer tokens that is refused as too long is refused: no model reads as little."""

_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"

Keep = Callable[[Sequence[str], Vectors, Sequence[int]], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class EmbeddingOutcome:
    """What `embed_all` did. `refused` holds the reason for each key that has no vector; every other key was kept."""

    embedded: int
    tokens: int
    cost_usd: float
    requests: int
    refused: Mapping[str, str]


@dataclass(frozen=True)
class _Piece:
    """A text, or a window of one."""

    key: str
    text: str
    tokens: int


@dataclass
class _Open:
    """A text of which some windows are still missing; `total` is the sum of their vectors, weighted by tokens."""

    pieces: int
    tokens: int = 0
    total: Vectors | None = None


@dataclass
class _State:
    """What became of the texts so far."""

    count: int
    notify: Progress | None
    open: dict[str, _Open] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    embedded: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0
    dimensions: int | None = None

    def refuse(self, key: str, reason: str) -> None:
        self.refused[key] = reason
        self.open.pop(key, None)

    def report(self) -> None:
        if self.notify is not None:
            self.notify(self.embedded + len(self.refused), self.count)


def embed_all(
    texts: Mapping[str, str], provider: EmbeddingProvider, *, keep: Keep, progress: Progress | None = None
) -> EmbeddingOutcome:
    """Embed the values of `texts` as documents and hand them over by key.

    `keep(keys, vectors, tokens)` is called after each response, before the next request: vectors of shape
    (keys, dimensions) and unit length, and the tokens of each text as the provider counts them. So a kill loses at most
    the request in flight. `progress(done, total)` is called after each response, and at the end, with numbers of texts.

    A blank text is refused and never sent. A text over the limit of an input is embedded in windows cut at white space;
    its vector is their mean, weighted by tokens, and is kept once all of them are there. A refused request is halved
    until the text that it was refused for is alone.

    Raises `ProviderError` for what is no text's fault; what was kept before stays kept.
    """
    state = _State(count=len(texts), notify=progress)
    for batch in _batches(_pieces(texts, provider, state), provider):
        waiting: deque[Sequence[_Piece]] = deque([batch])
        while waiting:
            wanted = [piece for piece in waiting.popleft() if piece.key not in state.refused]
            if wanted:
                waiting.extendleft(reversed(_send(wanted, provider, keep, state)))
    state.report()
    return EmbeddingOutcome(
        embedded=state.embedded,
        tokens=state.tokens,
        cost_usd=state.cost_usd,
        requests=state.requests,
        refused=state.refused,
    )


def _send(batch: Sequence[_Piece], provider: EmbeddingProvider, keep: Keep, state: _State) -> list[Sequence[_Piece]]:
    """Send one request and keep what comes back. Returns what must be sent instead when it is refused."""
    state.requests += 1
    try:
        reply = provider.embed([piece.text for piece in batch], "document")
    except (BatchRefused, TextRefused) as error:
        if len(batch) > 1:
            middle = (len(batch) + 1) // 2
            return [batch[:middle], batch[middle:]]
        halves = _halves(batch[0], provider) if isinstance(error, TextTooLong) else []
        if halves:
            state.open.setdefault(batch[0].key, _Open(pieces=1)).pieces += len(halves) - 1
            return [[half] for half in halves]
        state.refuse(batch[0].key, str(error))
        state.report()
        return []
    if reply.vectors.shape[0] != len(batch):
        raise ProviderError(f"{provider.name} gave {reply.vectors.shape[0]} vectors for {len(batch)} texts.")
    state.dimensions = state.dimensions or reply.vectors.shape[1]
    if reply.vectors.shape[1] != state.dimensions:
        raise ProviderError(
            f"{provider.name} gave vectors of {reply.vectors.shape[1]} numbers after vectors of {state.dimensions};"
            " nothing of this response was kept. Check that one model answers at embedding.base_url."
        )
    state.tokens += reply.tokens
    state.cost_usd += reply.cost_usd
    _keep(batch, reply.vectors, keep, state)
    state.report()
    return []


def _keep(batch: Sequence[_Piece], vectors: Vectors, keep: Keep, state: _State) -> None:
    """Hand over the texts that this response completes."""
    keys: list[str] = []
    rows: list[Vectors] = []
    tokens: list[int] = []
    for piece, vector in zip(batch, vectors, strict=True):
        if piece.key not in state.open:
            whole, of_text = vector, piece.tokens
        else:
            text = state.open[piece.key]
            weighted = vector.astype(np.float64) * max(1, piece.tokens)
            text.total = weighted if text.total is None else text.total + weighted
            text.tokens += piece.tokens
            text.pieces -= 1
            if text.pieces:
                continue
            length = np.linalg.norm(text.total)
            if not length:
                state.refuse(piece.key, "the vectors of its windows cancel each other out")
                continue
            whole, of_text = (text.total / length).astype(np.float32), text.tokens
            del state.open[piece.key]
        keys.append(piece.key)
        rows.append(whole)
        tokens.append(of_text)
    if keys:
        keep(keys, np.stack(rows), tokens)
        state.embedded += len(keys)


def _pieces(texts: Mapping[str, str], provider: EmbeddingProvider, state: _State) -> Iterator[_Piece]:
    limit = min(provider.limits.tokens_per_input, provider.limits.tokens)
    for key, text in texts.items():
        if not text.strip():
            state.refuse(key, "the text is blank")
            continue
        tokens = provider.count_tokens(text)
        if tokens <= limit:
            yield _Piece(key, text, tokens)
            continue
        windows = list(_windows(_Piece(key, text, tokens), limit, provider))
        if any(window.tokens > limit for window in windows):
            state.refuse(key, f"the text cannot be cut into windows of at most {limit} tokens")
            continue
        state.open[key] = _Open(pieces=len(windows))
        yield from windows


def _batches(pieces: Iterator[_Piece], provider: EmbeddingProvider) -> Iterator[list[_Piece]]:
    """Fill requests in order, up to the limits."""
    limits = provider.limits
    batch: list[_Piece] = []
    tokens = 0
    for piece in pieces:
        if batch and (len(batch) == limits.inputs or tokens + piece.tokens > limits.tokens):
            yield batch
            batch, tokens = [], 0
        batch.append(piece)
        tokens += piece.tokens
    if batch:
        yield batch


def _halves(piece: _Piece, provider: EmbeddingProvider) -> list[_Piece]:
    """Windows of half the tokens of `piece`, or nothing when it is too short to be cut."""
    if piece.tokens < _SHORTEST_HALVED or len(piece.text) == 1:
        return []
    return list(_windows(piece, (piece.tokens + 1) // 2, provider))


def _windows(piece: _Piece, limit: int, provider: EmbeddingProvider) -> Iterator[_Piece]:
    """Cut into windows of about equal length and at most `limit` tokens; blank ones are left out.

    A single character over the limit comes out as it is.
    """
    if piece.tokens <= limit or len(piece.text) == 1:
        yield piece
        return
    parts = max(2, -(-piece.tokens // limit))
    start = 0
    for part in range(1, parts + 1):
        end = _cut(piece.text, start, start + max(1, (len(piece.text) - start) // (parts - part + 1)))
        window = piece.text[start:end]
        if window.strip():
            yield from _windows(_Piece(piece.key, window, provider.count_tokens(window)), limit, provider)
        start = end


def _cut(text: str, start: int, target: int) -> int:
    """The last place after `start` and up to `target` where `text` may be cut: after white space, else between letters
    (a letter and its accents, or a joined emoji, stay together)."""
    if target >= len(text):
        return len(text)
    for end in range(target, start + (target - start) // 2, -1):
        if text[end - 1].isspace():
            return end
    end = target
    while end > start + 1 and _are_joined(text[end - 1], text[end]):
        end -= 1
    return end


def _are_joined(left: str, right: str) -> bool:
    joiner = "\N{ZERO WIDTH JOINER}"
    return joiner in (left, right) or unicodedata.category(right) in {"Mn", "Mc", "Me"} or right in _SKIN_TONES
