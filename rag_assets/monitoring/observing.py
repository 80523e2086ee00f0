"""Looking at the corpora for their metrics, at each no more often than it is worth."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from rag_assets.config import CorpusSettings, Settings, load_settings
from rag_assets.errors import RagAssetsError
from rag_assets.monitoring.exposition import as_text
from rag_assets.monitoring.logs import with_fields
from rag_assets.monitoring.metrics import Observation
from rag_assets.status import status_of
from rag_assets.storing.evaluations import evaluations
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import first_line

# Who scrapes more often gets what was seen.
_LOOK_EVERY_SECONDS = 15.0

_log = logging.getLogger(__name__)


def observe(store: Store, corpus: CorpusSettings) -> Observation:
    """Look at `corpus` now. One that cannot be looked at is down, and a log line says why."""
    started = time.monotonic()
    try:
        status = status_of(store, corpus)
        kept = evaluations(store, corpus.name)
    except (RagAssetsError, OSError, ValueError, RuntimeError) as error:  # the last three are how Lance tells of damage
        _log.warning(
            "%s cannot be looked at: %s", corpus.name, first_line(error), extra=with_fields(corpus=corpus.name)
        )
        return Observation(corpus.name, time.monotonic() - started)
    evaluation = next((one for one in kept if one.held is None), None)
    return Observation(corpus.name, round(time.monotonic() - started, 3), status, evaluation)


@dataclass(frozen=True)
class _Seen:
    settings: CorpusSettings
    observation: Observation
    until: float


class Observer:
    """Gives the metrics of all corpora of the configuration, which is read each time.

    A corpus is looked at every `scan_seconds` at most, and every 15 s, whoever asks how often: a look lists its source. Who
    asks meanwhile gets what was seen, and who asks while others look waits for it. `clock` gives seconds.
    """

    def __init__(
        self, load: Callable[[], Settings] = load_settings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, _Seen] = {}

    def metrics(self) -> str:
        """The text for Prometheus. Raises `ConfigError` where the configuration cannot be read."""
        with self._lock:
            settings = self._load()
            store = Store(settings.home)
            return as_text([self._observation(store, corpus) for corpus in settings.corpora.values()])

    def _observation(self, store: Store, corpus: CorpusSettings) -> Observation:
        kept = self._seen.get(corpus.name)
        if kept is None or kept.settings != corpus or self._clock() >= kept.until:
            until = self._clock() + max(_LOOK_EVERY_SECONDS, corpus.scan_seconds)
            kept = self._seen[corpus.name] = _Seen(corpus, observe(store, corpus), until)
        return kept.observation
