import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assets.calling import limiting, openai_client
from rag_assets.calling.limiting import Limiter, Limits, duration
from rag_assets.calling.openai_client import OpenAIServer
from rag_assets.config import OpenAIEmbedding
from rag_assets.embedding.openai_compatible import OpenAIProvider
from rag_assets_tests.fakes import FakeOpenAI


class Clock:
    """Time passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limiting, "time", made)
    return made


def most_in_a_minute(spent: list[tuple[float, int]]) -> int:
    return max(sum(cost for at, cost in spent if start <= at < start + 60) for start, _ in spent)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.sampled_from([1, 3, 60, 500]) | st.none(),
    tokens=st.sampled_from([100, 1000, 20_000]) | st.none(),
    costs=st.lists(st.integers(1, 100), min_size=1, max_size=60),
    idle=st.lists(st.sampled_from([0.0, 0.0, 0.0, 5.0, 90.0]), min_size=60, max_size=60),
)
def test_no_minute_holds_more_than_the_limits(
    clock: Clock,
    tmp_path_factory: pytest.TempPathFactory,
    requests: int | None,
    tokens: int | None,
    costs: list[int],
    idle: list[float],
):
    limits = Limits(concurrency=2, requests_per_minute=requests, tokens_per_minute=tokens)
    folder = tmp_path_factory.mktemp("limits")
    processes = [Limiter("key", limits, folder=folder) for _ in range(2)]
    sent: list[tuple[float, int]] = []
    for number, (cost, pause) in enumerate(zip(costs, idle, strict=False)):
        with processes[number % 2].request(cost):
            sent.append((clock.now, cost))
        clock.sleep(pause)
    if requests is not None:
        assert most_in_a_minute([(at, 1) for at, _ in sent]) <= requests
    if tokens is not None:
        assert most_in_a_minute(sent) <= tokens


def test_nine_tenths_of_a_limit_are_used(clock: Clock, tmp_path: Path):
    limiter = Limiter("key", Limits(concurrency=1, requests_per_minute=100), folder=tmp_path)
    started = clock.now
    for _ in range(1000):
        with limiter.request(1):
            pass
    assert 1000 / 100 * 60 <= clock.now - started < 1000 / 90 * 60 + 60


def test_without_limits_nobody_waits(clock: Clock, tmp_path: Path):
    limiter = Limiter("key", Limits(concurrency=1), folder=tmp_path)
    started = clock.now
    for _ in range(100):
        with limiter.request(1_000_000):
            pass
    assert clock.now == started


def test_a_request_larger_than_the_limit_is_sent_when_nothing_else_was(clock: Clock, tmp_path: Path):
    limiter = Limiter("key", Limits(concurrency=1, tokens_per_minute=10), folder=tmp_path)
    with limiter.request(1000):
        started = clock.now
    with limiter.request(1):
        assert clock.now - started > 60


def test_a_pause_holds_everybody_who_uses_the_same_key_and_nobody_else(clock: Clock, tmp_path: Path):
    one, other, stranger = (Limiter(key, Limits(concurrency=1), folder=tmp_path) for key in ("a", "a", "b"))
    one.pause(20)
    started = clock.now
    with stranger.request(1):
        assert clock.now == started
    with other.request(1):
        assert clock.now >= started + 20


def test_a_clock_that_was_set_back_holds_nobody_for_hours(clock: Clock, tmp_path: Path):
    limiter = Limiter("key", Limits(concurrency=1, requests_per_minute=1), folder=tmp_path)
    clock.now += 100_000
    limiter.pause(20)
    with limiter.request(1):
        pass
    clock.now -= 100_000
    started = clock.now
    with limiter.request(1):
        pass
    assert clock.now - started < 70


class TestGivingUp:
    def test_nobody_waits_longer_than_asked_and_nothing_is_booked_then(self, clock: Clock, tmp_path: Path):
        """A question that had given up still waited, and then spent a request that it did not send."""
        limiter = Limiter("key", Limits(concurrency=1, requests_per_minute=10), folder=tmp_path)
        with limiter.request(1):
            started = clock.now
        for number in range(1, 4):
            with pytest.raises(TimeoutError), limiter.request(1, until=clock.now + 2):
                pytest.fail("sent")
            assert clock.now == started + 2 * number
        with limiter.request(1):
            assert 6 < clock.now - started < 7

    def test_nothing_is_sent_when_it_is_too_late_from_the_start(self, clock: Clock, tmp_path: Path):
        limiter = Limiter("key", Limits(concurrency=1, requests_per_minute=1), folder=tmp_path)
        started = clock.now
        with pytest.raises(TimeoutError), limiter.request(1, until=clock.now):
            pytest.fail("sent")
        with limiter.request(1):
            assert clock.now == started

    def test_nothing_is_sent_where_to_book_it_took_too_long(
        self, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        def slow(*_: object) -> float:
            clock.sleep(10)
            return 0.0

        monkeypatch.setattr(Limiter, "_claim", slow)
        limiter = Limiter("key", Limits(concurrency=1), folder=tmp_path)
        with pytest.raises(TimeoutError), limiter.request(1, until=clock.now + 5):
            pytest.fail("sent")

    @pytest.mark.parametrize("other", [False, True], ids=["same process", "other process"])
    def test_a_place_in_flight_is_not_waited_for_longer_than_asked(self, tmp_path: Path, other: bool):
        first, second = (Limiter("key", Limits(concurrency=1), folder=tmp_path) for _ in range(2))
        waiting = second if other else first
        with first.request(1), pytest.raises(TimeoutError), waiting.request(1, until=time.monotonic() + 0.05):
            pytest.fail("sent")
        for limiter in (first, second):
            with limiter.request(1):
                pass

    def test_a_call_gives_up_when_it_said(self, clock: Clock, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(openai_client, "time", clock)
        settings = OpenAIEmbedding(provider="openai", base_url=fake.base_url, requests_per_minute=1)
        server = OpenAIServer("embedding", settings, model="fake", give_up_seconds=5)
        started = clock.now

        def ask() -> list[float]:
            return server.call(
                lambda client: client.embeddings.with_raw_response.create(model="fake", input="a"),
                lambda reply: reply.data[0].embedding,
                tokens=1,
            )

        assert ask()
        with pytest.raises(TimeoutError):
            ask()
        assert clock.now == started + 5
        assert len(fake.requests) == 1


class TestLearning:
    def test_the_limits_that_a_reply_tells_are_kept_to_by_all(self, clock: Clock, tmp_path: Path):
        one, other = (Limiter("key", Limits(concurrency=1), folder=tmp_path) for _ in range(2))
        one.learn({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59"}, tokens=1)
        sent = []
        for _ in range(120):
            with other.request(1):
                sent.append((clock.now, 1))
        assert most_in_a_minute(sent) <= 60

    def test_what_is_configured_comes_first(self, clock: Clock, tmp_path: Path):
        limiter = Limiter("key", Limits(concurrency=1, requests_per_minute=600), folder=tmp_path)
        limiter.learn({"x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "1"}, tokens=1)
        started = clock.now
        for _ in range(10):
            with limiter.request(1):
                pass
        assert clock.now - started < 5

    def test_nothing_left_is_waited_out(self, clock: Clock, tmp_path: Path):
        limiter = Limiter("key", Limits(concurrency=1), folder=tmp_path)
        limiter.learn({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12s"}, tokens=1)
        started = clock.now
        with limiter.request(1):
            assert 12 <= clock.now - started < 13

    def test_too_few_tokens_left_are_waited_for_as_long_as_they_take_to_come_back(self, clock: Clock, tmp_path: Path):
        limiter = Limiter("key", Limits(concurrency=1, tokens_per_minute=1_000_000), folder=tmp_path)
        limiter.learn(
            {
                "x-ratelimit-limit-tokens": "1000",
                "x-ratelimit-remaining-tokens": "200",
                "x-ratelimit-reset-tokens": "48s",
            },
            tokens=400,
        )
        started = clock.now
        with limiter.request(400):
            assert 12 <= clock.now - started < 13

    @pytest.mark.parametrize("headers", [{}, {"x-ratelimit-limit-requests": "many"}, {"x-ratelimit-limit-tokens": "0"}])
    def test_what_cannot_be_read_changes_nothing(self, clock: Clock, tmp_path: Path, headers: dict[str, str]):
        limiter = Limiter("key", Limits(concurrency=1), folder=tmp_path)
        limiter.learn(headers, tokens=1)
        started = clock.now
        for _ in range(3):
            with limiter.request(1):
                pass
        assert clock.now == started

    def test_a_provider_learns_from_the_replies_it_gets(self, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
        learnt: list[str | None] = []
        monkeypatch.setattr(
            Limiter, "learn", lambda self, headers, *, tokens: learnt.append(headers.get("content-type"))
        )
        OpenAIProvider(OpenAIEmbedding(provider="openai", base_url=fake.base_url)).embed(["a"], "document")
        assert learnt == ["application/json"]


class TestPlacesInFlight:
    def test_are_shared_by_all_with_the_same_key(self, tmp_path: Path):
        first, second = (Limiter("key", Limits(concurrency=2), folder=tmp_path) for _ in range(2))
        entered = threading.Event()

        def enter() -> None:
            with second.request(1):
                entered.set()

        waiting = threading.Thread(target=enter, daemon=True)
        with first.request(1):
            with second.request(1):
                waiting.start()
                assert not entered.wait(0.2)
            assert entered.wait(30)
        waiting.join()

    def test_are_freed_when_a_process_is_killed(self, tmp_path: Path):
        code = (
            "import sys, time; from pathlib import Path; from rag_assets.calling.limiting import Limiter, Limits\n"
            "with Limiter('key', Limits(concurrency=1), folder=Path(sys.argv[1])).request(1):\n"
            "    print('held', flush=True); time.sleep(600)"
        )
        holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        limiter = Limiter("key", Limits(concurrency=1), folder=tmp_path)
        entered = threading.Event()

        def enter() -> None:
            with limiter.request(1):
                entered.set()

        waiting = threading.Thread(target=enter, daemon=True)
        waiting.start()
        assert not entered.wait(0.2)
        holder.kill()
        holder.communicate()
        assert entered.wait(30)
        waiting.join()


@pytest.mark.parametrize("state", ["", "no database"], ids=["empty", "damaged"])
def test_a_damaged_state_is_no_failure(tmp_path: Path, state: str):
    Limiter("key", Limits(concurrency=1), folder=tmp_path).pause(0)
    (file,) = tmp_path.glob("*.sqlite")
    file.write_text(state * 1000)
    with Limiter("key", Limits(concurrency=1, requests_per_minute=10), folder=tmp_path).request(1):
        pass


def test_a_folder_that_cannot_be_written_to_leaves_each_process_to_itself(tmp_path: Path):
    (tmp_path / "file").write_text("")
    limiter = Limiter("key", Limits(concurrency=1, requests_per_minute=600), folder=tmp_path / "file")
    for _ in range(3):
        with limiter.request(1):
            pass
    limiter.pause(0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("20ms", 0.02),
        ("1h2m", 3720),
        ("1m26.4s", 86.4),
        ("59", 59),
        ("", None),
        ("soon", None),
    ],
)
def test_durations(text: str, seconds: float | None):
    assert duration(text) == (seconds if seconds is None else pytest.approx(seconds))
