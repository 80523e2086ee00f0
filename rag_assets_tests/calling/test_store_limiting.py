"""Limits that hold for several machines, on an S3 server; a machine is a limiter with a folder of its own."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rag_assets.calling import limiting, store_limiting
from rag_assets.calling.limiting import Limiter, Limits
from rag_assets.calling.store_limiting import StoreLimiter, limiter_of
from rag_assets.errors import StoreError
from rag_assets.storing.objects import Mark, Objects
from rag_assets_tests.calling.test_limiting import Clock, most_in_a_minute

Machine = Callable[[str, Limits], StoreLimiter]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limiting, "time", made)
    monkeypatch.setattr(store_limiting, "time", made)
    monkeypatch.setattr(store_limiting, "seconds_behind", lambda _: 0.0)
    return made


@pytest.fixture
def machine(bucket_home: str, tmp_path: Path) -> Machine:
    """A machine that uses a key."""
    made: list[StoreLimiter] = []

    def make(key: str, limits: Limits) -> StoreLimiter:
        made.append(StoreLimiter(key, limits, Objects(bucket_home), folder=tmp_path / str(len(made))))
        return made[-1]

    return make


@pytest.mark.parametrize(
    ("requests", "tokens"), [(300, None), (60, 20_000), (None, 5_000), (3, None), (None, 100)], ids=str
)
def test_no_minute_holds_more_than_the_limits_whichever_machine_sends(
    clock: Clock, machine: Machine, requests: int | None, tokens: int | None
):
    limits = Limits(concurrency=2, requests_per_minute=requests, tokens_per_minute=tokens)
    machines = [machine("key", limits) for _ in range(2)]
    choose = random.Random(7)
    sent: list[tuple[float, int]] = []
    for _ in range(120):
        cost = choose.choice([1, 40, 100])
        with choose.choice(machines).request(cost):
            sent.append((clock.now, cost))
        clock.sleep(choose.choice([0.0, 0.0, 0.0, 0.0, 3.0, 20.0]))
    if requests is not None:
        assert most_in_a_minute([(at, 1) for at, _ in sent]) <= requests
    if tokens is not None:
        assert most_in_a_minute(sent) <= tokens


def test_four_fifths_of_a_limit_are_used_by_two_together(clock: Clock, machine: Machine):
    machines = [machine("key", Limits(concurrency=1, requests_per_minute=600)) for _ in range(2)]
    started = clock.now
    for number in range(3_000):
        with machines[number % 2].request(1):
            pass
    assert 3_000 / 600 * 60 <= clock.now - started < 3_000 / 480 * 60


def test_many_requests_cost_few_of_the_store(clock: Clock, machine: Machine, monkeypatch: pytest.MonkeyPatch):
    limiter = machine("key", Limits(concurrency=1, requests_per_minute=3_000, tokens_per_minute=1_000_000))
    puts = 0
    update = Objects.update

    def counted(self: Objects, path: str, data: bytes, mark: Mark) -> Mark | None:
        nonlocal puts
        puts += 1
        return update(self, path, data, mark)

    monkeypatch.setattr(Objects, "update", counted)
    for _ in range(1_000):
        with limiter.request(100):
            pass
    assert puts <= 30


def test_a_pause_holds_other_machines_once_they_have_sent_what_they_booked(clock: Clock, machine: Machine):
    one, other, stranger = (machine(key, Limits(concurrency=1, requests_per_minute=600)) for key in ("a", "a", "b"))
    one.pause(20)
    started = clock.now
    with stranger.request(1):
        assert clock.now == started
    with other.request(1):
        assert clock.now >= started + 20


def test_without_limits_nobody_waits_and_a_pause_is_seen_soon(clock: Clock, machine: Machine):
    one, other = machine("a", Limits(concurrency=1)), machine("a", Limits(concurrency=1))
    started = clock.now
    for _ in range(100):
        with one.request(1_000_000):
            pass
    assert clock.now == started
    other.pause(20)
    clock.sleep(3)
    with one.request(1):
        assert clock.now >= started + 20


def test_what_a_reply_tells_is_kept_to_by_all_and_put_once(
    clock: Clock, machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    one, other = machine("a", Limits(concurrency=1)), machine("a", Limits(concurrency=1))
    headers = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59"}
    one.learn(headers, tokens=1)
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "update", lambda *_: pytest.fail("put again"))
        one.learn(headers, tokens=1)
    started = clock.now
    for _ in range(120):
        with other.request(1):
            pass
    assert clock.now - started > 60


def test_where_the_store_does_not_answer_a_machine_keeps_to_the_limits_alone(
    clock: Clock, machine: Machine, monkeypatch: pytest.MonkeyPatch
):
    asked = 0

    def down(*_: object) -> None:
        nonlocal asked
        asked += 1
        raise StoreError("down")

    for method in ("get", "create", "update"):
        monkeypatch.setattr(Objects, method, down)
    limiter = machine("a", Limits(concurrency=1, requests_per_minute=60))
    started = clock.now
    for _ in range(180):
        with limiter.request(1):
            pass
    assert clock.now - started > 120
    assert asked < 10, "to ask takes seconds, so it is asked again after a minute"


def test_the_home_decides_who_shares_the_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("RAG_ASSETS_HOME", str(tmp_path))
    assert type(limiter_of("key", Limits(concurrency=1))) is Limiter
    monkeypatch.setenv("RAG_ASSETS_HOME", "s3://bucket/store")
    assert type(limiter_of("key", Limits(concurrency=1))) is StoreLimiter
