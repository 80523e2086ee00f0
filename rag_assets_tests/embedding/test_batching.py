import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.config import HashingEmbedding, OpenAIEmbedding
from rag_assets.embedding.batching import EmbeddingOutcome, embed_all
from rag_assets.embedding.claiming import Claimed
from rag_assets.embedding.hashing import HashingProvider
from rag_assets.embedding.openai_compatible import OpenAIProvider
from rag_assets.embedding.provider import (
    BatchLost,
    BatchRefused,
    Embedded,
    EmbeddingProvider,
    Kind,
    RequestLimits,
    TextRefused,
    TextTooLong,
    Vectors,
)
from rag_assets.errors import ProviderError
from rag_assets_tests.fakes import FakeOpenAI


class Limited(HashingProvider):
    """The hashing provider with limits that it checks; a token is a word."""

    def __init__(
        self, *, inputs: int = 10, tokens: int = 1000, tokens_per_input: int = 100, concurrency: int = 1
    ) -> None:
        super().__init__(HashingEmbedding(provider="hashing", dimensions=32))
        self.sent: list[list[str]] = []
        self._limits = RequestLimits(
            inputs=inputs, tokens=tokens, tokens_per_input=tokens_per_input, concurrency=concurrency
        )

    @property
    def limits(self) -> RequestLimits:
        return self._limits

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        self.sent.append(list(texts))
        counts = [self.count_tokens(text) for text in texts]
        assert kind == "document"
        assert 0 < len(texts) <= self.limits.inputs
        assert sum(counts) <= self.limits.tokens
        assert max(counts) <= self.limits.tokens_per_input
        assert all(text.strip() for text in texts)
        return super().embed(texts, kind)


class Kept:
    """Where vectors go."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.vectors: dict[str, Vectors] = {}
        self.tokens: dict[str, int] = {}

    def __call__(self, keys: Sequence[str], vectors: Vectors, tokens: Sequence[int]) -> None:
        assert len(keys) == len(vectors) == len(tokens) > 0
        self.keys += keys
        self.vectors |= dict(zip(keys, vectors, strict=True))
        self.tokens |= dict(zip(keys, tokens, strict=True))


def _numbered(texts: Sequence[str]) -> dict[str, str]:
    return {f"k{number}": text for number, text in enumerate(texts)}


def _openai(fake: FakeOpenAI, **settings: object) -> OpenAIProvider:
    return OpenAIProvider(OpenAIEmbedding.model_validate({"provider": "openai", "base_url": fake.base_url, **settings}))


def test_requests_are_filled_in_order_up_to_the_number_of_inputs():
    provider, kept = Limited(inputs=2), Kept()
    outcome = embed_all(_numbered(["a", "b", "c"]), provider, keep=kept)
    assert provider.sent == [["a", "b"], ["c"]]
    assert kept.keys == ["k0", "k1", "k2"]
    assert outcome == EmbeddingOutcome(embedded=3, known=0, tokens=3, cost_usd=0.0, requests=2, refused={})


def test_requests_are_filled_up_to_the_number_of_tokens():
    provider = Limited(tokens=4)
    embed_all(_numbered(["a b", "c d", "e f g", "h"]), provider, keep=Kept())
    assert provider.sent == [["a b", "c d"], ["e f g", "h"]]


def test_every_response_is_kept_before_the_next_request():
    events: list[str] = []

    class Telling(Limited):
        def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
            events.append(f"send {' '.join(texts)}")
            return super().embed(texts, kind)

    embed_all({"a": "a", "b": "b"}, Telling(inputs=1), keep=lambda keys, *_: events.append(f"keep {' '.join(keys)}"))
    assert events == ["send a", "keep a", "send b", "keep b"]


def test_blank_texts_are_refused_and_never_sent():
    provider, kept = Limited(), Kept()
    outcome = embed_all({"a": "", "b": " \n\t", "c": "word"}, provider, keep=kept)
    assert provider.sent == [["word"]]
    assert outcome.refused == {"a": "the text is blank", "b": "the text is blank"}


def test_nothing_is_asked_for_nothing():
    provider = Limited()
    assert embed_all({}, provider, keep=Kept()) == EmbeddingOutcome(0, 0, 0, 0.0, 0, {})
    assert provider.sent == []


def test_progress_counts_texts_after_each_response():
    seen: list[tuple[int, int]] = []
    embed_all(_numbered(["a", "b", "c", ""]), Limited(inputs=2), keep=Kept(), progress=lambda *at: seen.append(at))
    assert seen[0] == (2, 4)
    assert seen[-1] == (4, 4)


class TestLongTexts:
    def test_are_cut_at_white_space_and_kept_once_as_the_weighted_mean(self):
        provider, kept = Limited(tokens_per_input=2), Kept()
        embed_all({"long": "red green blue", "short": "one"}, provider, keep=kept)
        assert provider.sent == [["red ", "green blue", "one"]]
        assert kept.keys == ["long", "short"]
        assert kept.tokens == {"long": 3, "short": 1}
        red, rest = super(Limited, provider).embed(["red ", "green blue"], "document").vectors
        mean = red + 2 * rest
        assert kept.vectors["long"] == pytest.approx(mean / np.linalg.norm(mean))

    def test_are_kept_with_their_last_window_when_that_is_in_another_request(self):
        provider, kept = Limited(inputs=1, tokens_per_input=1), Kept()
        outcome = embed_all({"long": "red green blue", "short": "one"}, provider, keep=kept)
        assert [[text.strip() for text in sent] for sent in provider.sent] == [["red"], ["green"], ["blue"], ["one"]]
        assert kept.keys == ["long", "short"]
        assert outcome.embedded == 2

    def test_without_white_space_are_cut_between_letters(self):
        class Characters(Limited):
            def count_tokens(self, text: str) -> int:
                return len(text)

        provider = Characters(tokens_per_input=4)
        embed_all({"a": "abcdefghij"}, provider, keep=Kept())
        assert provider.sent == [["abc", "def", "ghij"]]
        provider = Characters(tokens_per_input=4)
        embed_all({"a": "abce\u0301fgh"}, provider, keep=Kept())
        assert provider.sent == [["abc", "e\u0301", "fgh"]]

    def test_leave_out_blank_windows(self):
        class Characters(Limited):
            def count_tokens(self, text: str) -> int:
                return len(text)

        provider, kept = Characters(tokens_per_input=8), Kept()
        embed_all({"a": "start" + " " * 100 + "end"}, provider, keep=kept)
        assert [window.strip() for window in provider.sent[0]] == ["start", "end"]
        assert kept.keys == ["a"]

    def test_that_the_server_finds_longer_than_we_do_are_halved(self, fake: FakeOpenAI):
        """A server of 512 tokens behind a setting of 8,192: its refusals are obeyed and nothing is dropped."""
        fake.max_tokens_per_input = 100
        kept = Kept()
        text = "word " * 300
        outcome = embed_all({"long": text, "short": "a short one"}, _openai(fake), keep=kept)
        assert sorted(kept.keys) == ["long", "short"]
        assert "".join(text for text in fake.embedded_texts if "short" not in text) == text
        assert (outcome.embedded, dict(outcome.refused)) == (2, {})

    def test_that_are_always_too_long_are_refused_in_the_end(self):
        class Never(Limited):
            def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
                self.sent.append(list(texts))
                raise TextTooLong(f"too long for a {kind}")

        provider = Never(tokens_per_input=1000)
        outcome = embed_all({"a": "word " * 900}, provider, keep=Kept())
        assert outcome.refused == {"a": "too long for a document"}
        assert len(provider.sent) == 5

    def test_that_cannot_be_cut_are_refused(self):
        class Heavy(Limited):
            def count_tokens(self, text: str) -> int:
                return 3 * len(text)

        outcome = embed_all({"a": "ab", "b": "c"}, Heavy(tokens_per_input=2), keep=Kept())
        assert set(outcome.refused) == {"a", "b"}
        assert outcome.requests == 0


class Answering(Limited):
    """Answers when it is let go, with `error` where there is one."""

    def __init__(self, *, tokens_per_input: int, error: Exception | None = None) -> None:
        super().__init__(inputs=1, tokens_per_input=tokens_per_input, concurrency=2)
        self.let_go = threading.Event()
        self._error = error

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        assert self.let_go.wait(30)
        if self._error is not None:
            raise self._error
        return super().embed(texts, kind)


class DoneElsewhere:
    """A text is ours for so many claims; with the next, another has embedded it. `then` is called before that is told."""

    poll_seconds = 0.0

    def __init__(self, then: Callable[[], None], *, ours_for: int = 1) -> None:
        self.released: set[str] = set()
        self._then = then
        self._ours_for = ours_for
        self._claims: Counter[str] = Counter()

    def claim(self, keys: Collection[str]) -> Claimed:
        self._claims.update(keys)
        known = frozenset(key for key in keys if self._claims[key] > self._ours_for)
        if known:
            self._then()
        return Claimed(mine=frozenset(keys) - known, known=known)

    def release(self, keys: Collection[str]) -> None:
        self.released.update(keys)


class TestTextsThatAnotherEmbeddedMeanwhile:
    def test_are_not_kept_with_the_vector_of_the_window_that_was_in_flight(self):
        """Its vector was kept as that of the whole text."""
        provider, kept = Answering(tokens_per_input=2), Kept()
        claims, seen = DoneElsewhere(provider.let_go.set), list[tuple[int, int]]()
        outcome = embed_all(
            {"long": "red green blue cyan", "short": "one"},
            provider,
            keep=kept,
            claims=claims,
            progress=lambda *at: seen.append(at),
        )
        assert kept.keys == ["short"]
        assert (outcome.embedded, outcome.known, outcome.tokens, dict(outcome.refused)) == (1, 1, 3, {})
        assert max(seen) == (2, 2)
        assert claims.released == {"long", "short"}

    @pytest.mark.parametrize(
        "error", [TextRefused("no"), TextTooLong("too long"), BatchLost("lost")], ids=lambda error: type(error).__name__
    )
    def test_are_not_refused_for_the_window_that_was_in_flight(self, error: Exception):
        provider = Answering(tokens_per_input=100, error=error)
        claims, seen = DoneElsewhere(provider.let_go.set), list[tuple[int, int]]()
        outcome = embed_all(
            {"long": "word " * 200}, provider, keep=Kept(), claims=claims, progress=lambda *at: seen.append(at)
        )
        assert (outcome.embedded, outcome.known, outcome.requests, dict(outcome.refused)) == (0, 1, 1, {})
        assert max(seen) == (1, 1)
        assert claims.released == {"long"}

    def test_are_not_kept_with_the_vector_of_a_half_that_was_in_flight(self):
        """A text that the server finds too long is halved, and claimed again with each half."""

        class Halving(Limited):
            let_go = threading.Event()

            def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
                if self.count_tokens(texts[0]) > 50:
                    raise TextTooLong("too long")
                assert self.let_go.wait(30)
                return super().embed(texts, kind)

        provider, kept = Halving(inputs=1, concurrency=2), Kept()
        claims = DoneElsewhere(provider.let_go.set, ours_for=2)
        outcome = embed_all({"long": "word " * 90}, provider, keep=kept, claims=claims)
        assert kept.keys == []
        assert (outcome.embedded, outcome.known, outcome.requests) == (0, 1, 2)


class TestRefusals:
    def test_one_poison_text_in_fifty_is_named_and_the_others_are_kept(self, fake: FakeOpenAI):
        for position in (0, 17, 49):
            fake.recover()
            fake.requests.clear()
            fake.refuse_texts_with("poison")
            texts = _numbered([f"good {number}" for number in range(50)])
            texts[f"k{position}"] = "poison"
            kept = Kept()
            outcome = embed_all(texts, _openai(fake), keep=kept)
            assert outcome.refused == {f"k{position}": "The input was refused by the content filter."}
            assert sorted(kept.keys) == sorted(set(texts) - {f"k{position}"})
            assert outcome.requests == len(fake.requests) <= 2 * math.log2(50) + 2

    def test_a_poison_window_refuses_its_text_and_its_other_windows_are_not_sent(self, fake: FakeOpenAI):
        fake.refuse_texts_with("poison")
        texts = {"bad": "first second poison third fourth", "good": "fine"}
        kept = Kept()
        provider = _openai(fake, max_tokens_per_input=3, max_inputs_per_request=1, concurrency=1)
        outcome = embed_all(texts, provider, keep=kept)
        assert kept.keys == ["good"]
        assert outcome.refused == {"bad": "The input was refused by the content filter."}
        assert [text.strip() for text in fake.embedded_texts] == ["first second", "fine"]

    def test_a_batch_of_too_many_tokens_is_halved(self, fake: FakeOpenAI):
        fake.max_tokens = 50
        kept = Kept()
        outcome = embed_all(_numbered(["x" * 40] * 8), _openai(fake), keep=kept)
        assert len(kept.keys) == 8
        assert outcome.requests == 3
        assert len(fake.embedded_texts) == 8

    def test_a_batch_of_too_many_inputs_is_halved(self, fake: FakeOpenAI):
        fake.max_inputs = 3
        kept = Kept()
        embed_all(_numbered([f"text {number}" for number in range(10)]), _openai(fake), keep=kept)
        assert sorted(kept.keys) == [f"k{number}" for number in range(10)]

    def test_the_caps_of_openai_are_kept_to_by_600_chunks_of_700_tokens(self, fake: FakeOpenAI):
        fake.count_tokens = lambda text: len(text.split())
        texts = _numbered([f"{number:03d}" + " word" * 699 for number in range(600)])
        outcome = embed_all(
            texts, _openai(fake, max_inputs_per_request=2048, max_tokens_per_request=300_000), keep=Kept()
        )
        assert (outcome.embedded, outcome.requests) == (600, 2)


class Meeting(Limited):
    """Answers a request once `concurrency` of them are in flight."""

    def __init__(self, *, concurrency: int, requests: int) -> None:
        super().__init__(inputs=1, concurrency=concurrency)
        assert requests % concurrency == 0
        self._met = threading.Barrier(concurrency)
        self.at_once = 0
        self.most_at_once = 0
        self._count = threading.Lock()

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        with self._count:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self._met.wait(timeout=30)
        with self._count:
            self.at_once -= 1
        return super().embed(texts, kind)


class TestConcurrency:
    def test_as_many_requests_are_in_flight_as_the_provider_allows_and_no_more(self):
        provider, kept = Meeting(concurrency=4, requests=12), Kept()
        outcome = embed_all(_numbered([f"text {number}" for number in range(12)]), provider, keep=kept)
        assert provider.most_at_once == 4
        assert (outcome.embedded, outcome.requests) == (12, 12)
        assert sorted(kept.keys) == sorted(f"k{number}" for number in range(12))

    def test_what_is_in_flight_when_another_request_fails_is_kept(self):
        class FailsOnce(Limited):
            failed = threading.Event()

            def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
                if texts == ["bad"]:
                    self.failed.set()
                    raise ProviderError("The server is down.")
                assert self.failed.wait(30)
                return super().embed(texts, kind)

        kept, provider = Kept(), FailsOnce(inputs=1, concurrency=3)
        with pytest.raises(ProviderError, match="is down"):
            embed_all({"a": "a", "bad": "bad", "b": "b", "c": "never sent"}, provider, keep=kept)
        assert sorted(kept.keys) == ["a", "b"]

    def test_progress_is_told_while_a_slow_provider_says_nothing(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("rag_assets.embedding.batching._SIGN_OF_LIFE_SECONDS", 0.01)
        told = threading.Event()

        class Slow(Limited):
            def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
                assert told.wait(30)
                return super().embed(texts, kind)

        seen: list[tuple[int, int]] = []

        def progress(done: int, total: int) -> None:
            seen.append((done, total))
            told.set()

        embed_all(_numbered(["a"]), Slow(), keep=Kept(), progress=progress)
        assert seen[0] == (0, 1)


class LastLetGo(Limited):
    """Has two requests in flight, of which that for `the last` is answered when it is let go."""

    def __init__(self) -> None:
        super().__init__(inputs=1, concurrency=2)
        self.let_go = threading.Event()

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        assert texts != ["the last"] or self.let_go.wait(30)
        return super().embed(texts, kind)


class TestFailures:
    def test_what_was_kept_before_a_failure_stays_kept(self, fake: FakeOpenAI):
        kept = Kept()
        provider = _openai(fake, max_inputs_per_request=2, concurrency=1)

        def keep_then_fail(keys: Sequence[str], vectors: Vectors, tokens: Sequence[int]) -> None:
            kept(keys, vectors, tokens)
            fake.fail_next(401)

        with pytest.raises(ProviderError, match="said 401"):
            embed_all(_numbered(["a", "b", "c"]), provider, keep=keep_then_fail)
        assert kept.keys == ["k0", "k1"]

    def test_a_vector_of_another_size_than_before_is_refused_before_it_is_kept(self, fake: FakeOpenAI):
        kept = Kept()

        def keep_then_change(keys: Sequence[str], vectors: Vectors, tokens: Sequence[int]) -> None:
            kept(keys, vectors, tokens)
            fake.dimensions = 48

        with pytest.raises(ProviderError, match="vectors of 48 numbers after vectors of 64"):
            embed_all(
                _numbered(["a", "b"]), _openai(fake, max_inputs_per_request=1, concurrency=1), keep=keep_then_change
            )
        assert kept.keys == ["k0"]

    def test_an_error_of_the_store_is_passed_on(self):
        def full(*_: object) -> None:
            raise OSError("no space left")

        with pytest.raises(OSError, match="no space left"):
            embed_all({"a": "a"}, Limited(), keep=full)

    @pytest.mark.parametrize("bill_fails", [False, True])
    def test_what_was_paid_is_billed_when_the_store_fails_and_so_is_what_is_in_flight(self, bill_fails: bool):
        """The account of a run, and with it `max_cost_per_run`, left out what it had paid and could not keep."""
        provider, kept = LastLetGo(), Kept()
        billed: list[int] = []

        def fail_once(keys: Sequence[str], vectors: Vectors, tokens: Sequence[int]) -> None:
            if not provider.let_go.is_set():
                provider.let_go.set()
                raise OSError("no space left")
            kept(keys, vectors, tokens)

        def bill(texts: int, tokens: int, cost_usd: float) -> None:
            billed.append(tokens)
            if bill_fails:
                raise OSError("no account either")

        texts = {"first": "one", "last": "the last", "never": "never sent"}
        with pytest.raises(OSError, match="no space left"):
            embed_all(texts, provider, keep=fail_once, bill=bill)
        assert billed == [1, 2]
        assert kept.keys == ["last"]

    def test_an_error_of_the_account_is_passed_on_once_what_is_in_flight_is_kept(self):
        provider, kept = LastLetGo(), Kept()

        def fail(*_: object) -> None:
            provider.let_go.set()
            raise OSError("no account")

        with pytest.raises(OSError, match="no account"):
            embed_all({"first": "one", "last": "the last", "never": "never sent"}, provider, keep=kept, bill=fail)
        assert kept.keys == ["first", "last"]

    def test_a_kill_loses_at_most_the_requests_in_flight(self, tmp_path: Path):
        log, kept = tmp_path / "sent.jsonl", tmp_path / "kept.txt"
        server = subprocess.Popen(
            [sys.executable, "-m", "rag_assets_tests.fakes", "--log", str(log), "--latency-seconds", "0.02"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            base_url = server.stdout.readline().strip()
            client = subprocess.Popen([sys.executable, "-c", _CLIENT, base_url, str(kept)])
            _wait_until(lambda: log.exists() and len(log.read_text().splitlines()) >= 200)
            client.send_signal(signal.SIGKILL)
            client.wait()
            sent = [json.loads(line) for line in log.read_text().splitlines()]
            stored = kept.read_text().splitlines()
            assert set(stored) <= {text.removeprefix("text ") for text in sent}
            assert 200 <= len(sent) < 100_000
            assert 0 <= len(sent) - len(stored) <= 3 * 10
        finally:
            server.terminate()
            server.communicate()


_CLIENT = """
import sys
from rag_assets.config import OpenAIEmbedding
from rag_assets.embedding.batching import embed_all
from rag_assets.embedding.openai_compatible import OpenAIProvider

settings = OpenAIEmbedding(provider="openai", base_url=sys.argv[1], max_inputs_per_request=10, concurrency=3)
with open(sys.argv[2], "a") as file:
    def keep(keys, vectors, tokens):
        file.writelines(key + "\\n" for key in keys)
        file.flush()

    embed_all({str(n): f"text {n}" for n in range(100_000)}, OpenAIProvider(settings), keep=keep)
"""


def _wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


_TEXTS = st.lists(st.text(alphabet="ab c\n\u0301é", max_size=60), max_size=25)


@settings(deadline=None)
@given(_TEXTS, st.integers(1, 5), st.integers(1, 12), st.integers(1, 12))
def test_every_text_is_kept_once_or_refused_once_and_no_request_is_over_a_limit(
    texts: list[str], inputs: int, tokens: int, tokens_per_input: int
):
    provider, kept = Limited(inputs=inputs, tokens=tokens, tokens_per_input=tokens_per_input), Kept()
    outcome = embed_all(_numbered(texts), provider, keep=kept)
    assert sorted([*kept.keys, *outcome.refused]) == sorted(_numbered(texts))
    assert {key for key, text in _numbered(texts).items() if not text.strip()} <= set(outcome.refused)
    assert len(provider.sent) == outcome.requests
    for key, vector in kept.vectors.items():
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5), key
    assert all(kept.tokens[key] >= 1 for key in kept.keys)


@settings(deadline=None)
@given(st.sets(st.integers(0, 29)))
def test_any_set_of_poison_texts_is_told_from_the_good_ones(poison: set[int]):
    class Refusing(Limited):
        def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
            if any("poison" in text for text in texts):
                raise BatchRefused("no") if len(texts) > 1 else TextRefused("no")
            return super().embed(texts, kind)

    kept = Kept()
    texts = _numbered([f"{'poison' if number in poison else 'good'} {number}" for number in range(30)])
    outcome = embed_all(texts, Refusing(), keep=kept)
    assert set(outcome.refused) == {f"k{number}" for number in poison}
    assert kept.keys == [f"k{number}" for number in range(30) if number not in poison]


def test_every_provider_satisfies_the_protocol():
    provider: EmbeddingProvider = Limited()
    identity: Mapping[str, object] = provider.identity
    assert identity["provider"] == "hashing"
