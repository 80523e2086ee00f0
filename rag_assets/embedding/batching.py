"""Texts become requests, as many in flight as the provider allows; every response is kept before another is sent.

Here belongs what may travel together: the limits of a request, windows of a text that is too long for one input, and
what is done when the provider refuses a request or a text. Retries for what is no text's fault are the provider's.
"""

import contextlib
import queue
import threading
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rag_assets.embedding.claiming import Claims
from rag_assets.embedding.provider import (
    BatchLost,
    BatchRefused,
    Embedded,
    EmbeddingProvider,
    TextRefused,
    TextTooLong,
    Vectors,
)
from rag_assets.errors import ProviderError

_SHORTEST_HALVED = 64
"""A text of fewer tokens that is refused as too long is refused: no model reads as little."""

_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"

_SIGN_OF_LIFE_SECONDS = 5.0

Keep = Callable[[Sequence[str], Vectors, Sequence[int]], None]
Progress = Callable[[int, int], None]
Bill = Callable[[int, int, float], None]


@dataclass(frozen=True)
class EmbeddingOutcome:
    """What `embed_all` did. `refused` holds the reason for each key that has no vector; every other key was kept, or is
    among `known`, which somebody else had embedded meanwhile."""

    embedded: int
    known: int
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
    known: set[str] = field(default_factory=set)
    embedded: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    requests: int = 0
    dimensions: int | None = None

    def is_settled(self, key: str) -> bool:
        """Whether a text was refused, or embedded by somebody else. What still comes back of its windows is of no use."""
        return key in self.refused or key in self.known

    def refuse(self, key: str, reason: str) -> None:
        if key not in self.known:
            self.refused[key] = reason
            self.open.pop(key, None)

    def know(self, keys: Collection[str]) -> None:
        self.known.update(keys)
        for key in keys:
            self.open.pop(key, None)

    def report(self) -> None:
        if self.notify is not None:
            self.notify(self.embedded + len(self.refused) + len(self.known), self.count)


@dataclass(frozen=True)
class _Sent:
    """A request that is over, and what came back or was raised."""

    batch: Sequence[_Piece]
    result: Embedded | Exception


def embed_all(
    texts: Mapping[str, str],
    provider: EmbeddingProvider,
    *,
    keep: Keep,
    claims: Claims | None = None,
    bill: Bill | None = None,
    progress: Progress | None = None,
) -> EmbeddingOutcome:
    """Embed the values of `texts` as documents and hand them over by key.

    At most `provider.limits.concurrency` requests are in flight. `keep(keys, vectors, tokens)` is called with what came
    back before another request is sent: vectors of shape (keys, dimensions) and unit length, and the tokens of each text
    as the provider counts them. So a kill loses at most the requests in flight. A text that another process claims is left
    to it, and sent only when that dies without a vector. `bill(texts, tokens, cost_usd)` is called once a response, as
    soon as its vectors are kept, or `keep` has failed. `progress(done, total)` is called with numbers of texts after each
    response, every few seconds while none comes, and at the end.

    A blank text is refused and never sent. A text over the limit of an input is embedded in windows cut at white space;
    its vector is their mean, weighted by tokens, and is kept once all of them are there. A refused request is halved
    until the text that it was refused for is alone; one that is lost is refused as it is.

    Raises `ProviderError` for what is no text's fault, or what `keep` or `bill` raised, once the requests in flight are
    over, kept and billed; what was kept before stays kept.
    """
    state = _State(count=len(texts), notify=progress)
    batches = _batches(_pieces(texts, provider, state), provider)
    waiting: deque[Sequence[_Piece]] = deque()
    elsewhere: list[_Piece] = []
    over: queue.SimpleQueue[_Sent] = queue.SimpleQueue()
    in_flight = 0
    failure: Exception | None = None
    while True:
        while failure is None and in_flight < provider.limits.concurrency:
            batch = waiting.popleft() if waiting else next(batches, None)
            if batch is None:
                break
            wanted, others = _wanted(batch, claims, state)
            elsewhere += others
            if wanted:
                state.requests += 1
                in_flight += 1
                _send(wanted, provider, over)
        if not in_flight and elsewhere and claims is not None and failure is None:
            time.sleep(claims.poll_seconds)
            waiting.extend(_batches(iter(elsewhere), provider))
            elsewhere = []
            state.report()
            continue
        if not in_flight:
            break
        replies = _next(over, state)
        in_flight -= len(replies)
        good: list[tuple[Sequence[_Piece], Embedded]] = []
        for sent in replies:
            if isinstance(sent.result, Embedded):
                good.append((sent.batch, sent.result))
            elif isinstance(sent.result, BatchRefused | TextRefused):
                waiting.extendleft(reversed(_instead(sent.batch, sent.result, provider, state)))
            elif isinstance(sent.result, BatchLost):
                for piece in sent.batch:
                    state.refuse(piece.key, str(sent.result))
            else:
                failure = failure or sent.result
        wrong = _keep_replies(good, provider, keep, state)
        if claims is not None:
            claims.release(_settled(replies, state))
        failure = failure or wrong
        if bill is not None:
            for batch, reply in good:
                try:
                    bill(len(batch), reply.tokens, reply.cost_usd)
                except Exception as error:
                    failure = failure or error
        state.report()
    if failure is not None:
        raise failure
    state.report()
    return EmbeddingOutcome(
        embedded=state.embedded,
        known=len(state.known),
        tokens=state.tokens,
        cost_usd=state.cost_usd,
        requests=state.requests,
        refused=state.refused,
    )


def _wanted(batch: Sequence[_Piece], claims: Claims | None, state: _State) -> tuple[Sequence[_Piece], Sequence[_Piece]]:
    """What of `batch` must still be sent, and what somebody else is sending."""
    left = [piece for piece in batch if not state.is_settled(piece.key)]
    if claims is None or not left:
        return left, ()
    claimed = claims.claim({piece.key for piece in left})
    state.know(claimed.known)
    left = [piece for piece in left if piece.key not in claimed.known]
    mine = [piece for piece in left if piece.key in claimed.mine]
    return mine, [piece for piece in left if piece.key not in claimed.mine]


def _settled(replies: Sequence[_Sent], state: _State) -> list[str]:
    """Texts of which nothing is left to be sent."""
    return [
        piece.key
        for sent in replies
        for piece in sent.batch
        if state.is_settled(piece.key) or (isinstance(sent.result, Embedded) and piece.key not in state.open)
    ]


def _send(batch: Sequence[_Piece], provider: EmbeddingProvider, over: "queue.SimpleQueue[_Sent]") -> None:
    """Send one request from a thread that dies with the process: nobody waits for it when the work is interrupted."""

    def send() -> None:
        try:
            over.put(_Sent(batch, provider.embed([piece.text for piece in batch], "document")))
        except Exception as error:
            over.put(_Sent(batch, error))

    threading.Thread(target=send, name="embedding", daemon=True).start()


def _next(over: "queue.SimpleQueue[_Sent]", state: _State) -> list[_Sent]:
    """The next request that is over, and all that are over with it."""
    replies: list[_Sent] = []
    while not replies:
        try:
            replies.append(over.get(timeout=_SIGN_OF_LIFE_SECONDS))
        except queue.Empty:
            state.report()
    with contextlib.suppress(queue.Empty):
        while True:
            replies.append(over.get_nowait())
    return replies


def _instead(
    batch: Sequence[_Piece], error: BatchRefused | TextRefused, provider: EmbeddingProvider, state: _State
) -> list[Sequence[_Piece]]:
    """What must be sent instead of a batch that was refused."""
    if len(batch) > 1:
        middle = (len(batch) + 1) // 2
        return [batch[:middle], batch[middle:]]
    if state.is_settled(batch[0].key):
        return []
    halves = _halves(batch[0], provider) if isinstance(error, TextTooLong) else []
    if halves:
        state.open.setdefault(batch[0].key, _Open(pieces=1)).pieces += len(halves) - 1
        return [[half] for half in halves]
    state.refuse(batch[0].key, str(error))
    return []


def _keep_replies(
    replies: Sequence[tuple[Sequence[_Piece], Embedded]], provider: EmbeddingProvider, keep: Keep, state: _State
) -> Exception | None:
    """Hand over what came back, in one call. Returns what is wrong with a reply of the wrong shape, which is not kept,
    or else what `keep` raised."""
    wrong: Exception | None = None
    done: list[tuple[str, Vectors, int]] = []
    for batch, reply in replies:
        rows, size = reply.vectors.shape
        state.dimensions = state.dimensions or size
        if rows != len(batch):
            wrong = ProviderError(f"{provider.name} gave {rows} vectors for {len(batch)} texts.")
        elif size != state.dimensions:
            wrong = ProviderError(
                f"{provider.name} gave vectors of {size} numbers after vectors of {state.dimensions}; nothing of this"
                " response was kept. Check that one model answers at embedding.base_url."
            )
        else:
            state.tokens += reply.tokens
            state.cost_usd += reply.cost_usd
            done += _completed(batch, reply.vectors, state)
    if done:
        vectors = np.stack([vector for _, vector, _ in done])
        try:
            keep([key for key, _, _ in done], vectors, [tokens for *_, tokens in done])
        except Exception as error:
            return wrong or error
        state.embedded += len(done)
    return wrong


def _completed(batch: Sequence[_Piece], vectors: Vectors, state: _State) -> Iterator[tuple[str, Vectors, int]]:
    """The texts that this response completes, each with its vector and its tokens."""
    for piece, vector in zip(batch, vectors, strict=True):
        if state.is_settled(piece.key):
            continue
        if piece.key not in state.open:
            yield piece.key, vector, piece.tokens
            continue
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
        del state.open[piece.key]
        yield piece.key, (text.total / length).astype(np.float32), text.tokens


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
