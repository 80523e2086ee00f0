"""A document's partition key is readable, reversible and harmless."""

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.defs.partitions import (
    add_keys,
    by_shard,
    delete_keys,
    delete_sets,
    document_of,
    keys_of,
    misplaced,
    move_to_end,
    partition_key,
    shard_of,
)

# A path that is valid UTF-8: no lone surrogate.
PATHS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(PATHS)
def test_a_key_leads_back_to_its_document(document: str):
    assert document_of(partition_key(document)) == document


@given(PATHS, PATHS)
def test_two_documents_never_share_a_key(one: str, other: str):
    assert (partition_key(one) == partition_key(other)) == (one == other)


@given(PATHS)
def test_no_key_holds_what_the_ui_reads_as_a_range(document: str):
    key = partition_key(document)
    assert not set(key) & set("[],|\n\t\0\"'")
    assert "..." not in key
    assert key == key.strip()


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ("guide/first steps.md", "guide/first steps.md"),
        ("über/café-新宿.md", "über/café-新宿.md"),
        ("a...b.md", "a%2E%2E%2Eb.md"),
        ("100%.md", "100%25.md"),
        ("p|q,[r].md", "p%7Cq%2C%5Br%5D.md"),
        (" x ", "%20x%20"),
    ],
)
def test_ordinary_names_stay_readable(document: str, key: str):
    assert partition_key(document) == key


def test_moved_keys_are_the_last_and_next_to_each_other():
    with dg.DagsterInstance.ephemeral() as instance:
        add_keys(instance, "c", ["a", "b", "c", "d"])
        assert move_to_end(instance, "c", ["b", "d", "new"]) == ("b", "new")
        assert instance.get_dynamic_partitions("c_documents") == ["a", "c", "b", "d", "new"]
        delete_keys(instance, "c", ["b", "never there"])
        assert instance.get_dynamic_partitions("c_documents") == ["a", "c", "d", "new"]


@given(PATHS, st.integers(1, 63))
def test_with_one_shard_more_a_document_stays_or_goes_to_the_new_one(document: str, shards: int):
    now, then = shard_of(document, shards), shard_of(document, shards + 1)
    assert then in (now, shards) if shards > 1 else (now is None and then in (0, 1))


def test_a_document_belongs_to_the_same_shard_everywhere_and_always():
    assert [shard_of("guide/first steps.md", shards) for shards in (1, 2, 4, 8, 64)] == [None, 1, 2, 7, 22]
    assert [shard_of("über/café-新宿.md", shards) for shards in (1, 2, 4, 8, 64)] == [None, 0, 0, 4, 30]


def test_shards_are_of_about_the_same_size():
    sizes = [len(members) for members in by_shard([f"guide/page-{number}.md" for number in range(8_000)], 8).values()]
    assert len(sizes) == 8
    assert 900 < min(sizes) <= max(sizes) < 1100


def test_keys_are_added_moved_and_deleted_in_the_set_of_their_document():
    names = [f"d{number}" for number in range(10)]
    with dg.DagsterInstance.ephemeral() as instance:
        add_keys(instance, "c", names, shards=4)
        assert keys_of(instance, "c", shards=4) == {
            shard: set(members) for shard, members in by_shard(names, 4).items()
        }
        shard, members = max(by_shard(names, 4).items(), key=lambda item: len(item[1]))
        assert len(members) > 2
        assert move_to_end(instance, "c", members[:2], shard=shard) == (members[0], members[1])
        assert instance.get_dynamic_partitions(f"c_documents_{shard:02}") == [*members[2:], *members[:2]]
        delete_keys(instance, "c", [*names[:9], "never there"], shards=4)
        assert keys_of(instance, "c", shards=4)[shard_of("d9", 4)] == {"d9"}


def test_keys_of_another_number_of_shards_are_found_and_deleted():
    names = [f"d{number}" for number in range(10)]
    with dg.DagsterInstance.ephemeral() as instance:
        add_keys(instance, "c", names)
        assert misplaced(instance, "c") == {}
        assert misplaced(instance, "c", shards=4) == {None: names}
        delete_keys(instance, "c", ["d3"], shards=4)
        assert misplaced(instance, "c", shards=4) == {None: [name for name in names if name != "d3"]}
        add_keys(instance, "c", names, shards=64)
        assert delete_sets(instance, "c") == 19
        assert delete_sets(instance, "c") == 0


@pytest.mark.parametrize("other", ["storage", "module", "table"])
def test_keys_are_deleted_one_by_one_where_the_storage_or_dagster_is_another(
    monkeypatch: pytest.MonkeyPatch, other: str
):
    from dagster._core.storage.event_log import schema, sql_event_log

    deleted = []
    one_by_one = dg.DagsterInstance.delete_dynamic_partition

    def delete(instance: dg.DagsterInstance, name: str, key: str) -> None:
        deleted.append(key)
        monkeypatch.undo()
        one_by_one(instance, name, key)

    with dg.DagsterInstance.ephemeral() as instance:
        add_keys(instance, "c", ["a", "b"])
        monkeypatch.setattr(dg.DagsterInstance, "delete_dynamic_partition", delete)
        if other == "storage":
            monkeypatch.setattr(sql_event_log, "SqlEventLogStorage", type(None))
        elif other == "module":
            monkeypatch.delattr(schema, "DynamicPartitionsTable")
        else:
            monkeypatch.setattr(schema, "DynamicPartitionsTable", object())
        delete_keys(instance, "c", ["a"])
        assert instance.get_dynamic_partitions("c_documents") == ["b"]
    assert deleted == ["a"]


def test_keys_are_deleted_together(monkeypatch: pytest.MonkeyPatch):
    """Fails when Dagster changes what is private: the public call would be used for each."""
    monkeypatch.delattr(dg.DagsterInstance, "delete_dynamic_partition")
    with dg.DagsterInstance.ephemeral() as instance:
        add_keys(instance, "c", ["a", "b"])
        delete_keys(instance, "c", ["a"])
        assert instance.get_dynamic_partitions("c_documents") == ["b"]
