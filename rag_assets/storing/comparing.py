"""What changed between two versions of an index: which documents came, changed and went, as readers see them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag_assets.storing.tables import Table

if TYPE_CHECKING:
    import lance

Place = tuple[Table, int]
"""A table, and a version of it."""


@dataclass(frozen=True)
class Changes:
    """Documents by what became of them, each list sorted."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def compare_versions(before: Place | None, after: Place | None) -> Changes:
    """Which documents have rows in one version only, or rows of another text. None is an empty index.

    Of two versions of one table only the fragments that differ are read: the rows of a document change together, and
    leave deleted rows behind in every fragment that held them.
    """
    old, new = (place[0].open(place[1]) if place else None for place in (before, after))
    old_fragments, new_fragments = (list(one.get_fragments()) if one else [] for one in (old, new))
    if before and after and before[0].uri == after[0].uri:
        same = set(map(_identity, old_fragments)) & set(map(_identity, new_fragments))
        old_fragments = [one for one in old_fragments if _identity(one) not in same]
        new_fragments = [one for one in new_fragments if _identity(one) not in same]
    old_rows, new_rows = _contents(old_fragments), _contents(new_fragments)
    return Changes(
        added=sorted(new_rows.keys() - old_rows.keys()),
        changed=sorted(name for name in new_rows.keys() & old_rows.keys() if new_rows[name] != old_rows[name]),
        removed=sorted(old_rows.keys() - new_rows.keys()),
    )


def _identity(fragment: "lance.LanceFragment") -> tuple[int, int, int]:
    return fragment.fragment_id, fragment.physical_rows, fragment.num_deletions


def _contents(fragments: Iterable["lance.LanceFragment"]) -> Mapping[str, str]:
    """The hash of the text of each document."""
    found: dict[str, str] = {}
    for fragment in fragments:
        rows = fragment.to_table(columns=["document", "document_hash"])
        found.update(zip(rows["document"].to_pylist(), rows["document_hash"].to_pylist(), strict=True))
    return found
