"""Documents are made again, batch by batch, after chunking, model or code changed, or because a person wants it.

What is current is left alone, and a batch that fails stops no other, so that it can be run again on whatever is left.
Nothing is embedded that has a vector. `rag_assets.defs.reindexing` does it, with Dagster, and publishes at the end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Literal

from rag_assets.calling.failures import POLICIES, FailureKind
from rag_assets.config import CorpusSettings
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.errors import BudgetError, ProviderError, QuestionError, RagAssetsError, SourceError
from rag_assets.generations import generation_of
from rag_assets.globs import matcher
from rag_assets.materializing.chunks import chunk_documents
from rag_assets.materializing.documents import read_documents
from rag_assets.materializing.embeddings import embed_documents
from rag_assets.materializing.index import index_documents
from rag_assets.materializing.reports import Progress, StageReport, no_progress
from rag_assets.reading.source import Source, open_source
from rag_assets.scanning import scan
from rag_assets.storing.ledger import KnownDocument, count_made_with, known_documents
from rag_assets.storing.publishing import publication_is_due
from rag_assets.storing.stores import Store

Scope = Literal["stale", "failed", "all"] | datetime
"""`stale` is what is not of the configured generation or not of its present content, and failures that may pass; `failed`
what was set aside, or begun and not finished; `all` every document; a time what is stale or was not indexed since."""
Asset = Literal["documents", "chunks", "embeddings", "index"]

# A failure that waiting cannot mend meets every batch. One that may pass was waited for, within bounds, by each batch.
_SAME_IN_A_ROW = 2
_SAME_PASSING_IN_A_ROW = 5
_STAGES: Mapping[Asset, str] = {"documents": "read", "chunks": "chunk", "embeddings": "embed", "index": "index"}


@dataclass(frozen=True)
class Choice:
    """`documents` to make again, by name. `matched` documents of the source were asked for; the others of them are left
    alone. Of `total` documents, `made` others are of the configured `generation`."""

    documents: Sequence[str]
    matched: int
    generation: str
    total: int
    made: int
    publication_is_due: bool

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.documents or self.publication_is_due)


@dataclass(frozen=True)
class Batch:
    """What became of one batch, `number` from 1. `reports` are those of the stages that it went through, by asset.
    `problem` says why it failed, None where it did not; `is_last_straw` that the batches after it would fail as well, and
    were not begun."""

    number: int
    documents: Sequence[str]
    reports: Mapping[Asset, StageReport]
    problem: str | None = None
    is_last_straw: bool = False


@dataclass(frozen=True)
class FailedBatch:
    """A batch of `documents` documents, from `first` to `last` by name, that could not be made."""

    batch: int
    documents: int
    first: str
    last: str
    reason: str


@dataclass(frozen=True)
class SetAside:
    """A document that could not pass `stage`."""

    document: str
    stage: str
    reason: str


@dataclass
class Reindexed:
    """The sum of what the batches did to what was chosen. `remade` documents went through; `stopped` says why batches were
    not begun. `chunks` are those of the remade documents; texts, `tokens` and `cost_usd` (US dollars) were sent for them."""

    choice: Choice
    remade: int = 0
    batches: int = 0
    failed: list[SetAside] = field(default_factory=list)
    failed_batches: list[FailedBatch] = field(default_factory=list)
    stopped: str | None = None
    chunks: int = 0
    texts_embedded: int = 0
    texts_reused: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    @property
    def left(self) -> int:
        """How many of the chosen documents are still to be made."""
        return len(self.choice.documents) - self.remade

    @property
    def generation_progress(self) -> float:
        """The share of all documents that are made, or set aside, with the configured generation."""
        made = self.choice.made + self.remade + len(self.failed)
        return round(made / self.choice.total, 6) if self.choice.total else 1.0

    def report(self) -> dict[str, object]:
        """All figures, as they are printed."""
        values = {name: value for name, value in asdict(self).items() if name != "choice"}
        return {
            "generation": self.choice.generation,
            "chosen": len(self.choice.documents),
            "current": self.choice.matched - len(self.choice.documents),
            **values,
            "left": self.left,
            "generation_progress": self.generation_progress,
        }

    def add(self, batch: Batch) -> None:
        """Count `batch`."""
        self.batches += 1
        reports = batch.reports
        if batch.problem is not None:
            names = batch.documents
            self.failed_batches.append(FailedBatch(batch.number, len(names), names[0], names[-1], batch.problem))
            self.stopped = batch.problem if batch.is_last_straw else None
        for asset, report in reports.items():
            self.failed += [SetAside(name, _STAGES[asset], error.reason) for name, error in report.failed.items()]
        self.remade += len(reports["index"].documents) if "index" in reports else 0
        self.chunks += int(reports["index"].total("rows")) if "index" in reports else 0
        if "embeddings" in reports:
            paid = reports["embeddings"]
            self.texts_embedded += int(paid.total("texts_embedded"))
            self.texts_reused += int(paid.total("texts_reused"))
            self.tokens += int(paid.total("tokens_embedded"))
            self.cost_usd += paid.total("cost_usd")


def scope_of(*, failed: bool = False, everything: bool = False, older_than: str | None = None) -> Scope:
    """The scope that the switches ask for, of which `older_than` is an ISO time, in UTC unless it says otherwise.

    Raises `QuestionError` when they exclude each other, or the time is none.
    """
    if failed and everything:
        raise QuestionError("failed and all exclude each other; leave one of them out")
    if older_than is None:
        return "failed" if failed else "all" if everything else "stale"
    if failed or everything:
        raise QuestionError("older_than says itself what is made again; leave out failed and all")
    try:
        moment = datetime.fromisoformat(older_than)
    except ValueError:
        raise QuestionError(f"{older_than!r} is no time; write it such as 2026-01-31 or 2026-01-31T12:00:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def time_to_go_on_with() -> str:
    """What is indexed from now on is not older than this: `older_than` for whoever goes on with what was stopped."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"


def choose(store: Store, corpus: CorpusSettings, *, scope: Scope = "stale", documents: str | None = None) -> Choice:
    """Which documents of the source to make again; `documents` is a glob that narrows `scope`.

    Raises `SourceError` when the corpus cannot be listed, and `QuestionError` when `documents` is no glob.
    """
    known = known_documents(store.documents(corpus.name))
    found = scan(store, corpus, open_source(corpus), known=known)
    matching = _matching(documents, found.entries)
    if scope == "all":
        chosen = matching
    elif scope == "failed":
        chosen = [name for name in matching if name in known and known[name].status in ("failed", "pending")]
    else:
        again = (document.document for document in found.failed if document.retryable)
        stale = {*found.pending, *again}
        if isinstance(scope, datetime):
            stale |= {name for name, document in known.items() if not _is_indexed_since(document, scope)}
        chosen = [name for name in matching if name in stale]
    generation = generation_of(corpus).id
    begun = set(chosen)
    others = {name: document for name, document in known.items() if name not in begun}
    return Choice(
        documents=chosen,
        matched=len(matching),
        generation=generation,
        total=len(others) + len(chosen),
        made=count_made_with(others, generation),
        publication_is_due=publication_is_due(store, corpus, known=known, beside_pending=not chosen),
    )


def refuse_no_match(corpora: Sequence[str], documents: str | None, matched: int) -> None:
    """Raise `QuestionError` when a glob was given and no document of `corpora` is called so."""
    if documents is not None and not matched:
        where = f" {corpora[0]}" if len(corpora) == 1 else ""
        raise QuestionError(
            f"no document of {', '.join(corpora)} matches {documents!r}; rag-assets status{where} --documents lists them"
        )


def reindex(
    store: Store,
    corpus: CorpusSettings,
    provider: EmbeddingProvider,
    documents: Sequence[str],
    *,
    batch_size: int,
    run_id: str,
    progress: Progress = no_progress,
) -> Iterator[Batch]:
    """Make `documents` again, `batch_size` at a time, and tell of each batch when it is done. Publishes nothing.

    A batch that fails is told of and the next one begun, unless the same failure would meet that too: after two in a row
    that waiting cannot mend (a key, a quota, a budget, a source that is away), or five of any other kind.
    """
    source = open_source(corpus)
    cause: str | None = None
    in_a_row = 0
    for number, start in enumerate(range(0, len(documents), batch_size), start=1):
        batch = documents[start : start + batch_size]
        reports: dict[Asset, StageReport] = {}
        problem: Exception | None = None
        try:
            for asset, report in _stages(store, corpus, source, provider, batch, run_id=run_id, progress=progress):
                reports[asset] = report
        except MemoryError:
            raise
        except Exception as error:  # told below, and by whoever asked; the other batches go on
            problem = error
        if problem is None:
            cause, in_a_row = None, 0
            yield Batch(number, batch, reports)
            continue
        in_a_row = in_a_row + 1 if _cause(problem) == cause else 1
        cause = _cause(problem)
        ends = in_a_row >= (_SAME_IN_A_ROW if _is_lasting(problem) else _SAME_PASSING_IN_A_ROW)
        yield Batch(number, batch, reports, problem=_told(problem), is_last_straw=ends)
        if ends:
            return


def _stages(
    store: Store,
    corpus: CorpusSettings,
    source: Source,
    provider: EmbeddingProvider,
    documents: Sequence[str],
    *,
    run_id: str,
    progress: Progress,
) -> Iterator[tuple[Asset, StageReport]]:
    yield "documents", read_documents(store, corpus, source, documents, run_id=run_id, progress=progress)
    yield "chunks", chunk_documents(store, corpus, documents, progress=progress)
    yield "embeddings", embed_documents(store, corpus, provider, documents, run_id=run_id, progress=progress)
    yield "index", index_documents(store, corpus, documents, run_id=run_id)


def _is_indexed_since(document: KnownDocument, moment: datetime) -> bool:
    return document.indexed_at is not None and document.indexed_at >= moment


def _matching(glob: str | None, names: Mapping[str, object]) -> list[str]:
    if glob is None:
        return sorted(names)
    try:
        pattern = matcher([glob])
    except ValueError as error:
        raise QuestionError(f"{glob!r} is not a glob such as guide/**/*.md: {error}") from None
    return sorted(name for name in names if pattern.match(name))


def _cause(error: Exception) -> str:
    return f"{type(error).__name__} {getattr(error, 'kind', '')}"


def _is_lasting(error: Exception) -> bool:
    """Whether waiting cannot mend it, and no other batch of documents would do better."""
    if isinstance(error, ProviderError):
        return error.kind is None or not POLICIES[FailureKind(error.kind)].passes
    return isinstance(error, BudgetError | SourceError)


def _told(error: Exception) -> str:
    if isinstance(error, RagAssetsError):
        return str(error)
    return f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
