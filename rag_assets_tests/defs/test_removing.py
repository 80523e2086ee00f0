"""A removal that is cut short leaves nothing behind that nobody finds."""

from typing import NoReturn

import pytest

from rag_assets.defs.partitions import keys_of
from rag_assets.errors import RagAssetsError
from rag_assets_tests.platform import Platform


def cut_short(*_arguments: object, **_keys: object) -> NoReturn:
    raise RagAssetsError("the store is full")


def partitions(platform: Platform) -> set[str]:
    with platform.instance() as instance:
        return keys_of(instance, "notes")[None]


def found(platform: Platform) -> list[str]:
    return sorted(row["document"] for row in platform.rows())


@pytest.mark.parametrize("at", ["remove_documents", "publish"])
def test_what_is_gone_from_the_source_goes_with_the_next_ingest(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, at: str
):
    for name in ("a.md", "b.md"):
        platform.write(name, f"The text of {name}.\n")
    platform.ingest()
    (platform.corpus / "b.md").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(f"rag_assets.defs.removing.{at}", cut_short)
        outcome = platform.run("ingest", "--confirm-deletions")
    assert outcome.status == 1
    assert "the store is full" in outcome.err
    platform.ingest("--confirm-deletions")
    assert partitions(platform) == {"a.md"}
    assert found(platform) == ["a.md"]


def test_what_is_still_in_the_source_has_its_partition_again(platform: Platform, monkeypatch: pytest.MonkeyPatch):
    platform.write("a.md", "The text of a.\n")
    platform.ingest()
    with monkeypatch.context() as patched:
        patched.setattr("rag_assets.defs.removing.remove_documents", cut_short)
        assert platform.run("remove", "a.md").status == 1
    platform.write("b.md", "The text of b.\n")
    platform.ingest()
    assert partitions(platform) == {"a.md", "b.md"}
    assert found(platform) == ["a.md", "b.md"]
