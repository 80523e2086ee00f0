"""A document's partition key is readable, reversible and harmless."""

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.defs.partitions import add_keys, delete_keys, document_of, move_to_end, partition_key

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
