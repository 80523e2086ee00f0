"""The order of passages after a reranker had its say, or failed to."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from pydantic import BaseModel

from rag_assets.config import HttpRerank, NoRerank, PluginRerank
from rag_assets.errors import ProviderError
from rag_assets.plugins import ProviderPlugin
from rag_assets.records import Passage, Usage
from rag_assets.reranking.reordering import Reranking, reading_depth, reorder
from rag_assets.reranking.reranker import Reranked, RerankError
from rag_assets_tests.answering.passages import passage
from rag_assets_tests.reranking.rerank_server import FakeRerankServer

PASSAGES = [passage(text, f"{text}.md") for text in ("a", "b", "c", "d")]
Answer = Callable[[Sequence[Passage]], Sequence[float]]


class Keys(BaseModel):
    """The plugin has none."""


class Scripted:
    """A reranker that does what a test says."""

    name = "scripted"
    identity: Mapping[str, object] = {"provider": "scripted"}
    answer: Answer
    read: Sequence[Passage] = ()
    load: Callable[[], None]

    def rerank(self, question: str, passages: Sequence[Passage]) -> Reranked:
        Scripted.read = passages
        return Reranked(self.answer(passages), usage=Usage(1, 2, 3.0), notes=["Said by it."])


PLUGIN = ProviderPlugin(settings=Keys, make=lambda _: Scripted())


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Sequence[Passage], Reranking]]:
    """Reorders `PASSAGES` by what is given in place of the reranker's scores."""
    plugin = EntryPoint("scripted", f"{__name__}:PLUGIN", "rag_assets.rerank_providers")
    monkeypatch.setattr("rag_assets.plugins.entry_points", lambda **wanted: EntryPoints([plugin]).select(**wanted))

    def run(answer: Answer, **keys: Any) -> tuple[Sequence[Passage], Reranking]:
        monkeypatch.setattr(Scripted, "answer", staticmethod(answer), raising=False)
        settings = PluginRerank.model_validate({"provider": "scripted", **keys})
        return reorder(settings, "question", PASSAGES)

    return run


def shown(passages: Sequence[Passage]) -> list[tuple[str, float]]:
    return [(one.text, one.score) for one in passages]


def test_the_best_score_comes_first_and_is_the_score_of_the_passage(scripted):
    passages, reranking = scripted(lambda _: [0.1, 3, 0.2, -1])
    assert shown(passages) == [("b", 3.0), ("c", 0.2), ("a", 0.1), ("d", -1.0)]
    assert reranking.reranker is not None
    assert reranking.reranker.startswith("scripted@")
    assert len(reranking.reranker) == len("scripted@") + 8
    assert (reranking.usage, reranking.notes, reranking.failure) == (Usage(1, 2, 3.0), ["Said by it."], None)


def test_on_a_tie_the_one_found_first_stays_first(scripted):
    passages, _ = scripted(lambda _: [0, 1, 0, 1])
    assert [one.text for one in passages] == ["b", "d", "a", "c"]


def test_what_it_does_not_read_follows_as_it_was(scripted):
    passages, _ = scripted(lambda _: [1, 2], candidates=2)
    assert [one.text for one in Scripted.read] == ["a", "b"]
    assert shown(passages) == [("b", 2.0), ("a", 1.0), ("c", 1.0), ("d", 1.0)]


def raises(error: Exception) -> Answer:
    def answer(_: Sequence[Passage]) -> Sequence[float]:
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "reason", "may_pass"),
    [
        (raises(ProviderError("the key is wrong.")), "the key is wrong", False),
        (raises(ProviderError("busy", kind="server")), "busy", True),
        (raises(ProviderError("odd", kind="of a stranger")), "odd", False),
        (raises(ZeroDivisionError("by\nzero")), "ZeroDivisionError: by zero", False),
        (lambda _: [1, 2, 3], "it gave 3 scores for 4 passages", True),
        (lambda _: [1, 2, 3, float("nan")], "it gave the score nan, which is not finite", True),
        (lambda _: [1, 2, 3, None], "TypeError: .*NoneType.*", False),
    ],
)
def test_a_failure_leaves_the_order_and_is_told(scripted, answer: Answer, reason: str, may_pass: bool):
    passages, reranking = scripted(answer)
    assert passages == PASSAGES
    assert reranking.reranker is None
    assert reranking.identity == {}
    assert reranking.may_pass is may_pass
    [note] = reranking.notes
    assert re.fullmatch(rf"The reranker scripted failed: {reason}; passages are in fused order\.", note), note


def test_an_identity_that_cannot_be_told_is_a_failure_as_well(scripted, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Scripted, "identity", {"path": object()})
    passages, reranking = scripted(lambda _: [4, 3, 2, 1])
    assert (passages, reranking.reranker) == (PASSAGES, None)
    assert "not JSON serializable" in reranking.notes[0]


def test_what_a_useless_reply_cost_is_counted(scripted):
    _, reranking = scripted(raises(RerankError("no order", usage=Usage(1, 2, 3.0))))
    assert reranking.usage == Usage(1, 2, 3.0)


def test_one_that_takes_too_long_is_cut_off(scripted):
    """It is stuck until the test ends."""
    ended = threading.Event()

    def stuck(_: Sequence[Passage]) -> Sequence[float]:
        ended.wait()
        return [4, 3, 2, 1]

    passages, reranking = scripted(stuck, timeout_seconds=0.05)
    ended.set()
    assert passages == PASSAGES
    assert reranking.notes == [
        "The reranker scripted failed: it took longer than rerank.timeout_seconds 0.05; passages are in fused order."
    ]
    assert reranking.may_pass


def test_loading_a_model_does_not_count_as_time(scripted, monkeypatch: pytest.MonkeyPatch):
    """Whoever asks loads it; what is cut off runs in a thread of its own."""
    threads = []

    def load(self: Scripted) -> None:
        threads.append(threading.current_thread())

    def answer(_: Sequence[Passage]) -> Sequence[float]:
        threads.append(threading.current_thread())
        return [1, 2, 3, 4]

    monkeypatch.setattr(Scripted, "load", load, raising=False)
    _, reranking = scripted(answer)
    assert reranking.failure is None
    assert threads[0] is threading.current_thread()
    assert threads[1] is not threads[0]


def test_a_model_that_cannot_be_loaded_is_a_failure_as_well(scripted, monkeypatch: pytest.MonkeyPatch):
    def load(self: Scripted) -> None:
        raise ProviderError("no model")

    monkeypatch.setattr(Scripted, "load", load, raising=False)
    passages, reranking = scripted(lambda _: [1, 2, 3, 4])
    assert (passages, reranking.failure) == (PASSAGES, "scripted: no model")


def test_a_plugin_that_is_gone_is_a_failure_as_well(monkeypatch: pytest.MonkeyPatch):
    passages, reranking = reorder(PluginRerank.model_validate({"provider": "gone"}), "question", PASSAGES)
    assert passages == PASSAGES
    assert "The reranker gone failed: 'gone' is brought by no package" in reranking.notes[0]


def test_a_server_that_hangs_is_cut_off(server: FakeRerankServer):
    server.released.clear()
    settings = HttpRerank(provider="http", base_url=server.base_url, model="m", timeout_seconds=0.2)
    passages, reranking = reorder(settings, "a", PASSAGES)
    assert passages == PASSAGES
    assert reranking.may_pass
    assert "The reranker http/m failed: " in reranking.notes[0]
    server.released.set()


def test_without_a_reranker_or_passages_nothing_happens(server: FakeRerankServer):
    assert reorder(NoRerank(), "question", PASSAGES) == (PASSAGES, Reranking())
    settings = HttpRerank(provider="http", base_url=server.base_url, model="m")
    assert reorder(settings, "question", []) == ([], Reranking())
    assert server.requests == []
    assert (reading_depth(NoRerank()), reading_depth(settings)) == (0, 30)
