"""How long a change takes until readers can find it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rag_assets.health.verdicts import Row, Verdict, fails, passes, some
from rag_assets.health.view import View
from rag_assets.scoring.measures import percentile
from rag_assets.wording import count, duration

# A nightly look sees what came since the last one.
_WINDOW = timedelta(days=1)
_DEFAULT_TARGET = 3_600.0
_SCANS = 4


@dataclass(frozen=True)
class Lag:
    """How many seconds the text of `document` took from its modification until readers could find it, or takes so far."""

    document: str
    seconds: float
    waits: bool


def target_seconds(view: View) -> float:
    """How long a change may take."""
    asked = view.corpus.health.max_lag_seconds
    return asked if asked is not None else max(_DEFAULT_TARGET, _SCANS * float(view.corpus.scan_seconds))


def lags(view: View) -> Iterator[Lag]:
    """Texts that became searchable within the last day, and changes that wait.

    What was modified before the corpus was first published waited for the corpus, and is left out; so is a document that
    was made again from the text it had, and one whose source tells no time. Nobody can be early: clocks differ.
    """
    published = _publication_times(view)
    if not published:
        return
    began, now = min(times[0] for times in published.values()), view.now.timestamp()
    # Of what is only made again, readers find the text.
    waiting = set(view.found.pending).difference(view.found.outdated)
    for name in sorted(waiting):
        modified_ns = view.found.entries[name].modified_ns
        if modified_ns is not None and modified_ns / 1e9 > began:
            yield Lag(name, max(0.0, now - modified_ns / 1e9), waits=True)
    for name, document in view.known.items():
        if name in waiting or document.status != "indexed" or document.modified_ns is None:
            continue
        if document.indexed_at is None or document.text_since is None or document.modified_ns / 1e9 < began:
            continue
        times = published.get(document.generation or "", ())
        at = bisect_left(times, document.indexed_at.timestamp())
        if at == len(times):
            yield Lag(name, max(0.0, now - document.modified_ns / 1e9), waits=True)
        elif view.now - document.text_since < _WINDOW:
            yield Lag(name, max(0.0, times[at] - document.modified_ns / 1e9), waits=False)


def _publication_times(view: View) -> Mapping[str, Sequence[float]]:
    """By generation, when it was published, in seconds since the epoch, the oldest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for one in reversed(view.publications):
        if not one.is_rollback:
            times[one.generation].append(one.published_at.timestamp())
    return times


def ingestion_lag(view: View) -> Verdict:
    """Every change was searchable in time."""
    target, found = target_seconds(view), list(lags(view))
    seconds = [one.seconds for one in found]
    late = sorted((one for one in found if one.seconds > target), key=lambda one: -one.seconds)
    waiting = sum(one.waits for one in late)
    figures = {
        "lag_p50_seconds": percentile(seconds, 50),
        "lag_p95_seconds": percentile(seconds, 95),
        "lag_worst_seconds": max(seconds, default=0.0),
        "documents_late": len(late),
    }
    if not late:
        half, most = (duration(percentile(seconds, share)) for share in (50, 95))
        what = f"{count(len(found), 'change')} of the last day: half were searchable within {half}, 95 % within {most}."
        return passes(what if found else "Nothing changed in the last day.", figures)
    rows: list[Row] = [
        {"document": one.document, "seconds": round(one.seconds, 1), "waits": str(one.waits)} for one in late
    ]
    what = f"{count(len(late), 'document')} took longer than {duration(target)}, {waiting:,} of which still wait"
    remedy = f"see that the sensor runs, or: rag-assets ingest {view.corpus.name}"
    return fails(f"{what}; {remedy}", figures, some(rows))
