"""The metrics: their names, what they mean, and where their values come from. docs/monitoring.md lists the same."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from rag_assets.reading.formats import format_by_name
from rag_assets.records import Evaluation
from rag_assets.status import CorpusStatus
from rag_assets.storing.ledger import KnownDocument

Sample = tuple[Mapping[str, str], float]
"""Labels beside `corpus`, and a value."""


@dataclass(frozen=True)
class Observation:
    """A corpus as it was seen, which took `seconds`. Where it could not be, `status` is None. `evaluation` is the last of a
    published version."""

    corpus: str
    seconds: float
    status: CorpusStatus | None = None
    evaluation: Evaluation | None = None


@dataclass(frozen=True)
class Metric:
    """A metric whose every sample has the label `corpus`, and `labels` beside it. `samples` leaves out what is not known."""

    name: str
    kind: Literal["gauge", "counter"]
    meaning: str
    samples: Callable[[Observation], Iterable[Sample]]
    labels: tuple[str, ...] = ()


def _one(value: Callable[[CorpusStatus], float | None]) -> Callable[[Observation], Iterator[Sample]]:
    """The samples of a metric that has one value a corpus."""

    def samples(seen: Observation) -> Iterator[Sample]:
        found = value(seen.status) if seen.status else None
        if found is not None:
            yield {}, found

    return samples


def _figure(name: str) -> Callable[[Observation], Iterator[Sample]]:
    """The samples of a figure of the last measurement of the corpus."""
    return _one(lambda status: status.health.figures.get(name) if status.health else None)


def _up(seen: Observation) -> Iterator[Sample]:
    yield {}, float(seen.status is not None and seen.status.problem is None)


def _documents(seen: Observation) -> Iterator[Sample]:
    for status, number in seen.status.documents.items() if seen.status else ():
        yield {"status": status}, number


def _of_type(seen: Observation) -> Iterator[Sample]:
    for mime, number in _types(seen).items():
        yield {"mime": mime}, number


def _failed_of_type(seen: Observation) -> Iterator[Sample]:
    failed = _types(seen, status="failed")
    for mime in _types(seen):
        yield {"mime": mime}, failed[mime]


def _error_ratio(seen: Observation) -> Iterator[Sample]:
    failed = _types(seen, status="failed")
    for mime, number in _types(seen).items():
        yield {"mime": mime}, failed[mime] / number


def _types(seen: Observation, *, status: str | None = None) -> Counter[str]:
    known = seen.status.known.values() if seen.status else ()
    return Counter(_mime(document) for document in known if status in (None, document.status))


def _mime(document: KnownDocument) -> str:
    """What was read, or what the name promises where nothing could be."""
    named = format_by_name(document.document)
    return document.mime or (named.mime if named else "unknown")


def _checks(seen: Observation) -> Iterator[Sample]:
    health = seen.status.health if seen.status else None
    for name, result in health.checks.items() if health else ():
        yield {"check": name, "severity": result.severity}, float(result.passed)


def _evaluation(seen: Observation) -> Iterator[Sample]:
    for name, value in asdict(seen.evaluation.figures).items() if seen.evaluation else ():
        if value is not None:
            yield {"figure": name}, value


def _evaluated_at(seen: Observation) -> Iterator[Sample]:
    if seen.evaluation:
        yield {}, seen.evaluation.evaluated_at.timestamp()


METRICS = (
    Metric("rag_assets_up", "gauge", "1 where the source could be listed and the tables be read, else 0", _up),
    Metric("rag_assets_look_seconds", "gauge", "how long that took", lambda seen: [({}, seen.seconds)]),
    Metric("rag_assets_documents", "gauge", "documents by what became of them", _documents, ("status",)),
    Metric("rag_assets_documents_by_type", "gauge", "known documents by MIME type", _of_type, ("mime",)),
    Metric("rag_assets_failed_by_type", "gauge", "those of them that are set aside", _failed_of_type, ("mime",)),
    Metric("rag_assets_error_ratio", "gauge", "the share of a type that is set aside", _error_ratio, ("mime",)),
    Metric("rag_assets_chunks", "gauge", "chunks that readers can find", _one(lambda one: one.chunks)),
    Metric(
        "rag_assets_vectors", "gauge", "kept vectors of the model, of other corpora too", _one(lambda one: one.vectors)
    ),
    Metric(
        "rag_assets_coverage_ratio",
        "gauge",
        "the share of the chunks of indexed documents that readers can find",
        _one(lambda one: one.coverage),
    ),
    Metric(
        "rag_assets_waiting_seconds",
        "gauge",
        "the age of the oldest change that readers cannot find, 0 where there is none",
        _one(lambda one: one.lag_seconds),
    ),
    Metric(
        "rag_assets_lag_p50_seconds",
        "gauge",
        "how long the changes of the last day took until readers found them: half took less",
        _one(lambda one: one.lag.p50_seconds),
    ),
    Metric("rag_assets_lag_p95_seconds", "gauge", "95 % took less", _one(lambda one: one.lag.p95_seconds)),
    Metric("rag_assets_lag_worst_seconds", "gauge", "the slowest", _one(lambda one: one.lag.worst_seconds)),
    Metric(
        "rag_assets_published_version", "gauge", "the version that readers see", _one(lambda one: one.index_version)
    ),
    Metric(
        "rag_assets_published_timestamp_seconds",
        "gauge",
        "when it was published, in seconds since 1970",
        _one(lambda one: one.published_at.timestamp() if one.published_at else None),
    ),
    Metric(
        "rag_assets_rolled_back",
        "gauge",
        "1 while readers see an older version because a person rolled back",
        _one(lambda one: float(one.rolled_back_to is not None)),
    ),
    Metric(
        "rag_assets_held_back",
        "gauge",
        "1 while an evaluation keeps the newest version from readers",
        _one(lambda one: float(one.held is not None)),
    ),
    Metric(
        "rag_assets_deletions_withheld",
        "gauge",
        "1 while so many documents vanished at once that it is not believed",
        _one(lambda one: float(one.withheld is not None)),
    ),
    Metric(
        "rag_assets_generation_progress_ratio",
        "gauge",
        "the share of the documents that are made with the configured model and chunking",
        _one(lambda one: one.generation_progress),
    ),
    Metric("rag_assets_fragments", "gauge", "fragments of the index", _one(lambda one: one.fragments)),
    Metric(
        "rag_assets_unindexed_rows",
        "gauge",
        "rows outside the full-text index",
        _one(lambda one: one.index.unindexed_rows),
    ),
    Metric(
        "rag_assets_unindexed_vectors",
        "gauge",
        "rows outside the index of vectors, where there is one",
        _one(lambda one: one.index.unindexed_vectors),
    ),
    Metric("rag_assets_bytes", "gauge", "bytes of the tables, without vectors", _one(lambda one: one.bytes)),
    Metric(
        "rag_assets_embedding_spend_usd_total",
        "counter",
        "US dollars that embeddings have cost",
        _one(lambda one: one.spent.cost_usd),
    ),
    Metric(
        "rag_assets_embedding_tokens_total", "counter", "tokens that were embedded", _one(lambda one: one.spent.tokens)
    ),
    Metric(
        "rag_assets_spend_month_usd",
        "gauge",
        "US dollars for embeddings and answers since the month began (UTC)",
        _one(lambda one: one.spent_this_month_usd),
    ),
    Metric(
        "rag_assets_agreement_ratio",
        "gauge",
        "the share of the compared rows of the index that agree with the tables, when last measured",
        _figure("agreement"),
    ),
    Metric(
        "rag_assets_check_passed",
        "gauge",
        "1 where a check of the last measurement was true, else 0",
        _checks,
        ("check", "severity"),
    ),
    Metric(
        "rag_assets_measured_timestamp_seconds",
        "gauge",
        "when the checks were last made, in seconds since 1970",
        _one(lambda one: one.health.measured_at.timestamp() if one.health else None),
    ),
    Metric(
        "rag_assets_evaluation",
        "gauge",
        "a figure of the last evaluation of a published version, by the name it has in the table `evaluations`",
        _evaluation,
        ("figure",),
    ),
    Metric("rag_assets_evaluated_timestamp_seconds", "gauge", "when that was, in seconds since 1970", _evaluated_at),
)
