"""Embedding over Ray, on two nodes that the tests start; the providers are real ones, and the server counts."""

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import yaml
from pydantic import BaseModel

from rag_assets.config import (
    EmbeddingSettings,
    HashingEmbedding,
    LocalEmbedding,
    OpenAIEmbedding,
    PluginEmbedding,
    RayWorkers,
    load_settings,
)
from rag_assets.embedding import ray_workers
from rag_assets.embedding.batching import EmbeddingOutcome, embed_all
from rag_assets.embedding.hashing import HashingProvider, hashed_bags
from rag_assets.embedding.provider import Embedded, EmbeddingProvider, TextRefused, Vectors, price_of
from rag_assets.embedding.providers import embedding_identity, make_provider
from rag_assets.embedding.ray_workers import RayProvider
from rag_assets.errors import ConfigError, ProviderError
from rag_assets.plugins import ProviderPlugin
from rag_assets_tests import ray_cluster
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.ray_cluster import RayCluster
from rag_assets_tests.serving import wait_until

TEXTS = {f"k{number}": f"Ship {number} enters the harbour at noon." for number in range(40)}

ONE_A_NODE = {"cpus": ray_cluster.CPUS}
"""Two workers on one node would share the limits of a server that count for a machine."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    why = ray_cluster.missing()
    if why:
        pytest.skip(why)
    with ray_cluster.two_nodes({"NO_PROXY": "127.0.0.1,localhost"}) as running:
        yield running


def over_ray(settings: EmbeddingSettings, cluster: RayCluster, **asked: Any) -> RayProvider:
    return RayProvider(settings, RayWorkers.model_validate({"workers": 2, "address": cluster.address, **asked}))


def openai(fake: FakeOpenAI, **keys: Any) -> OpenAIEmbedding:
    own = {
        "provider": "openai",
        "base_url": fake.base_url,
        "model": "fake",
        "max_inputs_per_request": 4,
        "timeout_seconds": 600,
        "concurrency": 1,
    }
    return OpenAIEmbedding.model_validate({**own, **keys})


def embed(provider: EmbeddingProvider) -> tuple[EmbeddingOutcome, dict[str, Vectors]]:
    kept: dict[str, Vectors] = {}

    def keep(keys: Sequence[str], vectors: Vectors, tokens: Sequence[int]) -> None:
        assert not kept.keys() & set(keys), "nothing is kept twice"
        kept.update(zip(keys, vectors, strict=True))

    return embed_all(TEXTS, provider, keep=keep), kept


class Gate:
    """Holds requests in the server until it is opened, and counts how many are there at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened = threading.Event()
        self.inside = 0
        self.most = 0

    def __call__(self, texts: Sequence[str], dimensions: int) -> Vectors:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self._opened.wait(120)
        with self._lock:
            self.inside -= 1
        return hashed_bags(texts, dimensions)

    def open(self) -> None:
        self._opened.set()


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    return thread, results


# With a cluster


@pytest.mark.slow
def test_both_nodes_embed_and_the_vectors_are_those_of_this_process(cluster: RayCluster):
    settings = LocalEmbedding(threads=1)
    provider = over_ray(settings, cluster, **ONE_A_NODE)
    _, here = embed(make_provider(settings))
    outcome, there = embed(provider)
    assert outcome.embedded == len(TEXTS)
    wait_until(lambda: len(cluster.workers()) == 2, "both workers run")
    assert len(set(cluster.workers().values())) == 2, "one on each node"
    assert here.keys() == there.keys()
    for key, vector in here.items():
        assert np.array_equal(vector, there[key])


@pytest.mark.slow
def test_no_more_requests_are_in_flight_than_the_workers_may_have(cluster: RayCluster, fake: FakeOpenAI):
    fake.vectors_of = gate = Gate()
    provider = over_ray(openai(fake, concurrency=3, max_inputs_per_request=1), cluster, **ONE_A_NODE)
    thread, results = in_background(lambda: embed(provider))
    wait_until(lambda: gate.inside == 6, "both workers have three requests in flight")
    gate.open()
    thread.join(120)
    assert results[0][0].embedded == len(TEXTS)
    assert gate.most == 6
    assert sorted(fake.embedded_texts) == sorted(TEXTS.values())


@pytest.mark.slow
def test_the_batch_of_a_killed_worker_is_done_once_more_and_nothing_else_is(cluster: RayCluster, fake: FakeOpenAI):
    fake.vectors_of = gate = Gate()
    provider = over_ray(openai(fake), cluster, **ONE_A_NODE)
    thread, results = in_background(lambda: embed(provider))
    wait_until(lambda: gate.inside == 2, "both workers have a request in flight")
    before = cluster.workers()
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: gate.inside == 3, "its request is sent by another")
    gate.open()
    thread.join(120)
    outcome, kept = results[0]
    assert (outcome.embedded, outcome.refused, set(kept)) == (len(TEXTS), {}, set(TEXTS))
    sent = [fake.embedded_texts.count(text) for text in TEXTS.values()]
    assert sorted(sent) == [1] * 36 + [2] * 4, "the four texts of its request went out twice"
    assert min(before) not in cluster.workers()


@pytest.mark.slow
def test_texts_that_kill_two_workers_are_set_aside_and_may_pass_later(
    cluster: RayCluster, fake: FakeOpenAI, tmp_path: Path
):
    asked = {"workers": 1, "address": cluster.address}
    platform = Platform(
        tmp_path, fake, {"embedding": {**openai(fake, max_inputs_per_request=1).model_dump(), "ray": asked}}
    )
    for name in ("good", "deadly", "better"):
        platform.write(f"{name}.md", f"A {name} text.")
    killed: list[int] = []

    def kill(texts: Sequence[str], dimensions: int) -> Vectors:
        if "A deadly text." in texts and len(killed) < 2:
            killed.append(cluster.kill_workers())
        return hashed_bags(texts, dimensions)

    fake.vectors_of = kill
    result = platform.ingest()
    assert killed == [1, 1]
    [failed] = result["failed"]
    assert (failed["document"], failed["stage"]) == ("deadly.md", "embed")
    assert "the Ray worker that embedded it died, and so did the one that did it again (process " in failed["reason"]
    assert {row["document"] for row in platform.rows()} == {"good.md", "better.md"}
    assert fake.embedded_texts.count("A good text.") == 1

    platform.write("deadly.md", "A deadly text.\n")
    assert platform.ingest()["failed"] == []
    assert {row["document"] for row in platform.rows()} == {"good.md", "deadly.md", "better.md"}


@pytest.mark.slow
def test_what_a_provider_raises_keeps_its_class_and_its_words(
    cluster: RayCluster, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
):
    """The key is one that the nodes do not have: it goes with the work."""
    fake.api_key = "sesame"
    monkeypatch.setenv("OPENAI_API_KEY", "something else")
    with pytest.raises(ProviderError, match="OPENAI_API_KEY") as refused:
        embed(over_ray(openai(fake), cluster))
    assert refused.value.kind == "credentials"

    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    fake.refuse_texts_with("Ship 7 ")
    provider = over_ray(openai(fake), cluster)
    with pytest.raises(TextRefused, match="content filter"):
        provider.embed([TEXTS["k7"]], "document")
    outcome, kept = embed(provider)
    assert dict(outcome.refused) == {"k7": "The input was refused by the content filter."}
    assert len(kept) == 39
    assert len(fake.embedded_texts) == 39, "halving a request embeds nothing twice"


@pytest.mark.slow
def test_workers_get_what_they_ask_for_and_end_with_the_work(cluster: RayCluster):
    import ray

    provider = over_ray(HashingEmbedding(provider="hashing"), cluster, workers=1, cpus=0.5, gpus=1)
    provider.embed(["text"], "document")
    wait_until(lambda: ray.available_resources().get("GPU", 0) == 0, "the GPU is taken")
    assert len(cluster.workers()) == 1
    del provider
    gc.collect()
    wait_until(lambda: ray.available_resources().get("GPU", 0) == 1, "the GPU is free again")
    wait_until(lambda: cluster.workers() == {}, "the worker has ended")


@pytest.mark.slow
def test_the_work_is_done_by_as_many_workers_as_there_is_room_for(
    cluster: RayCluster, caplog: pytest.LogCaptureFixture
):
    provider = over_ray(HashingEmbedding(provider="hashing"), cluster, gpus=1, start_seconds=30)
    assert embed(provider)[0].embedded == len(TEXTS)
    wait_until(lambda: "Embedding goes on with 1 of 2 Ray workers" in caplog.text, "the other one is given up")
    assert embed(provider)[0].embedded == len(TEXTS)


@pytest.mark.slow
def test_no_room_for_any_worker_is_told_with_what_there_is(cluster: RayCluster):
    provider = over_ray(HashingEmbedding(provider="hashing"), cluster, cpus=64, start_seconds=0.5)
    with pytest.raises(ProviderError, match=r"no room for 64 CPUs and 0 GPUs within .* 0.5; it has 4 CPUs and 1 GPUs"):
        embed(provider)


@pytest.mark.slow
def test_a_worker_that_makes_other_vectors_is_refused(cluster: RayCluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rag_assets.embedding.local.CODE_VERSION", "another")
    with pytest.raises(
        ProviderError, match=r"process \d+ on .* makes other vectors .*code_version differ.*same version"
    ):
        embed(over_ray(LocalEmbedding(), cluster))


class _NoKeys(BaseModel):
    """Of a plugin that needs none."""


_PLUGIN = ProviderPlugin(_NoKeys, lambda _keys: HashingProvider(HashingEmbedding(provider="hashing")))


@pytest.mark.slow
def test_a_provider_that_a_node_does_not_have_is_named(cluster: RayCluster, monkeypatch: pytest.MonkeyPatch):
    found = EntryPoint("own", f"{__name__}:_PLUGIN", "rag_assets.embedding_providers")
    monkeypatch.setattr("rag_assets.plugins.entry_points", lambda **wanted: EntryPoints([found]).select(**wanted))
    with pytest.raises(ProviderError, match="A Ray worker could not be started: 'own' is brought by no package"):
        embed(over_ray(PluginEmbedding(provider="own"), cluster))


# With a fake of Ray

HASHING = HashingEmbedding(provider="hashing")


class FakeRay:
    """The module `ray`, as far as a pool needs it. `tokens` of what comes back is the number of the worker, from 1.

    `starts` are what happens at each start in turn and `replies` at each request, as an exception that is raised, a
    function that is called and may return one, or None; after the last all goes well.
    """

    def __init__(self, starts: Sequence[Any], replies: Sequence[Any]) -> None:
        import ray.exceptions

        self.exceptions = ray.exceptions
        self.introduced: list[int] = []
        self._starts, self._replies = deque(starts), deque(replies)
        self._started = 0

    def remote(self, _worker: type) -> Any:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._start))

    def get(self, call: Callable[[], Any], timeout: float | None = None) -> Any:
        return call()

    def kill(self, _actor: Any) -> None:
        pass

    def _start(self, *_: Any) -> Any:
        self._started += 1
        number = self._started

        def introduce() -> Any:
            _happens(self._starts)
            self.introduced.append(number)
            return dict(make_provider(HASHING).identity), f"worker {number}"

        def embed(texts: Sequence[str]) -> Embedded:
            assert number in self.introduced
            _happens(self._replies)
            return Embedded(np.ones((len(texts), 2), np.float32), tokens=number)

        return SimpleNamespace(
            introduce=SimpleNamespace(remote=lambda: introduce),
            embed=SimpleNamespace(remote=lambda texts: lambda: embed(texts)),
        )


def _happens(told: deque[Any]) -> None:
    what = told.popleft() if told else None
    if callable(what):
        what = what()
    if what is not None:
        raise what


def over_fake(
    monkeypatch: pytest.MonkeyPatch, *, workers: int = 1, starts: Sequence[Any] = (), replies: Sequence[Any] = ()
) -> RayProvider:
    """A provider whose workers are all ready."""
    if why := ray_cluster.missing():
        pytest.skip(why)
    fake_ray = FakeRay(starts, replies)
    monkeypatch.setattr(ray_workers, "connect", lambda _address: fake_ray)
    provider = RayProvider(HASHING, RayWorkers(workers=workers))
    pool = provider._pool
    wait_until(lambda: all(place.ready for place in pool._places), "all workers are ready")
    return provider


def of_ray(name: str) -> Exception:
    import ray.exceptions

    made: Exception = getattr(ray.exceptions, name)(*([] if name == "ActorDiedError" else ["gone"]))
    return made


@pytest.mark.parametrize("name", ["ActorDiedError", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError"])
def test_what_was_lost_with_a_worker_or_its_node_is_done_once_more(monkeypatch: pytest.MonkeyPatch, name: str):
    assert over_fake(monkeypatch, replies=[lambda: of_ray(name)]).embed(["text"], "document").tokens == 2


@pytest.mark.parametrize(
    "error",
    ["RaySystemError", "RpcError", "LocalRayletDiedError", ConnectionError("gone"), Exception("not connected")],
    ids=str,
)
def test_what_else_ray_raises_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, error: str | Exception):
    """A ray:// connection that is lost raises `ConnectionError`, and `Exception` itself at every later call."""
    provider = over_fake(monkeypatch, replies=[lambda: of_ray(error) if isinstance(error, str) else error])
    name = error if isinstance(error, str) else type(error).__name__
    with pytest.raises(
        ProviderError, match=rf"address 'auto' failed with 1 texts: {name}: .*; see what `ray status` tells"
    ):
        provider.embed(["text"], "document")


def test_what_a_provider_raises_by_mistake_stays_what_it_is(monkeypatch: pytest.MonkeyPatch):
    def raised() -> Exception:
        from ray.exceptions import RayTaskError

        error: Exception = RayTaskError("embed", "ValueError: a mistake", ValueError("a mistake")).as_instanceof_cause()
        return error

    provider = over_fake(monkeypatch, replies=[raised])
    with pytest.raises(ValueError, match="a mistake"):
        provider.embed(["text"], "document")


def test_a_worker_that_was_replaced_meanwhile_is_not_taken_for_the_new_one(monkeypatch: pytest.MonkeyPatch):
    """Between the choice of a worker and the request another thread may replace it by one that is not introduced yet."""
    asked = threading.Event()

    def tell_and_die() -> Exception:
        asked.set()
        return of_ray("ActorDiedError")

    provider = over_fake(monkeypatch, starts=[None, lambda: asked.wait(60) and None], replies=[tell_and_die])
    pool = provider._pool
    take = pool._take

    def take_and_replace() -> Any:
        taken = place, actor, _ = take()
        if not asked.is_set():
            pool._replace(place, actor)
            wait_until(lambda: place.actor is not actor, "another worker is put in its place")
        return taken

    monkeypatch.setattr(pool, "_take", take_and_replace)
    assert provider.embed(["text"], "document").tokens == 2


def test_a_worker_that_cannot_be_started_again_does_not_end_the_work_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def died() -> Exception:
        return of_ray("ActorDiedError")

    refused = ProviderError("The model is not on this node.")
    provider = over_fake(monkeypatch, workers=2, starts=[None, None, refused, refused], replies=[died, None, died])
    provider.embed(["text"], "document")
    told = "Embedding goes on with 1 of 2 Ray workers: The model is not on this node"
    wait_until(lambda: told in caplog.text, "one is given up")
    with pytest.raises(ProviderError, match=r"No Ray worker could be started: The model is not on this node\.$"):
        provider.embed(["text"], "document")


def test_what_a_version_of_ray_does_not_have_is_left_alone():
    """It was taken for a cluster that does not answer."""
    ray_workers._keep_quiet(SimpleNamespace())
    ray_workers._keep_quiet(SimpleNamespace(_private=SimpleNamespace(worker=SimpleNamespace())))


# Without a cluster


def test_without_ray_installed_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    provider = RayProvider(LocalEmbedding(), RayWorkers(workers=1))
    with pytest.raises(ProviderError, match=r"pip install 'rag-assets\[ray\]'"):
        provider.embed(["text"], "document")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "harbour:none"])
def test_a_cluster_that_does_not_answer_is_named_with_the_remedy(address: str):
    if ray_cluster.missing():
        pytest.skip("ray is not installed")
    ray_cluster.disconnect()
    provider = RayProvider(LocalEmbedding(), RayWorkers(workers=1, address=address))
    with pytest.raises(
        ProviderError, match=rf"No Ray cluster answers at embedding.ray.address '{address}': .*ray start"
    ):
        provider.embed(["text"], "document")


def test_a_cluster_that_does_not_answer_is_asked_once_and_told_in_one_line(tmp_path: Path, fake: FakeOpenAI):
    """Each of 32 requests would wait for it in turn."""
    if ray_cluster.missing():
        pytest.skip("ray is not installed")
    ray_cluster.disconnect()
    asked = {"workers": 8, "address": "127.0.0.1:1"}
    platform = Platform(tmp_path, fake, {"embedding": {**openai(fake, concurrency=4).model_dump(), "ray": asked}})
    for number in range(200):
        platform.write(f"{number}.md", f"Ship {number}.")
    with mock.patch("rag_assets.embedding.ray_workers._knock", wraps=ray_workers._knock) as knock:
        outcome = platform.run("ingest")
    assert knock.call_count == 1
    assert outcome.status == 1
    told = [line for line in outcome.err.splitlines() if "No Ray cluster answers" in line]
    assert len(told) == 1
    assert "'127.0.0.1:1'" in told[0]


def test_questions_are_embedded_here():
    settings = HashingEmbedding(provider="hashing")
    provider = RayProvider(settings, RayWorkers(workers=1, address="127.0.0.1:1"))
    assert np.array_equal(
        provider.embed(["text"], "query").vectors, make_provider(settings).embed(["text"], "query").vectors
    )


def test_ray_changes_no_vector_and_no_price(fake: FakeOpenAI):
    plain = openai(fake, usd_per_million_tokens=3.0)
    asked = plain.model_copy(update={"ray": RayWorkers(workers=8)})
    assert embedding_identity(asked) == embedding_identity(plain)
    provider = RayProvider(asked, RayWorkers(workers=8))
    assert (provider.name, price_of(provider)) == ("openai/fake", 3.0)
    assert provider.limits.concurrency == 8 * make_provider(plain).limits.concurrency


def test_the_keys_of_a_plugin_are_its_own():
    settings = PluginEmbedding.model_validate({"provider": "own", "url": "x", "ray": {"workers": 2}})
    assert (settings.keys, settings.ray) == ({"url": "x"}, RayWorkers(workers=2))


def test_a_worker_has_as_many_threads_as_cpus():
    provider = RayProvider(LocalEmbedding(), RayWorkers(workers=1, cpus=4))
    assert provider.limits.inputs == make_provider(LocalEmbedding(threads=4)).limits.inputs
    told = RayProvider(LocalEmbedding(threads=2), RayWorkers(workers=1, cpus=4))
    assert told.limits.inputs == make_provider(LocalEmbedding(threads=2)).limits.inputs


@pytest.mark.parametrize(
    ("ray", "message"),
    [
        ({}, "corpora.docs.embedding.ray.workers: is required"),
        ({"workers": 0}, "corpora.docs.embedding.ray.workers: 0 is not allowed"),
        ({"workers": 2, "gpu": 1}, "corpora.docs.embedding.ray.gpu"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, ray: dict[str, Any], message: str):
    path = tmp_path / "corpora.yaml"
    embedding = {"provider": "local", "ray": ray}
    path.write_text(yaml.safe_dump({"corpora": {"docs": {"source": "docs/", "embedding": embedding}}}))
    with pytest.raises(ConfigError) as told:
        load_settings(path)
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("home", "travels"),
    [("/srv/home", {"KEY"}), ("s3://bucket/store", {"KEY", "RAG_ASSETS_HOME", "AWS_ENDPOINT_URL"})],
    ids=["folder", "bucket"],
)
def test_the_key_travels_with_the_work_and_so_does_the_store_where_limits_are_shared(
    monkeypatch: pytest.MonkeyPatch, home: str, travels: set[str]
):
    values = {"KEY": "k", "RAG_ASSETS_HOME": home, "AWS_ENDPOINT_URL": "http://s3", "ANOTHER_SECRET": "no"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    settings = OpenAIEmbedding.model_validate(
        {"provider": "openai", "base_url": "http://x", "model": "m", "api_key_env": "KEY"}
    )
    handed = ray_workers._environment(settings)
    assert {name for name in handed if name in values} == travels
    assert ray_workers._environment(HashingEmbedding(provider="hashing")) == {}
