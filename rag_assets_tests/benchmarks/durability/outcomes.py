"""What became of the texts, compared with the source, and the table that shows it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import lance

from rag_assets.generations import generation_of
from rag_assets_tests.benchmarks.counting import CountingProvider
from rag_assets_tests.benchmarks.durability.editions import Edition, edition_of, published_rows
from rag_assets_tests.benchmarks.tables import markdown_table
from rag_assets_tests.platform import Platform

_HEADER = ("what happened", "texts", "sent", "at most", "lost", "duplicated", "half an index seen", "holds")


@dataclass(frozen=True)
class Outcome:
    """One scenario. `sent` are the texts that the provider embedded, `allowed` how many they may be.

    `lost` are texts of the source without their vector or row, `duplicated` rows beyond one a text. A reader looked
    `looks` times, and `halves` of them it saw neither the index before nor the one after.
    """

    what: str
    texts: int
    sent: int
    allowed: int
    lost: int
    duplicated: int
    looks: int = 0
    halves: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, duplicated or half seen, and no more was sent than is allowed."""
        return not (self.lost or self.duplicated or self.halves) and self.sent <= self.allowed


def losses(platform: Platform, source: Edition, *, corpus: str = "notes") -> tuple[int, int]:
    """How many texts of `source` lack their row or vector, and how many rows there are beyond one a text."""
    rows = published_rows(platform.store, corpus)
    wanted = Counter((document, text) for document, texts in source.items() for text in texts)
    found = Counter((document, text) for document, texts in edition_of(rows).items() for text in texts)
    hashes = set(rows["text_hash"].to_pylist()) if rows is not None else set()
    settings = platform.settings.corpus(corpus)
    vectors = platform.store.vectors(generation_of(settings).embedding)
    ids = rows["chunk_id"].to_pylist() if rows is not None else []
    lost = (wanted - found).total() + len(hashes - vectors.known(hashes))
    duplicated = (found - wanted).total() + len(ids) - len(set(ids))
    return lost, duplicated


def must_have_a_vector_a_text(platform: Platform) -> None:
    """Raise `AssertionError` when a text has two. That costs nothing, but only writers at once may leave it."""
    vectors = platform.store.vectors(generation_of(platform.notes).embedding)
    hashes = lance.dataset(vectors.uri).to_table(columns=["text_hash"])["text_hash"]
    assert len(hashes) == len(hashes.unique()), f"{len(hashes)} vectors for {len(hashes.unique())} texts"


def outcome(
    what: str,
    platform: Platform,
    provider: CountingProvider,
    source: Edition,
    *,
    texts: int,
    allowed: int,
    looks: int = 0,
    halves: int = 0,
    corpus: str = "notes",
) -> Outcome:
    """Compare what readers of `platform` see with `source`, and what was sent with what is `allowed`."""
    lost, duplicated = losses(platform, source, corpus=corpus)
    return Outcome(what, texts, provider.sent, allowed, lost, duplicated, looks, halves)


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """One row a scenario."""
    return markdown_table([_HEADER, *map(_cells, outcomes)])


def _cells(one: Outcome) -> tuple[str, ...]:
    numbers = (one.texts, one.sent, one.allowed, one.lost, one.duplicated)
    seen = f"{one.halves} of {one.looks:,}" if one.looks else "–"
    return (one.what, *(f"{number:,}" for number in numbers), seen, "yes" if one.holds else "**no**")
