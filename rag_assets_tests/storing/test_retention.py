from datetime import UTC, datetime, timedelta

import pytest

from rag_assets.config import RetentionSettings
from rag_assets.errors import StoreError
from rag_assets.storing import tables
from rag_assets.storing.publishing import kept_versions, publications, rollback
from rag_assets.storing.retention import (
    PublishedVersion,
    clean_up,
    published_versions,
    release,
    table_versions_in_use,
    versions_to_keep,
)
from rag_assets_tests.workbench import CORPUS, Workbench

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def published(*days_ago: float) -> list[PublishedVersion]:
    """Versions that were published so many days ago, the newest first."""
    count = len(days_ago)
    return [
        PublishedVersion(count - place, "g", 10 * (count - place), NOW - timedelta(days=days))
        for place, days in enumerate(days_ago)
    ]


@pytest.mark.parametrize(
    ("days_ago", "versions", "days", "kept"),
    [
        ((1, 2, 3, 4), 2, 30, [4, 3]),
        ((1, 2, 3, 4), 10, 2.5, [4, 3]),
        ((1, 2, 3, 4), 3, 1.5, [4]),
        ((40, 50), 10, 30, [2]),
        ((), 10, 30, []),
    ],
)
def test_a_version_is_kept_by_count_and_by_age_and_the_one_in_sight_always(
    days_ago: tuple[float, ...], versions: int, days: float, kept: list[int]
):
    found = versions_to_keep(published(*days_ago), RetentionSettings(versions=versions, days=days), now=NOW)
    assert [one.version for one in found] == kept


def test_a_version_is_in_use_until_some_minutes_after_the_next_one():
    minute = 1 / 24 / 60
    found = published(5 * minute, 9 * minute, 12 * minute, 90)
    assert table_versions_in_use(found, now=NOW) == {"g": {40, 30, 20}}
    assert table_versions_in_use(found[2:], now=NOW) == {"g": {20}}
    assert table_versions_in_use([], now=NOW) == {}


def edit(bench: Workbench, *colours: str) -> None:
    for colour in colours:
        bench.write("a.md", f"{colour} apples")
        bench.ingest()


def kept(bench: Workbench) -> set[int]:
    return kept_versions(bench.store, CORPUS, publications(bench.store, CORPUS))


def test_old_versions_go_by_age_with_the_next_look(bench: Workbench):
    edit(bench, "red", "green", "blue")
    in_a_month = datetime.now(UTC) + timedelta(days=31)
    assert release(bench.store, CORPUS, bench.corpus.retention, now=in_a_month) == {1, 2}
    assert release(bench.store, CORPUS, bench.corpus.retention, now=in_a_month) == set()
    assert kept(bench) == {3}


def test_what_a_person_rolled_back_to_outlives_its_own_number(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    """Readers see version 4, which is version 1 again: the rows stay though version 1 is not kept any more."""
    monkeypatch.setattr(tables, "KEEP_VERSIONS_FOR", timedelta(0))
    bench.configure(retention=RetentionSettings(versions=1))
    edit(bench, "red")
    bench.configure(retention=RetentionSettings(versions=3))
    edit(bench, "green", "blue")
    rollback(bench.store, CORPUS, 1)
    long_after = datetime.now(UTC) + timedelta(days=1000)
    assert release(bench.store, CORPUS, RetentionSettings(versions=1), now=long_after) == {1, 2, 3}
    clean_up(bench.store, CORPUS, bench.published.generation, now=long_after)
    assert bench.texts("apples") == ["red apples"]


def test_the_version_that_the_pointer_just_left_can_still_be_read(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    """A version counts from when it was left, not from when it was made. One that was published hours ago was deleted in
    the moment at which the next was published, under the eyes of whoever had asked the pointer before."""
    edit(bench, "red")
    index = bench.store.index(CORPUS, bench.published.generation, dimensions=1)
    reader = index.open(bench.published.table_version)
    bench.configure(retention=RetentionSettings(versions=1))
    edit(bench, "green", "blue")
    assert kept(bench) == {3}
    hours_later = datetime.now(UTC) + timedelta(hours=2)
    for table_keeps in (timedelta(0), timedelta(minutes=10)):
        monkeypatch.setattr(tables, "KEEP_VERSIONS_FOR", timedelta(minutes=10))
        spare = table_versions_in_use(published_versions(bench.store, CORPUS), now=datetime.now(UTC))
        index.clean_up(keep_versions_for=table_keeps, spare=spare[bench.published.generation])
        assert reader.to_table(columns=["text"])["text"].to_pylist() == ["red apples"]
    monkeypatch.setattr(tables, "KEEP_VERSIONS_FOR", timedelta(0))
    clean_up(bench.store, CORPUS, bench.published.generation, now=hours_later)
    with pytest.raises(StoreError, match="is lost or damaged"):
        index.read(version=reader.version)


def test_the_tag_of_a_publication_under_way_is_left_alone(bench: Workbench):
    edit(bench, "red")
    index = bench.store.index(CORPUS, bench.published.generation, dimensions=1)
    index.open().tags.create("published-0000000002", index.open().version)
    assert release(bench.store, CORPUS, RetentionSettings(versions=1), now=NOW) == set()
    assert sorted(index.open().tags.list()) == ["published-0000000001", "published-0000000002"]
