"""What the pages of Dagster tell: of each asset, of each partition, and of each version."""

import base64
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import dagster as dg
import pytest

from rag_assets.drawing import panels_as_markdown
from rag_assets_tests.platform import Platform

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"


@pytest.fixture
def ingested(platform: Platform) -> Platform:
    platform.write("guide/kettle.md", "# Kettle\n\nThe kettle is red.\n\nIt whistles.")
    platform.write("empty.md", "")
    platform.write("bad.md", PNG)
    platform.ingest()
    return platform


def pages(platform: Platform, asset: str) -> dict[str | None, dict[str, Any]]:
    """The last materialization of each partition of `asset`: its labels and values."""
    with platform.instance() as instance:
        records = instance.fetch_materializations(dg.AssetKey(["notes", asset]), limit=100).records
    found: dict[str | None, dict[str, Any]] = {}
    for record in records:
        assert record.asset_materialization is not None
        values = {label: entry.value for label, entry in record.asset_materialization.metadata.items()}
        found.setdefault(record.partition_key, values)
    return found


def test_the_page_of_a_partition_tells_all_of_its_document(ingested: Platform):
    found = pages(ingested, "index")
    page = found["guide/kettle.md"]
    assert page["document"] == "guide/kettle.md"
    assert (page["title"], page["mime"], page["status"], page["rows"]) == ("Kettle", "text/markdown", "indexed", 2)
    assert page["tokens"] > 0
    assert (page["texts_embedded"], page["texts_reused"]) == (2, 0)
    assert page["tokens_embedded"] > 0
    assert page["cost_usd"] == 0.0
    assert page["source_uri"] == (ingested.corpus / "guide/kettle.md").as_uri()
    assert "# Kettle" in page["preview"]
    assert (found["empty.md"]["status"], found["empty.md"]["rows"]) == ("empty", 0)
    bad = found["bad.md"]
    assert bad["status"] == "skipped"
    assert bad["reason"].startswith("set aside by an earlier stage (read): its content is a PNG image")


def test_every_asset_tells_of_each_document_what_it_is_and_what_became_of_it(ingested: Platform):
    for asset, status in (("documents", "read"), ("chunks", "cut"), ("embeddings", "embedded"), ("index", "indexed")):
        page = pages(ingested, asset)["guide/kettle.md"]
        assert (page["document"], page["title"], page["status"]) == ("guide/kettle.md", "Kettle", status), asset
    assert pages(ingested, "documents")["bad.md"]["status"] == "failed"


def test_a_version_tells_which_documents_changed_and_is_drawn(ingested: Platform):
    first = pages(ingested, "published_index")[None]
    assert [record.data for record in first["changed_documents"].records] == [
        {"document": "guide/kettle.md", "what": "added"}
    ]
    ingested.write("guide/kettle.md", "The kettle is blue.")
    ingested.write("cup.md", "The cup is white.")
    ingested.ingest()
    second = pages(ingested, "published_index")[None]
    assert [record.data for record in second["changed_documents"].records] == [
        {"document": "cup.md", "what": "added"},
        {"document": "guide/kettle.md", "what": "changed"},
    ]
    assert (second["documents_added"], second["documents_changed"], second["documents_removed"]) == (1, 1, 0)
    (ingested.corpus / "cup.md").unlink()
    ingested.ingest()
    third = pages(ingested, "published_index")[None]
    assert [record.data for record in third["changed_documents"].records] == [{"document": "cup.md", "what": "removed"}]
    assert words_of(third["history"]) == [
        "documents 1",
        "at most 2",
        "chunks 1",
        "at most 2",
        "US dollars 0",
        "at most 1",
        "v1",
        "v3",
    ]


def words_of(markdown: str) -> list[str]:
    picture = markdown.partition("base64,")[2].removesuffix(")")
    return [str(text.text) for text in ElementTree.fromstring(base64.b64decode(picture)).findall("{*}text")]


def test_a_panel_has_a_point_for_each_value_and_a_scale_of_its_own():
    drawn = panels_as_markdown("sizes", {"small <1>": [1, 2], "big": [0.5, 2_000]}, ["v1", "v2"])
    assert drawn.startswith("![sizes](data:image/svg+xml;base64,")
    assert words_of(drawn) == ["small <1> 2", "at most 2", "big 2,000", "at most 2,000", "v1", "v2"]
    picture = ElementTree.fromstring(base64.b64decode(drawn.partition("base64,")[2].removesuffix(")")))
    assert len(list(picture.findall("{*}circle"))) == 4


def test_nothing_can_be_drawn_too():
    assert words_of(panels_as_markdown("sizes", {"small": []}, [])) == []


def test_every_asset_has_a_description_kinds_owners_and_a_group(platform_with: Callable[..., Platform]):
    definitions = platform_with(owners=["team:knowledge"]).definitions()
    specs = [spec for asset in definitions.resolve_asset_graph().assets_defs for spec in asset.specs]
    named = {spec.key.to_user_string() for spec in specs}
    assert {f"notes/{name}" for name in ("documents", "chunks", "embeddings", "index", "published_index")} <= named
    for spec in specs:
        assert spec.description, spec.key
        assert spec.kinds, spec.key
        assert list(spec.owners) == ["team:knowledge"], spec.key
        assert spec.group_name == "notes", spec.key
