"""Documents in a bucket, from a server on loopback that speaks S3."""

import importlib.util
import itertools
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError, SourceError
from rag_assets.reading.source import Source, open_source
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.reading.bucket import PAGE, Bucket, S3Server
from rag_assets_tests.workbench import Workbench, make_workbench

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("s3fs", "moto", "flask")),
    reason="needs a bucket: pip install 's3fs' 'moto[server]'",
)
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    """A bucket of its own, and an environment that holds credentials for it and none of the machine's."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "knows")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return server.bucket(f"notes{next(_NUMBERS)}")


def options(bucket: Bucket, **more: Any) -> dict[str, Any]:
    return {"endpoint_url": bucket.endpoint, "region": "eu-central-1", **more}


def source_of(bucket: Bucket, prefix: str = "docs", **keys: Any) -> Source:
    address = f"s3://{bucket.name}/{prefix}".rstrip("/")
    return open_source(CorpusSettings(name="notes", source=address, source_options=options(bucket), **keys))


def test_objects_are_named_by_their_key_below_the_prefix(bucket: Bucket):
    for key in ("docs/a.md", "docs/sub/b.md", "docs/c.rst", "docs/.hidden/d.md", "docs2/e.md", "f.md"):
        bucket.put(key, key)
    listing = source_of(bucket, include=["**/*.md"]).list()
    assert list(listing.entries) == ["a.md", "sub/b.md"]
    assert listing.entries["a.md"].bytes == 9
    assert (listing.entries["a.md"].revision or "").startswith("etag:")
    assert listing.entries["a.md"].modified_ns is not None
    assert list(source_of(bucket, "", include=["*.md"]).list().entries) == ["f.md"]
    file = source_of(bucket).read("sub/b.md")
    assert (file.data, file.uri) == (b"docs/sub/b.md", f"s3://{bucket.name}/docs/sub/b.md")


def test_hostile_names_are_listed_and_read_back(bucket: Bucket):
    names = ["it's.md", "sp ace.md", "100%.md", "[x]*?.md", "a+b&c=d#e.md", "a...b.md", "p|q,[r].md", "A.md", "a.md"]
    names += [unicodedata.normalize(form, "café.md") for form in ("NFC", "NFD")]
    for name in names:
        bucket.put(f"docs/{name}", name)
    source = source_of(bucket)
    assert sorted(source.list().entries) == sorted(names)
    assert [source.read(name).data.decode() for name in names] == names


def test_folders_that_are_objects_are_none_and_empty_objects_are_documents(bucket: Bucket):
    for key in ("docs/", "docs/sub/", "docs/sub/empty.md", "docs/folder.md/"):
        bucket.put(key, "")
    source = source_of(bucket)
    assert list(source.list().entries) == ["sub/empty.md"]
    assert source.read("sub/empty.md").data == b""


def test_names_that_the_client_would_take_for_others_are_passed_over_with_a_reason(bucket: Bucket):
    for name in ("a//b.md", "c?versionId=1.md", "d.md"):
        bucket.put(f"docs/{name}", name)
    listing = source_of(bucket).list()
    assert list(listing.entries) == ["d.md"]
    assert [name for name, _ in listing.refused] == ["a//b.md", "c?versionId=1.md"]


def test_a_long_listing_is_whole(bucket: Bucket):
    for number in range(PAGE * 2 + 5):
        bucket.put(f"docs/{number}.md", "")
    assert len(source_of(bucket).list().entries) == PAGE * 2 + 5


def test_what_a_client_has_seen_is_not_taken_for_what_is_there(bucket: Bucket):
    """s3fs keeps listings, and gives the same client to everyone who asks."""
    bucket.put("docs/a.md", "A")
    source = source_of(bucket)
    assert source.list().entries["a.md"].bytes == 1
    bucket.put("docs/a.md", "longer")
    bucket.put("docs/b.md", "B")
    assert {name: entry.bytes for name, entry in source.list().entries.items()} == {"a.md": 6, "b.md": 1}
    assert source_of(bucket).read("a.md").data == b"longer"


def test_an_object_that_vanished_says_so(bucket: Bucket):
    bucket.put("docs/a.md", "A")
    bucket.put("docs/b.md", "B")
    source = source_of(bucket)
    source.list()
    bucket.delete("docs/a.md")
    with pytest.raises(DocumentError, match="it is gone: it vanished after it was listed") as caught:
        source.read("a.md")
    assert caught.value.retryable is True


def test_an_object_that_is_too_large_is_not_fetched(bucket: Bucket):
    bucket.put("docs/a.md", "AAAA")
    with pytest.raises(DocumentError, match="it has 4 bytes, more than max_bytes 3 allows"):
        source_of(bucket, max_bytes=3).read("a.md")


def test_a_bucket_that_does_not_exist_fails_the_listing_and_an_empty_prefix_is_empty(bucket: Bucket):
    assert source_of(bucket, "nothing/here").list().entries == {}
    bucket.name = "nobody-has-this"
    for prefix in ("docs", ""):
        with pytest.raises(
            SourceError, match=r"s3://nobody-has-this.* does not exist; create it, or correct corpora\.notes\.source"
        ):
            source_of(bucket, prefix).list()


def test_an_object_is_no_folder(bucket: Bucket):
    bucket.put("docs/a.md", "A")
    with pytest.raises(SourceError, match=r"docs/a\.md is a file; name the folder that holds it"):
        source_of(bucket, "docs/a.md").list()


def test_credentials_that_are_refused_fail_listing_and_reading_with_the_variables_to_set(
    bucket: Bucket, server: S3Server
):
    bucket.put("docs/a.md", "A")
    said = r"corpus notes: source s3://.*; check corpora\.notes\.source, and the credentials in the environment: AWS_ACCESS_"
    server.ask_for_credentials(from_now_on=True)
    try:
        with pytest.raises(SourceError, match=rf"{said}.*Nothing that is indexed was touched"):
            source_of(bucket).list()
        with pytest.raises(SourceError, match=said):
            source_of(bucket).read("a.md")
    finally:
        server.ask_for_credentials(from_now_on=False)


def test_credentials_that_are_missing_are_told(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(SourceError, match=r"Unable to locate credentials; .* environment: AWS_ACCESS_KEY_ID"):
        source_of(bucket).list()


def test_a_client_that_is_not_installed_is_told_with_the_command(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(SourceError, match=r"needs a package that is not installed .*: pip install 'rag-assets\[s3\]'"):
        source_of(bucket).list()


# Through scan, materialize and delete.


@pytest.fixture
def bench(bucket: Bucket, tmp_path: Path) -> Workbench:
    for name in ("a.md", "b.md", "c.md"):
        bucket.put(f"docs/{name}", f"text of {name}")
    bench = make_workbench(tmp_path)
    bench.configure(source=f"s3://{bucket.name}/docs", source_options=options(bucket))
    bench.ingest()
    return bench


def test_what_was_written_again_with_the_same_bytes_is_made_again_by_nobody(bench: Workbench, bucket: Bucket):
    bucket.put("docs/a.md", "text of a.md")
    found = bench.scan()
    assert (found.pending, found.unchanged) == ([], 3)


def test_a_change_that_keeps_size_and_time_is_seen(bench: Workbench, bucket: Bucket):
    """Only the etag tells it, within the second that S3 counts in."""
    bucket.put("docs/a.md", "TEXT of a.md")
    assert bench.update().changed == ["a.md"]
    bucket.put("docs/a.md", "text of a.md")
    assert bench.update().changed == ["a.md"]
    assert bench.scan().pending == []


def test_what_is_renamed_is_not_embedded_again_and_what_is_deleted_is_not_found(bench: Workbench, bucket: Bucket):
    bucket.delete("docs/a.md")
    bucket.put("docs/sub/z.md", "text of a.md")
    bucket.delete("docs/b.md")
    found = bench.update()
    bench.publish()
    assert (found.added, found.removed) == (["sub/z.md"], ["a.md", "b.md"])
    assert bench.known["sub/z.md"].texts_embedded == 0
    assert sorted(passage.document for passage in bench.search("text", mode="vector")) == ["c.md", "sub/z.md"]


def test_an_emptied_bucket_withholds_deletions_and_a_lost_one_fails_the_scan(bench: Workbench, bucket: Bucket):
    for name in ("a.md", "b.md", "c.md"):
        bucket.delete(f"docs/{name}")
    found = bench.update()
    assert (found.removed, found.withheld) == ([], "the source lists no document, and 3 are known")
    assert bench.scan(confirm_deletions=True).removed == ["a.md", "b.md", "c.md"]
    bucket.request("DELETE", "")
    with pytest.raises(SourceError, match="does not exist"):
        bench.scan(confirm_deletions=True)


def test_a_zip_archive_in_a_bucket_is_read(bucket: Bucket, tmp_path: Path):
    from zipfile import ZipFile

    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("docs/a.md", "A")
    bucket.put("a.zip", (tmp_path / "a.zip").read_bytes())
    address = f"zip://docs::s3://{bucket.name}/a.zip"
    source = open_source(CorpusSettings(name="notes", source=address, source_options=options(bucket)))
    assert list(source.list().entries) == ["a.md"]
    file = source.read("a.md")
    assert (file.data, file.uri) == (b"A", f"zip://docs/a.md::s3://{bucket.name}/a.zip")


def test_a_bucket_is_ingested_followed_and_searched(bucket: Bucket, tmp_path: Path, fake: FakeOpenAI):
    """The whole platform: ingest, edit, rename (which embeds nothing) and delete in a bucket, and search."""
    for name in ("cats.md", "dogs.md", "it's birds.md"):
        bucket.put(f"docs/{name}", f"This is a page about {name[:-3]}.")
    platform = Platform(
        tmp_path,
        fake,
        {"source": f"s3://{bucket.name}/docs", "source_options": options(bucket), "include": ["**/*.md"]},
    )
    assert platform.ingest()["added"] == 3
    assert platform.ingest()["unchanged"] == 3
    bucket.put("docs/cats.md", "This is a page about lions.")
    bucket.delete("docs/it's birds.md")
    bucket.put("docs/sub/birds.md", "This is a page about it's birds.")
    bucket.delete("docs/dogs.md")
    report = platform.ingest()
    assert (report["changed"], report["added"], report["removed"]) == (1, 1, 2)
    assert (report["texts_embedded"], platform.embedded) == (1, 4)
    assert [row["document"] for row in platform.rows()] == ["cats.md", "sub/birds.md"]
    assert platform.search("lions")[0]["source_uri"] == f"s3://{bucket.name}/docs/cats.md"
    assert platform.partitions() == ["cats.md", "sub/birds.md"]
