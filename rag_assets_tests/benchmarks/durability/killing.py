"""`kill -9` at random moments of an ingest, until it is done all the same.

An old edition is published; the ingest of another, all in new texts, is killed and begun again. When it gets through,
the rest of the kills fall on updates of a tenth of the documents.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from rag_assets.generations import generation_of
from rag_assets_tests.benchmarks.counting import CountingProvider
from rag_assets_tests.benchmarks.durability.editions import (
    Edition,
    Reader,
    count,
    edition,
    edition_of,
    published_rows,
    write,
)
from rag_assets_tests.benchmarks.durability.outcomes import Outcome, must_have_a_vector_a_text, outcome
from rag_assets_tests.benchmarks.durability.windows import WINDOW, platform_at
from rag_assets_tests.benchmarks.measuring import COMMAND_LINE, REPOSITORY
from rag_assets_tests.platform import Platform

_LATENCY_SECONDS = 0.3
_TEXTS_A_DOCUMENT = 25
_POLL_SECONDS = 0.01
# How the kills are spread: the share that falls on the first ingest, the share that falls before its first text is sent,
# and how many fall on the texts of an update, which leaves most of them to its index and its publication.
_ON_THE_FIRST = 0.6
_BEFORE_THE_TEXTS = 0.2
_ON_AN_UPDATE = 2
_STAGES = {"documents": "reading", "chunks": "chunking", "embeddings": "embedding", "index": "indexing"}
STAGES = ("starting", *_STAGES.values(), "publishing", "ending")


@dataclass(frozen=True)
class _Tempo:
    """Seconds of an undisturbed ingest: from its start to the first text, and from the last text to its end."""

    start: float
    end: float


@dataclass
class _Killer:
    """Kills ingests of `platform` at moments that `chance` chooses. `left` kills remain; `stages` is where they fell."""

    platform: Platform
    provider: CountingProvider
    chance: random.Random
    tempo: _Tempo
    left: int
    stages: Counter[str]

    def get_through(self, texts: int, *, kills: int) -> None:
        """Ingest until it is done, killed on the way; `texts` have no vector, and about `kills` shall fall on them."""
        goal = self._vectors() + texts
        for number in range(self.left):
            missing = goal - self._vectors()
            began = time.time()
            with _ingest(self.platform) as process:
                if missing:
                    self._wait_among_texts(process, _longest_seconds(missing, kills=kills - number))
                else:
                    self._wait_after_the_texts(process, since=began)
                if process.poll() is not None:
                    _must_have_succeeded(process)
                    return
                os.killpg(process.pid, signal.SIGKILL)
            self.left -= 1
            with self.platform.instance() as instance:
                stage = _stage(instance, since=began)
            self.stages[stage] += 1
            print(f"killed while {stage}, {self.left} kills left, {self.provider.sent:,} texts sent", file=sys.stderr)
        with _ingest(self.platform) as process:
            _must_have_succeeded(process)

    def _vectors(self) -> int:
        return self.platform.store.vectors(generation_of(self.platform.notes).embedding).count()

    def _wait_among_texts(self, process: "subprocess.Popen[str]", longest: float) -> None:
        """Return at a random moment before the first text is sent, or up to `longest` seconds after."""
        if self.chance.random() < _BEFORE_THE_TEXTS:
            self._wait(process, self.chance.uniform(0, self.tempo.start))
            return
        before = self.provider.sent
        while self.provider.sent == before and process.poll() is None:
            time.sleep(_POLL_SECONDS)
        self._wait(process, self.chance.uniform(0, longest))

    def _wait_after_the_texts(self, process: "subprocess.Popen[str]", *, since: float) -> None:
        """Return at a random moment while rows are indexed or published; the process began after `since`."""
        wanted = STAGES.index(self.chance.choice(("indexing", "publishing")))
        with self.platform.instance() as instance:
            while STAGES.index(_stage(instance, since=since)) < wanted and process.poll() is None:
                time.sleep(_POLL_SECONDS)
        self._wait(process, self.chance.uniform(0, self.tempo.end / 4))

    def _wait(self, process: "subprocess.Popen[str]", seconds: float) -> None:
        """Wait so long, or until the process ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and process.poll() is None:
            time.sleep(_POLL_SECONDS)


def survive_kills(root: Path, *, kills: int, texts: int, seed: int) -> tuple[Outcome, Mapping[str, int]]:
    """The outcome, and how many kills fell on each of `STAGES`."""
    documents = -(-texts // _TEXTS_A_DOCUMENT)
    with CountingProvider(latency_seconds=_LATENCY_SECONDS) as provider:
        platform = platform_at(root / "killed", provider)
        before = edition(0, documents=documents, texts=documents)
        write(platform, before)
        tempo = _undisturbed(platform, provider)
        killer = _Killer(platform, provider, random.Random(seed), tempo, kills, Counter())
        paid = count(before)
        number = 1
        with Reader(platform.store, "notes", [before]) as reader:
            while killer.left:
                share = 1 if number == 1 else 10
                new = edition(number, documents=-(-documents // share), texts=-(-texts // share))
                after = {**before, **new}
                reader.allowed = [before, after]
                write(platform, new)
                killer.get_through(count(new), kills=round(kills * _ON_THE_FIRST) if number == 1 else _ON_AN_UPDATE)
                paid += count(new)
                before, number = after, number + 1
                reader.allowed = [before]
        found = outcome(
            f"{kills} × `kill -9` of an ingest of {texts:,} texts and of {number - 2} updates of a tenth of them",
            platform,
            provider,
            before,
            texts=paid,
            allowed=paid + kills * WINDOW,
            looks=reader.looks,
            halves=len(reader.wrong),
        )
        assert platform.ingest()["runs"] == [], "an ingest of what is indexed already found something to do"
    for wrong in reader.wrong[:5]:
        print(f"a reader saw {wrong}", file=sys.stderr)
    must_have_a_vector_a_text(platform)
    _must_equal_undisturbed(platform, before, root / "undisturbed")
    return found, killer.stages


def _longest_seconds(missing: int, *, kills: int) -> float:
    """The longest time after a first text at which to kill, so that `kills` share the embedding of `missing` texts."""
    return max(0.1, min(3.0, 2 * missing / WINDOW * _LATENCY_SECONDS / max(1, kills)))


def _ingest(platform: Platform) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *COMMAND_LINE, "ingest", "--json"],
        cwd=REPOSITORY,
        env=os.environ | platform.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _must_have_succeeded(process: "subprocess.Popen[str]") -> None:
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"rag-assets ingest ended with {process.returncode}: {said.strip()}")


def _undisturbed(platform: Platform, provider: CountingProvider) -> _Tempo:
    """Ingest once, and tell how long that takes around the texts."""
    began = time.monotonic()
    with _ingest(platform) as process:
        while not provider.sent and process.poll() is None:
            time.sleep(_POLL_SECONDS)
        first = time.monotonic()
        sent, last = provider.sent, first
        while process.poll() is None:
            if provider.sent > sent:
                sent, last = provider.sent, time.monotonic()
            time.sleep(_POLL_SECONDS)
        _must_have_succeeded(process)
    return _Tempo(start=first - began, end=time.monotonic() - last)


def _stage(instance: dg.DagsterInstance, *, since: float) -> str:
    """Which of `STAGES` the run was in that began after `since`, in seconds of the epoch, as Dagster's log has it."""
    records = instance.get_run_records(limit=1)
    if not records or records[0].create_timestamp.timestamp() < since:
        return "starting"
    run = records[0].dagster_run
    if run.status == dg.DagsterRunStatus.SUCCESS:
        return "ending"
    begun = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_START).records
    steps = [record.event_log_entry.step_key or "" for record in begun]
    return _STAGES.get(steps[-1].removeprefix("notes__"), "publishing") if steps else "starting"


def _must_equal_undisturbed(platform: Platform, source: Edition, root: Path) -> None:
    """Compare every row, ids and vectors included, with those of an ingest that nothing disturbed."""
    columns = ["chunk_id", "document", "ordinal", "text", "text_hash", "vector"]
    with CountingProvider() as provider:
        other = platform_at(root, provider)
        write(other, source)
        other.ingest()
        disturbed, undisturbed = (published_rows(one.store, "notes") for one in (platform, other))
    assert disturbed is not None
    assert undisturbed is not None
    assert edition_of(disturbed) == source
    assert disturbed.select(columns).equals(undisturbed.select(columns)), "the rows differ from an undisturbed ingest"
