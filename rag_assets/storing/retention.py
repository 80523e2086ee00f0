"""Which published versions are kept, and how: a tag in the index table holds each, and clean-up spares it.

A version is kept while it is both among the newest and young enough, and always while readers see it. One that is not
kept any more goes with the next clean-up, but not while a reader may still be in it: a question takes the version that the
pointer names, and the pointer may move a moment later.
"""

import contextlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from rag_assets.config import RetentionSettings
from rag_assets.storing import tables
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table

_TAG = "published-"


@dataclass(frozen=True)
class PublishedVersion:
    """Where the rows of a publication are, and when it was made."""

    version: int
    generation: str
    table_version: int
    published_at: datetime


def published_versions(store: Store, corpus: str) -> list[PublishedVersion]:
    """Every version that was ever published of `corpus`, the newest first."""
    columns = ["version", "generation", "table_version", "published_at"]
    rows = store.publications(corpus).read(columns).sort_by([("version", "descending")])
    return [PublishedVersion(*values) for values in zip(*(rows[name].to_pylist() for name in columns), strict=True)]


def versions_to_keep(
    found: Sequence[PublishedVersion], retention: RetentionSettings, *, now: datetime
) -> list[PublishedVersion]:
    """Those of the versions `found`, the newest first, that `retention` keeps; the first is what readers see."""
    young = timedelta(days=retention.days)
    newest = found[: retention.versions]
    return [one for number, one in enumerate(newest) if number == 0 or now - one.published_at < young]


def table_versions_in_use(found: Sequence[PublishedVersion], *, now: datetime) -> Mapping[str, Collection[int]]:
    """By generation, the versions of its table that readers see, or saw until `tables.KEEP_VERSIONS_FOR` ago."""
    in_use: dict[str, set[int]] = defaultdict(set)
    left_at = now
    for one in found:
        if now - left_at > tables.KEEP_VERSIONS_FOR:
            break
        in_use[one.generation].add(one.table_version)
        left_at = one.published_at
    return in_use


def hold(table: Table, version: int, table_version: int) -> None:
    """Tag a version of the index table, so that clean-up spares it."""
    tags = table.open().tags
    name = _tag(version)
    # A publisher that died, or was overtaken, between the tag and the pointer leaves a tag of this name.
    there = tags.list().get(name)
    if there is None:
        try:
            tags.create(name, table_version)
        except ValueError:  # another process was faster
            tags.update(name, table_version)
    elif int(there["version"]) != table_version:
        tags.update(name, table_version)


def let_go(table: Table, version: int) -> None:
    """Take away the tag of a publication, where there is one: clean-up does not spare its rows any more."""
    with contextlib.suppress(ValueError, OSError):  # another process did it first
        table.open().tags.delete(_tag(version))


def tagged_publications(table: Table) -> Mapping[int, tuple[int, datetime | None]]:
    """The published versions whose rows are held in an index table: the version of the table, and when it was tagged. Tags
    that somebody else made are not looked at."""
    return {
        int(name.removeprefix(_TAG)): (int(tag["version"]), tag.get("updated_at"))
        for name, tag in table.open().tags.list().items()
        if name.startswith(_TAG)
    }


def has_other_tags(table: Table) -> bool:
    """Whether somebody else has tagged a version of the table: it is theirs to delete then."""
    return any(not name.startswith(_TAG) for name in table.open().tags.list())


def release(store: Store, corpus: str, retention: RetentionSettings, *, now: datetime) -> set[int]:
    """Drop the tags of the versions of `corpus` that are not kept any more, and return those versions. What they alone held
    goes with the next `clean_up`."""
    found = published_versions(store, corpus)
    keep = {(one.version, one.generation) for one in versions_to_keep(found, retention, now=now)}
    released: set[int] = set()
    for generation in {one.generation for one in found if one.table_version}:
        table = store.index(corpus, generation, dimensions=1)
        if not table.exists():
            continue
        for version in tagged_publications(table):
            # A number above those known is that of a publication under way.
            if version > found[0].version or (version, generation) in keep:
                continue
            let_go(table, version)
            released.add(version)
    return released


def clean_up(store: Store, corpus: str, generation: str, *, now: datetime) -> int:
    """Drop the versions of an index table that are neither held nor read, and return the bytes that this freed."""
    in_use = table_versions_in_use(published_versions(store, corpus), now=now)
    return store.index(corpus, generation, dimensions=1).clean_up(spare=in_use.get(generation, ()))


def _tag(version: int) -> str:
    return f"{_TAG}{version:010d}"
