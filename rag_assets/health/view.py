"""A corpus as the checks see it: what several of them look at is read once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, wraps

from rag_assets.config import CorpusSettings, EmbeddingSettings
from rag_assets.embedding.provider import EmbeddingProvider
from rag_assets.embedding.providers import make_provider
from rag_assets.generations import Generation, generation_of
from rag_assets.health.verdicts import Verdict
from rag_assets.reading.source import Listing, open_source
from rag_assets.scanning import Presence, Scan, gone_from, scan, why_withheld
from rag_assets.storing.ledger import KnownDocument, known_documents, set_aside_in
from rag_assets.storing.publishing import Publication, latest_publication, publications, rows_by_document
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table

_LOOKS_AGAIN = 3


@dataclass(frozen=True)
class InstanceFacts:
    """What a Dagster instance tells of a corpus: documents without a partition, the reverse, and runs that do not move, each
    with why it is believed to be dead."""

    without_partition: Sequence[str] = ()
    without_document: Sequence[str] = ()
    stuck_runs: Mapping[str, str] | None = None


class View:
    """One look at `corpus` as it is `now`. Nothing is read before a check asks for it.

    `instance_facts` asks the Dagster instance, None where there is none. `run_id` is that of the run that looks, and
    `presence` what was seen of the source by the scan that asked for the run, None where it must be listed for this look.
    """

    def __init__(
        self,
        store: Store,
        corpus: CorpusSettings,
        *,
        provider_for: Callable[[EmbeddingSettings], EmbeddingProvider] = make_provider,
        instance_facts: Callable[[], InstanceFacts] | None = None,
        now: datetime | None = None,
        run_id: str = "",
        presence: Presence | None = None,
    ) -> None:
        self.store = store
        self.corpus = corpus
        self.provider_for = provider_for
        self.now = now or datetime.now(UTC)
        self.run_id = run_id
        self._ask_instance = instance_facts
        self._presence = presence
        self._known_version: int | None = None

    @cached_property
    def generation(self) -> Generation:
        """What the configuration asks for."""
        return generation_of(self.corpus)

    @cached_property
    def known(self) -> Mapping[str, KnownDocument]:
        """What is known of each document."""
        self._known_version = self._documents_version()
        return known_documents(self.store.documents(self.corpus.name))

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of the known documents, which are read in no time beside all that is known of them."""
        names: list[str] = self.store.documents(self.corpus.name).read(["document"])["document"].to_pylist()
        return names

    @cached_property
    def set_aside(self) -> Sequence[KnownDocument]:
        """The documents that are set aside, by name."""
        return set_aside_in(self.store.documents(self.corpus.name))

    def is_outdated(self) -> bool:
        """Whether a run has written to the documents since they were read here."""
        return self._known_version is not None and self._documents_version() != self._known_version

    def again(self) -> "View":
        """The same look, at what is there now."""
        return View(
            self.store,
            self.corpus,
            provider_for=self.provider_for,
            instance_facts=self._ask_instance,
            now=self.now,
            run_id=self.run_id,
            presence=self._presence,
        )

    def _documents_version(self) -> int | None:
        table = self.store.documents(self.corpus.name)
        dataset = table.open_existing()
        return int(dataset.version) if dataset is not None else None

    @cached_property
    def presence(self) -> Presence:
        """How many documents there are, and how many are gone. Raises `SourceError` when the source cannot be listed."""
        if self._presence is not None:
            return self._presence
        gone = gone_from(self.listing, self.names)
        withheld = why_withheld(self.listing, gone, set(self.names), self.corpus.max_share_deleted)
        return Presence(len(self.listing.entries), len(gone), withheld)

    @cached_property
    def listing(self) -> Listing:
        """What the source lists. Raises `SourceError` when it cannot be listed."""
        return open_source(self.corpus).list()

    @cached_property
    def found(self) -> Scan:
        """The source, compared with what is known: files that may have changed are read. Raises `SourceError` when it cannot
        be listed."""
        return scan(self.store, self.corpus, open_source(self.corpus), listing=self.listing, known=self.known)

    @cached_property
    def published(self) -> Publication | None:
        """What readers see, None before the first publication."""
        return latest_publication(self.store, self.corpus.name)

    @cached_property
    def publications(self) -> Sequence[Publication]:
        """Everything that was ever published, the newest first."""
        return publications(self.store, self.corpus.name)

    @cached_property
    def index(self) -> tuple[Table, int] | None:
        """The table that readers search, and the version of it; None where there is nothing to search."""
        if self.published is None or not self.published.table_version:
            return None
        table = self.store.index(self.corpus.name, self.published.generation, dimensions=1)
        return table, self.published.table_version

    @cached_property
    def rows_of(self) -> Mapping[str, int]:
        """How many rows readers can find of each document."""
        return rows_by_document(self.index[0], version=self.index[1]) if self.index else {}

    @cached_property
    def settled(self) -> Sequence[str]:
        """Documents whose rows in the published index are known: of its generation, and not made again since it was
        published. Those that are pending or set aside have their last good rows there, of which nobody knows any more."""
        if self.published is None:
            return []
        seen_at = self.published.published_at
        if self.published.is_rollback:
            shown = self.published.changes.get("rolled_back_to")
            seen_at = next((one.published_at for one in self.publications if one.version == shown), seen_at)
        return [
            name
            for name, document in self.known.items()
            if document.status in ("indexed", "empty")
            and document.generation == self.published.generation
            and document.indexed_at is not None
            and document.indexed_at <= seen_at
        ]

    @cached_property
    def strangers(self) -> Sequence[str]:
        """Documents that readers find and nobody knows, but for those that go with the next publication."""
        unknown = self.rows_of.keys() - self.known.keys()
        if self.index and unknown:
            unknown &= rows_by_document(self.index[0]).keys()
        return sorted(unknown)

    @cached_property
    def instance(self) -> InstanceFacts | None:
        """What Dagster tells, None without an instance."""
        return self._ask_instance() if self._ask_instance else None


def steadily(look: Callable[[View], Verdict]) -> Callable[[View], Verdict]:
    """`look`, which compares tables, beside runs that write to them: where it is red, and a run has written since the first
    of them was read, it looks again, a few times."""

    @wraps(look)
    def again(view: View) -> Verdict:
        verdict = look(view)
        for _ in range(_LOOKS_AGAIN):
            if verdict.passed or not view.is_outdated():
                break
            view = view.again()
            verdict = look(view)
        return verdict

    return again
