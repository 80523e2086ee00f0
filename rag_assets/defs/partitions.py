"""One dynamic partition per document. The key is the document's path, escaped where Dagster or its UI would trip.

The UI takes `[`, `]`, `,` and `...` for range syntax; control characters, quotes and white space at the ends do not
survive its forms. These are percent-encoded, everything else stays readable, and the encoding is reversible.
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote

import dagster as dg

# Keys go into one SQL statement; SQLite takes at most 32,766 parameters.
KEYS_PER_STATEMENT = 10_000

_UNSAFE = re.compile(
    r"""[%\[\],|"'`\\*?\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\.{3,}|^\s+|\s+$"""
)


def partitions_name(corpus: str) -> str:
    """The name of the dynamic partitions of `corpus`."""
    return f"{corpus}_documents"


def partitions_of(corpus: str) -> dg.DynamicPartitionsDefinition:
    """The partitions definition that all partitioned assets of `corpus` share."""
    return dg.DynamicPartitionsDefinition(name=partitions_name(corpus))


def partition_key(document: str) -> str:
    """The partition key of `document`."""
    return _UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), document)


def document_of(key: str) -> str:
    """The document that `partition_key` made `key` of."""
    return unquote(key)


def add_keys(instance: dg.DagsterInstance, corpus: str, documents: Sequence[str]) -> None:
    """Make a partition for each of `documents` that has none, in their order."""
    name = partitions_name(corpus)
    for start in range(0, len(documents), KEYS_PER_STATEMENT):
        keys = [partition_key(document) for document in documents[start : start + KEYS_PER_STATEMENT]]
        instance.add_dynamic_partitions(name, keys)


def move_to_end(instance: dg.DagsterInstance, corpus: str, documents: Sequence[str]) -> tuple[str, str]:
    """Make the partitions of `documents` the last ones, next to each other, and return the first and last key.

    A run covers a contiguous range of keys in the order in which they were added, so scattered documents become a range by
    being deleted and added again. Materializations belong to the key and stay. Only while no run of the corpus is under
    way: it would lose its own range.
    """
    delete_keys(instance, corpus, documents)
    add_keys(instance, corpus, documents)
    return partition_key(documents[0]), partition_key(documents[-1])


def delete_keys(instance: dg.DagsterInstance, corpus: str, documents: Sequence[str]) -> None:
    """Delete the partitions of `documents`, where they exist."""
    existing = set(instance.get_dynamic_partitions(partitions_name(corpus)))
    for document in documents:
        if partition_key(document) in existing:
            instance.delete_dynamic_partition(partitions_name(corpus), partition_key(document))
