"""What is there: the figures of `rag-assets status` and `rag-assets metrics`, from the tables and the source alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rag_assets.config import CorpusSettings
from rag_assets.errors import SourceError, StoreError
from rag_assets.health.lag import lags
from rag_assets.health.money import monthly_spend
from rag_assets.health.view import View
from rag_assets.scoring.measures import percentile
from rag_assets.storing.health import Health, health_over_time
from rag_assets.storing.ledger import KnownDocument, set_aside_documents, share_made_with
from rag_assets.storing.listing import bytes_in
from rag_assets.storing.publishing import held_back
from rag_assets.storing.search_indices import IndexHealth, health_of
from rag_assets.storing.spending import Spend, spend_by_run
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import first_line

STATUSES = ("indexed", "empty", "failed", "pending")


@dataclass(frozen=True)
class LagFigures:
    """How long the `changes` of the last day took until readers could find them, those that still wait included."""

    changes: int = 0
    p50_seconds: float = 0.0
    p95_seconds: float = 0.0
    worst_seconds: float = 0.0


@dataclass(frozen=True)
class CorpusStatus:
    """One corpus now.

    `documents` counts by status; `pending` counts new and changed files as well. `coverage` is the share of the chunks of
    indexed documents that readers can find (1.0 where there is none). `lag_seconds` is the age of the oldest change that
    readers cannot find yet, 0.0 where there is none; `lag` is of the last day. `generation_progress` is the share of the
    known documents that are made with the configured `generation`. `rolled_back_to` is the version that a person went back
    to, `held` says why an evaluation keeps the newest from readers. `problem` says why the source could not be listed, or
    the index not be read. `embedding` is the fingerprint of the vectors, which several corpora may share. `bytes` are those
    of the tables of the corpus, without vectors. `spent` is what the corpus has cost in embeddings so far, `last_spent` by
    the last run that paid for any (its id), `spent_this_month_usd` in embeddings and answers. `health` is the last
    measurement of the job `C_health`.
    """

    corpus: str
    documents: Mapping[str, int]
    chunks: int
    vectors: int
    embedding: str
    index_version: int | None
    generation: str
    published_generation: str | None
    generation_progress: float
    published_at: datetime | None
    rolled_back_to: int | None
    held: str | None
    fragments: int
    index: IndexHealth
    bytes: int
    lag_seconds: float
    lag: LagFigures
    coverage: float
    set_aside: Sequence[KnownDocument]
    withheld: str | None
    problem: str | None
    known: Mapping[str, KnownDocument]
    spent: Spend
    last_spent: tuple[str, Spend] | None
    spent_this_month_usd: float
    health: Health | None


def status_of(store: Store, corpus: CorpusSettings) -> CorpusStatus:
    """Look at the tables and the source of `corpus`. An unreachable source is told in `problem`, not raised."""
    view = View(store, corpus)
    generation = view.generation
    pending: Sequence[str] = ()
    withheld = problem = None
    lag, waiting_ns = LagFigures(), _unseen(view)
    try:
        found = view.found
        pending, withheld = found.pending, found.withheld
        new = set(pending).difference(found.outdated)  # of what is made again as it is, readers find the text
        waiting_ns += [found.entries[name].modified_ns for name in new]
        lag = _lag(view)
    except SourceError as error:
        problem = str(error)
    known, published = view.known, view.published
    waiting = {*pending, *(name for name, document in known.items() if document.status == "pending")}
    counts: Counter[str] = Counter(document.status for name, document in known.items() if name not in waiting)
    counts["pending"] = len(waiting)
    fragments = 0
    index = IndexHealth(0, 0)
    rows_of: Mapping[str, int] = {}
    if view.index:
        table, version = view.index
        try:
            fragments = len(table.open(version).get_fragments())
            index, rows_of = health_of(table, version=version), view.rows_of
        except StoreError as error:
            problem = str(error)
        except (OSError, ValueError, RuntimeError) as error:  # how Lance tells of damage
            problem = (
                f"the index of {corpus.name} is damaged ({first_line(error)}); run: rag-assets doctor {corpus.name}"
            )
    runs = spend_by_run(store, corpus.name)
    expected = {name: document.chunks or 0 for name, document in known.items() if document.status == "indexed"}
    covered = sum(min(rows_of.get(name, 0), chunks) for name, chunks in expected.items())
    return CorpusStatus(
        corpus=corpus.name,
        documents={status: counts[status] for status in STATUSES},
        chunks=published.chunks if published else 0,
        vectors=store.vectors(generation.embedding).count(),
        embedding=generation.embedding,
        index_version=published.version if published else None,
        generation=generation.id,
        published_generation=published.generation if published else None,
        generation_progress=share_made_with(known, generation.id),
        published_at=published.published_at if published else None,
        rolled_back_to=published.changes.get("rolled_back_to") if published else None,
        held=held_back(store, corpus),
        fragments=fragments,
        index=index,
        bytes=bytes_in(store.corpus_uri(corpus.name)),
        lag_seconds=_oldest(waiting_ns, now=view.now),
        lag=lag,
        coverage=round(covered / sum(expected.values()), 6) if any(expected.values()) else 1.0,
        set_aside=set_aside_documents(known),
        withheld=withheld,
        problem=problem,
        known=known,
        spent=sum(runs.values(), Spend()),
        last_spent=next(reversed(runs.items()), None),
        spent_this_month_usd=monthly_spend(view).figures["spent_this_month_usd"],
        health=next(iter(health_over_time(store, corpus.name)), None),
    )


def _unseen(view: View) -> list[int | None]:
    """When the texts were modified that are indexed and that readers cannot find: they were first read after what readers
    see was published, because a person rolled back, or a run died before it published."""
    seen_at = _seen_at(view)
    return [
        document.modified_ns
        for document in view.known.values()
        if document.status == "indexed" and document.text_since is not None and document.text_since > seen_at
    ]


def _seen_at(view: View) -> datetime:
    """When what readers see was first published; before all time where they see nothing yet."""
    if view.published is None:
        return datetime.min.replace(tzinfo=UTC)
    shown = view.published.changes.get("rolled_back_to") if view.published.is_rollback else None
    return next((one.published_at for one in view.publications if one.version == shown), view.published.published_at)


def _oldest(modified_ns: Sequence[int | None], *, now: datetime) -> float:
    ages = [now.timestamp() - moment / 1e9 for moment in modified_ns if moment is not None]
    return round(max([0.0, *ages]), 3)


def _lag(view: View) -> LagFigures:
    seconds = [round(one.seconds, 3) for one in lags(view)]
    return LagFigures(len(seconds), percentile(seconds, 50), percentile(seconds, 95), max(seconds, default=0.0))
