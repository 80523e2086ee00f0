"""Every way in which a provider fails, on command: how many calls it costs, and what a person is told."""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from rag_assets.answering.generator import Generated
from rag_assets.answering.generators import make_generator
from rag_assets.calling.failures import POLICIES, FailureKind, asked_to_wait, policy_table, step_table
from rag_assets.config import OpenAIEmbedding, OpenAIGeneration
from rag_assets.embedding.batching import embed_all
from rag_assets.embedding.openai_compatible import OpenAIProvider
from rag_assets.errors import ProviderError
from rag_assets.records import Passage
from rag_assets_tests.answering.passages import passage
from rag_assets_tests.fakes import FakeOpenAI, Malformation

QUICK = {"first_wait_seconds": 0.001, "max_retries": 3, "timeout_seconds": 5.0}
TEXTS = {"a": "the first text", "b": "the second text"}

Fail = Callable[[FakeOpenAI], None]


def refuses(status: int, *, times: int = 99, **reply: Any) -> Fail:
    """The server answers the next requests with `status`."""

    def prepare(fake: FakeOpenAI) -> None:
        for path in ("/embeddings", "/chat/completions"):
            fake.fail_next(status, times=times, path=path, **reply)

    return prepare


def spoils(how: Malformation) -> Fail:
    """The server spoils the next embeddings."""
    return lambda fake: fake.malform_next(how, times=99)


NO_RETRY = [
    (refuses(401, code="invalid_api_key"), "credentials", r"said 401.*check the key in \$OPENAI_API_KEY"),
    (refuses(403, message="Country not supported."), "credentials", r"said 403.*may not use \w+\.model"),
    (refuses(404, code="model_not_found"), "model", r"said 404.*check \w+\.model 'fake'"),
    (refuses(400, message="Unknown model: fake"), "model", r"said 400.*check \w+\.model 'fake'"),
    (refuses(404, message="Not Found"), "request", r"said 404.*base_url: it usually ends in /v1"),
    (refuses(429, code="insufficient_quota"), "quota", r"said 429.*no credit left"),
    (refuses(402, message="Payment required."), "quota", r"said 402.*no credit left"),
    (refuses(405, message="Method not allowed."), "request", r"said 405.*check the settings under"),
    (refuses(429, headers={"Retry-After": "600"}), "rate_limit", r"said 429.*it asks to wait 600 s.*concurrency"),
]
RETRIED = [
    (refuses(429, headers={"Retry-After": "0"}), "rate_limit", r"said 429.*requests_per_minute"),
    (refuses(429), "rate_limit", r"said 429.*requests_per_minute"),
    *(
        (refuses(status), "server", rf"said {status}.*up to 4 attempts")
        for status in (408, 409, 500, 502, 503, 504, 529)
    ),
]


def _embed(fake: FakeOpenAI, **settings: Any) -> set[str]:
    """The keys of `TEXTS` that are embedded."""
    kept: set[str] = set()
    provider = OpenAIProvider(
        OpenAIEmbedding.model_validate(
            {"provider": "openai", "model": "fake", "base_url": fake.base_url, **QUICK, **settings}
        )
    )
    embed_all(TEXTS, provider, keep=lambda keys, *_: kept.update(keys))
    return kept


def _answer(fake: FakeOpenAI, **settings: Any) -> Generated:
    generator = make_generator(
        OpenAIGeneration.model_validate(
            {"provider": "openai", "model": "fake", "base_url": fake.base_url, **QUICK, **settings}
        )
    )
    passages: list[Passage] = [passage("The Grimsel is closed from November to May.")]
    return generator.generate("When is the Grimsel closed?", passages)


@pytest.mark.parametrize("work", [_embed, _answer])
@pytest.mark.parametrize(
    ("fail", "kind", "told"), NO_RETRY, ids=[f"{kind}-{n}" for n, (_, kind, _) in enumerate(NO_RETRY)]
)
def test_what_waiting_cannot_mend_costs_one_call(
    fake: FakeOpenAI, work: Callable[..., object], fail: Fail, kind: str, told: str
):
    fail(fake)
    with pytest.raises(ProviderError, match=told) as raised:
        work(fake)
    assert (raised.value.kind, len(fake.requests)) == (kind, 1)


@pytest.mark.parametrize("work", [_embed, _answer])
@pytest.mark.parametrize(
    ("fail", "kind", "told"), RETRIED, ids=[f"{kind}-{n}" for n, (_, kind, _) in enumerate(RETRIED)]
)
def test_what_may_pass_is_tried_again_a_bounded_number_of_times(
    fake: FakeOpenAI, work: Callable[..., object], fail: Fail, kind: str, told: str
):
    fail(fake)
    with pytest.raises(ProviderError, match=told) as raised:
        work(fake)
    assert (raised.value.kind, len(fake.requests)) == (kind, 4)
    fake.recover()
    work(fake)
    assert len(fake.requests) == 5


@pytest.mark.parametrize(
    ("how", "kind", "calls"),
    [
        ("reset", "connection", 4),
        ("fewer_vectors", "malformed", 2),
        ("same_index", "malformed", 2),
        ("nan", "malformed", 2),
        ("zero", "malformed", 2),
        ("mixed_sizes", "malformed", 2),
        ("truncated_json", "malformed", 2),
        ("not_json", "malformed", 2),
    ],
)
def test_a_spoiled_reply_is_kept_by_nobody(fake: FakeOpenAI, how: Malformation, kind: str, calls: int):
    spoils(how)(fake)
    with pytest.raises(ProviderError) as raised:
        _embed(fake)
    assert (raised.value.kind, len(fake.requests)) == (kind, calls)
    fake.recover()
    assert _embed(fake) == set(TEXTS)


@pytest.mark.parametrize("how", ["shuffled", "no_index", "no_usage"])
def test_an_unusual_reply_is_taken_as_it_is_meant(fake: FakeOpenAI, how: Malformation):
    spoils(how)(fake)
    assert _embed(fake) == set(TEXTS)
    assert len(fake.requests) == 1


def test_a_size_that_was_not_asked_for_is_refused_at_once(fake: FakeOpenAI):
    spoils("wrong_size")(fake)
    with pytest.raises(ProviderError, match="set embedding.dimensions to 63"):
        _embed(fake, dimensions=64)
    assert len(fake.requests) == 1


def test_silence_before_the_reply_is_a_time_out(fake: FakeOpenAI):
    fake.latency_seconds = 1.0
    with pytest.raises(ProviderError, match=r"did not answer within 0\.1 s \(2 attempts\).*timeout_seconds") as raised:
        _embed(fake, timeout_seconds=0.1, max_retries=1)
    assert (raised.value.kind, len(fake.requests)) == ("connection", 2)


def test_silence_in_the_middle_of_the_reply_is_a_time_out(fake: FakeOpenAI):
    fake.malform_next("stall", times=2)
    with pytest.raises(ProviderError, match=r"did not answer within 0\.2 s \(2 attempts\)") as raised:
        _embed(fake, timeout_seconds=0.2, max_retries=1)
    assert (raised.value.kind, len(fake.requests)) == ("connection", 2)
    assert _embed(fake) == set(TEXTS)


@pytest.mark.parametrize(
    ("status", "message"),
    [(413, "Too much."), (400, "maximum context length is 4 tokens"), (400, "It is refused."), (422, "It is refused.")],
)
def test_a_refused_batch_is_halved_and_goes_on(fake: FakeOpenAI, status: int, message: str):
    fake.fail_next(status, message=message)
    assert _embed(fake) == set(TEXTS)
    assert [len(request.body["input"]) for request in fake.requests] == [2, 1, 1]


def test_a_wait_may_be_told_as_a_date(fake: FakeOpenAI):
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    fake.fail_next(503, headers={"Retry-After": at})
    started = time.monotonic()
    assert _embed(fake) == set(TEXTS)
    assert 0.5 < time.monotonic() - started < 10
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Wed, 01 Jan 2020 00:00:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 01 Jan 2020 00:00:00 +99999999999999999999"}, None),
    ],
)
def test_what_a_reply_asks_to_wait(headers: dict[str, str], seconds: float | None):
    assert asked_to_wait(headers) == seconds


def test_every_kind_has_a_policy():
    assert set(POLICIES) == set(FailureKind)


def test_the_manual_shows_the_tables_of_the_code():
    manual = (Path(__file__).parents[2] / "docs" / "failures.md").read_text(encoding="utf-8")
    assert policy_table() in manual
    assert step_table() in manual


def test_a_message_names_no_key(fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    refuses(401)(fake)
    with pytest.raises(ProviderError) as raised:
        _embed(fake)
    assert not re.search("sk-secret", str(raised.value))
