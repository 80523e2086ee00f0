"""Documents are embedded by workers of a Ray cluster: each is a process of its own, with one model.

Here belongs what Ray has to do with it: the connection, the workers, and what happens when one dies. How texts become
requests, and how many are in flight, is `batching`; a worker embeds with a provider of `providers`. Ray is imported when
the first text is embedded.
"""

import atexit
import contextlib
import dataclasses
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rag_assets.config import EmbeddingSettings, RayWorkers, ServerSettings, store_address
from rag_assets.embedding.provider import (
    BatchLost,
    BatchRefused,
    Embedded,
    EmbeddingProvider,
    Kind,
    RequestLimits,
    TextRefused,
    price_of,
)
from rag_assets.embedding.providers import make_provider
from rag_assets.errors import ProviderError, RagAssetsError

_CONNECT_SECONDS = 5.0
_CLOSE_SECONDS = 10.0
_CLOSED = "The Ray workers were stopped."
_STARTS = 3
"""How often a worker that dies before it is ready is started."""

_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_")

_log = logging.getLogger(__name__)


class RayProvider:
    """A provider whose documents are embedded by `ray.workers` workers, and whose questions are embedded here.

    The workers are started at the first document and stopped when the provider is dropped. Each has as many requests in
    flight as one provider allows, so that no more than that times `ray.workers` are in memory.
    """

    def __init__(self, settings: EmbeddingSettings, ray: RayWorkers) -> None:
        self._ray = ray
        self._settings = _for_worker(settings, ray)
        self._here = make_provider(self._settings)
        self._guard = threading.Lock()
        self._refusal = ""

    @property
    def name(self) -> str:
        """The name of the model: where it runs is not part of it."""
        return self._here.name

    @property
    def identity(self) -> Mapping[str, object]:
        """As without Ray: the vectors are the same."""
        return self._here.identity

    @property
    def limits(self) -> RequestLimits:
        """Of one worker, but for the requests in flight: those of all workers."""
        one = self._here.limits
        return dataclasses.replace(one, concurrency=one.concurrency * self._ray.workers)

    @property
    def usd_per_million_tokens(self) -> float:
        """As without Ray."""
        return price_of(self._here)

    def count_tokens(self, text: str) -> int:
        """As without Ray, counted here."""
        return self._here.count_tokens(text)

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        """Embed `texts` on one worker; what the provider raises there is raised here.

        When the worker dies, its texts are embedded once more by another. Raises `BatchLost` when that dies as well, and
        `ProviderError` where Ray is not installed, no cluster answers, no worker can be started, or Ray itself fails.
        """
        if kind == "query":
            return self._here.embed(texts, kind)
        return self._opened().embed(texts)

    def _opened(self) -> "_Pool":
        """The pool, made by whoever needs it first. Where it cannot be made, nobody else tries: that takes seconds."""
        with self._guard:
            if self._refusal:
                raise ProviderError(self._refusal)
            try:
                return self._pool
            except ProviderError as error:
                self._refusal = str(error)
                raise

    @cached_property
    def _pool(self) -> "_Pool":
        pool = _Pool(self._settings, self._ray, identity=self.identity, in_flight=self._here.limits.concurrency)
        weakref.finalize(self, pool.close)
        atexit.register(pool.close)  # later than Ray registered itself, and so called before it
        return pool


def connect(address: str) -> Any:
    """The module `ray`, connected to the cluster at `address`; as it is where this process is connected already.

    Raises `ProviderError` when Ray is not installed or nothing answers.
    """
    # Else a call that comes after the end of a connection starts a cluster on this machine. Read when Ray is imported.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    try:
        import ray
    except ImportError as error:
        raise ProviderError(
            f"embedding.ray needs a package that is not here ({error}); install it with: pip install 'rag-assets[ray]'"
        ) from error
    if ray.is_initialized():
        return ray
    try:
        _knock(address)
        # What workers print would come out in the middle of what we print.
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        _keep_quiet(ray)
    except Exception as error:  # what Ray raises is told in no documented way
        raise ProviderError(
            f"No Ray cluster answers at embedding.ray.address {address!r}: {_one_line(error)}; start one with `ray start"
            " --head`, or correct the address."
        ) from error
    return ray


def why_unreachable(address: str) -> str | None:
    """What is in the way of a connection to the cluster at `address`, or None. This process is connected afterwards."""
    try:
        connect(address)
    except ProviderError as error:
        return str(error)
    return None


def _keep_quiet(ray: Any) -> None:
    """Log what Ray tells about the cluster: it prints that on stdout, where a command prints its JSON.

    Ray has no setting for it; where a version has another name for the function, it prints.
    """

    def log(data: Mapping[str, Any], **_: object) -> None:
        for line in data["lines"]:
            _log.info("Ray: %s", _one_line(line))

    worker: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = log


def _knock(address: str) -> None:
    """Raise `OSError` where nobody, or something else than Ray, listens: Ray itself would wait for it many minutes."""
    import grpc

    named = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
    where = named.removeprefix("ray://")
    if ":" not in where or os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    try:
        with grpc.insecure_channel(where) as channel:
            grpc.channel_ready_future(channel).result(_CONNECT_SECONDS)
    except grpc.FutureTimeoutError:
        raise OSError(f"nobody who speaks gRPC answered at {where} within {_CONNECT_SECONDS:g} s") from None


class Worker:
    """What runs in the cluster: one provider, made once."""

    def __init__(self, settings: EmbeddingSettings, environment: Mapping[str, str]) -> None:
        self._settings = settings
        os.environ.update(environment)

    @cached_property
    def _provider(self) -> EmbeddingProvider:
        return make_provider(self._settings)

    def introduce(self) -> tuple[Mapping[str, object], str]:
        """The identity of the provider, and what a person calls the process. Called before anything is embedded."""
        import ray

        return dict(self._provider.identity), f"process {os.getpid()} on {ray.util.get_node_ip_address()}"

    def embed(self, texts: Sequence[str]) -> Embedded | Exception:
        """What came back, or what the provider raised to be dealt with: as a value it keeps its class."""
        try:
            return self._provider.embed(texts, "document")
        except (TextRefused, BatchRefused, RagAssetsError) as error:
            return error


@dataclass(eq=False)
class _Place:
    """Room for one worker: the one that is there now, once it is `ready`."""

    actor: Any = None
    called: str = ""
    ready: bool = False


class _Pool:
    """The workers of one provider. Safe to use from many threads."""

    def __init__(
        self, settings: EmbeddingSettings, asked: RayWorkers, *, identity: Mapping[str, object], in_flight: int
    ) -> None:
        self._ray = connect(asked.address)
        errors = self._ray.exceptions
        self._losses = (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        )
        self._asked = asked
        self._identity = dict(identity)
        self._changed = threading.Condition()
        # Words, not an exception: its traceback would hold the provider, which would never be dropped.
        self._failure = ""
        self._closed = False
        self._was_ready = False
        """Whether any worker ever was: then it is not the settings that keep another from it."""
        self._calls = 0
        self._places = [_Place() for _ in range(asked.workers)]
        # A place for each request that may be in flight, the one that was used last at the end.
        self._free = deque(self._places * in_flight)
        self._make = self._maker(settings, in_flight)
        self._starting: list[threading.Thread] = []
        with self._changed:
            for place in self._places:
                self._in_background(place)

    def embed(self, texts: Sequence[str]) -> Embedded:
        """See `RayProvider.embed`."""
        died: list[str] = []
        while len(died) < 2:
            place, actor, called = self._take()
            try:
                reply: Embedded | Exception = self._ray.get(actor.embed.remote(list(texts)))
            except self._ray.exceptions.RayTaskError:  # what the provider raises and nobody deals with
                raise
            except Exception as error:  # a lost ray:// connection raises `ConnectionError`, then `Exception` itself
                if self._closed:
                    raise ProviderError(_CLOSED) from None
                if not isinstance(error, self._losses):
                    raise ProviderError(self._why_not_embedded(texts, error)) from error
                _log.warning("A Ray worker died with %d texts: %s: %s", len(texts), called, _one_line(error))
                died.append(called)
                self._replace(place, actor)
                continue
            finally:
                self._give_back(place)
            if isinstance(reply, Exception):
                raise reply
            return reply
        raise BatchLost(
            f"the Ray worker that embedded it died, and so did the one that did it again ({' and '.join(died)}); where"
            " memory was short, lower embedding.ray.workers or give the nodes more"
        )

    def close(self) -> None:
        """Stop the workers, and wait for the threads that wait for them: one that still does while Ray is taken down
        would bring the process down."""
        with self._changed:
            self._closed = True
            actors = [place.actor for place in self._places if place.actor is not None]
            self._fail(_CLOSED)
        for actor in actors:
            self._kill(actor)
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, _CLOSE_SECONDS)
        for thread in self._starting:
            if thread is not threading.current_thread():  # where the provider was dropped may be any thread
                thread.join(_CLOSE_SECONDS)
        atexit.unregister(self.close)

    def _take(self) -> tuple[_Place, Any, str]:
        """A place whose worker is ready and has not too much in flight, that worker, and what it is called: once the
        lock is let go another may be there. Raises `ProviderError` when none will be ready."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or any(place.ready for place in self._free))
            if self._failure:
                raise ProviderError(self._failure)
            place = next(place for place in self._free if place.ready)
            self._free.remove(place)
            self._calls += 1
            return place, place.actor, place.called

    def _give_back(self, place: _Place) -> None:
        with self._changed:
            self._free.append(place)
            self._calls -= 1
            self._changed.notify_all()

    def _replace(self, place: _Place, dead: Any) -> None:
        """Start another worker where `dead` was, unless that is done already."""
        with self._changed:
            if place.actor is not dead or not place.ready:
                return
            place.ready = False
            self._kill(dead)
            self._in_background(place)

    def _in_background(self, place: _Place) -> None:
        thread = threading.Thread(target=self._start, args=(place,), name="ray-worker", daemon=True)
        self._starting = [*filter(threading.Thread.is_alive, self._starting), thread]
        thread.start()

    def _start(self, place: _Place) -> None:
        """Put a worker that makes the right vectors into `place`, or leave it empty and say why.

        What the provider raises at the first start would be raised by all; later it is the trouble of one.
        """
        try:
            why = self._started(place)
        except Exception as error:  # from the provider there, or from Ray
            why = _one_line(_cause(error)).rstrip(".")
            if not self._was_ready:
                self._fail(f"A Ray worker could not be started: {why}.")
                return
        if why is not None:
            self._kill(place.actor)
            self._leave(place, why)

    def _started(self, place: _Place) -> str | None:
        """Start a worker; what was in its way, or None."""
        why = None
        for _ in range(_STARTS):
            with self._changed:
                if self._closed:
                    return None
                actor = place.actor = self._make()
            try:
                identity, called = self._ray.get(actor.introduce.remote(), timeout=self._asked.start_seconds)
            except self._ray.exceptions.GetTimeoutError:
                return self._why_not_placed()
            except self._losses as error:
                why = f"a worker died when it was started: {_one_line(error)}"
            else:
                self._welcome(place, identity, called)
                return None
        return why

    def _welcome(self, place: _Place, identity: Mapping[str, object], called: str) -> None:
        if identity != self._identity:
            other = sorted(
                key for key in {**identity, **self._identity} if identity.get(key) != self._identity.get(key)
            )
            self._fail(
                f"The Ray worker that is {called} makes other vectors than this process ({', '.join(other)} differ);"
                " install the same version of rag-assets and of the model on all nodes."
            )
            return
        with self._changed:
            place.called, place.ready = called, True
            self._was_ready = True
            self._changed.notify_all()

    def _leave(self, place: _Place, why: str) -> None:
        """Go on without `place`; with the last one ends the work."""
        with self._changed:
            if place in self._places:
                self._places.remove(place)
            left = len(self._places)
        if not left:
            self._fail(f"No Ray worker could be started: {why}.")
        elif not self._closed:
            _log.warning("Embedding goes on with %d of %d Ray workers: %s", left, self._asked.workers, why)

    def _fail(self, why: str) -> None:
        with self._changed:
            self._failure = self._failure or why
            self._changed.notify_all()

    def _why_not_placed(self) -> str:
        asked, there = self._asked, self._ray.cluster_resources()
        return (
            f"the cluster at embedding.ray.address {asked.address!r} had no room for {asked.cpus:g} CPUs and"
            f" {asked.gpus:g} GPUs within embedding.ray.start_seconds {asked.start_seconds:g}; it has"
            f" {there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs in all, some in use; ask for less, or add nodes"
        )

    def _why_not_embedded(self, texts: Sequence[str], error: Exception) -> str:
        return (
            f"The Ray cluster at embedding.ray.address {self._asked.address!r} failed with {len(texts)} texts:"
            f" {type(error).__name__}: {_one_line(error)}; see what `ray status` tells there, and run it again"
        )

    def _kill(self, actor: Any) -> None:
        with contextlib.suppress(Exception):  # it may be dead, or the cluster gone
            self._ray.kill(actor)

    def _maker(self, settings: EmbeddingSettings, in_flight: int) -> Callable[[], Any]:
        worker = self._ray.remote(Worker).options(
            num_cpus=self._asked.cpus,
            num_gpus=self._asked.gpus,
            max_concurrency=in_flight,
            max_restarts=0,
            scheduling_strategy="SPREAD",
        )
        environment = _environment(settings)
        return lambda: worker.remote(settings, environment)


def _for_worker(settings: EmbeddingSettings, ray: RayWorkers) -> EmbeddingSettings:
    """What a worker makes its provider of: as many threads as it has CPUs, where the model runs on the CPU."""
    own: dict[str, object] = {"ray": None}
    if "threads" in type(settings).model_fields and getattr(settings, "threads", None) is None:
        own["threads"] = max(1, int(ray.cpus))
    return settings.model_copy(update=own)


def _environment(settings: EmbeddingSettings) -> dict[str, str]:
    """The variables of this process that a provider reads: handed over with the work, they show up nowhere. Those of the
    object store let the workers keep to the limits a minute together."""
    if not isinstance(settings, ServerSettings):
        return {}
    names = {settings.api_key_env, "RAG_ASSETS_HOME"} if store_address() else {settings.api_key_env}
    prefixes = ("OPENAI_", *(_OF_STORES if store_address() else ()))
    return {name: value for name, value in os.environ.items() if name in names or name.startswith(prefixes)}


def _cause(error: BaseException) -> BaseException:
    """What was raised in the cluster, where Ray wraps it in the text of a traceback."""
    return getattr(error, "cause", None) or error


def _one_line(told: BaseException | str) -> str:
    return " ".join(str(told).split())[:300] or type(told).__name__
