"""Stores that fsspec reads: archives, repositories, and whatever else it knows."""

import base64
import hashlib
import json
import sys
import tarfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import fsspec
import pytest

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError, SourceError
from rag_assets.reading.source import Entry, Listing, Source, open_source
from rag_assets.reading.sources.describing import describe
from rag_assets.reading.sources.options import storage_options
from rag_assets.reading.sources.schemes import SCHEMES
from rag_assets_tests.reading.shelf import Shelf
from rag_assets_tests.reading.website import Website
from rag_assets_tests.workbench import Workbench, make_workbench

OLD = datetime(2026, 1, 1, tzinfo=UTC)


def source_of(address: str | Path, **keys: Any) -> Source:
    return open_source(CorpusSettings(name="notes", source=str(address), **keys))


def pack(path: Path, files: Mapping[str, str]) -> Path:
    """A ZIP archive of `files`, in place of the one that is there."""
    with ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


# Archives.


def test_an_archive_is_a_folder_and_so_is_a_folder_in_it(tmp_path: Path):
    path = pack(tmp_path / "docs.zip", {"a.md": "A", "sub/it's ä.md": "B", "sub/.hidden.md": "", "c.rst": "", "d/": ""})
    for address in (str(path), f"zip://::{path}", f"zip://::file://{path}"):
        assert list(source_of(address, include=["**/*.md"]).list().entries) == ["a.md", "sub/it's ä.md"]
    source = source_of(f"zip://sub::{path}")
    assert list(source.list().entries) == ["it's ä.md"]
    file = source.read("it's ä.md")
    assert (file.data, file.uri) == (b"B", f"zip://sub/it's ä.md::{path}")
    assert file.entry == source.list().entries["it's ä.md"]


def test_nothing_outside_an_archive_is_named_by_it(tmp_path: Path):
    path = pack(tmp_path / "docs.zip", {"a.md": "A", "../b.md": "B", "x/../c.md": "C"})
    assert list(source_of(path).list().entries) == ["a.md"]
    with pytest.raises(DocumentError, match="not a path below the folder"):
        source_of(path).read("../b.md")


def test_what_include_and_exclude_leave_out_of_an_archive_is_not_read(tmp_path: Path):
    path = pack(tmp_path / "docs.zip", {"private/a.md": "A", "b.rst": "B"})
    for name in ("private/a.md", "b.rst"):
        with pytest.raises(DocumentError, match="include or exclude of the corpus leaves its name out"):
            source_of(path, include=["**/*.md"], exclude=["private/**"]).read(name)


def test_an_archive_that_was_replaced_is_read_anew(tmp_path: Path):
    source = source_of(pack(tmp_path / "docs.zip", {"a.md": "A"}))
    before = source.list().entries["a.md"]
    pack(tmp_path / "docs.zip", {"a.md": "B", "b.md": "B"})
    after = source.list().entries
    assert list(after) == ["a.md", "b.md"]
    assert after["a.md"].revision != before.revision
    assert source.read("a.md").data == b"B"


def test_a_folder_that_is_called_like_an_archive_is_a_folder(tmp_path: Path):
    (tmp_path / "docs.zip").mkdir()
    (tmp_path / "docs.zip/a.md").write_text("A")
    assert source_of(tmp_path / "docs.zip").read("a.md").data == b"A"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("zip://::{}/none.zip", "does not exist; create it, or correct corpora.notes.source. Nothing that is indexed"),
        ("{}/none.zip", "does not exist; create it"),
        ("zip://none::{}/docs.zip", "does not exist; create it"),
        ("zip://a.md::{}/docs.zip", "is a file; name the folder that holds it in corpora.notes.source"),
        ("zip://::{}/broken.zip", "cannot be listed: BadZipFile: File is not a zip file; check corpora.notes.source"),
    ],
)
def test_an_archive_that_cannot_be_listed_fails_the_listing(tmp_path: Path, address: str, said: str):
    pack(tmp_path / "docs.zip", {"a.md": "A"})
    (tmp_path / "broken.zip").write_bytes(b"PK no")
    with pytest.raises(SourceError) as caught:
        source_of(address.format(tmp_path)).list()
    assert said in str(caught.value)


def test_an_archive_is_followed_by_checksums(tmp_path: Path):
    """The times in an archive count two seconds, and those of a build are often all alike."""
    bench = make_workbench(tmp_path)
    pack(tmp_path / "docs.zip", {"a.md": "text a", "b.md": "text b", "c.md": "text c"})
    bench.configure(source=str(tmp_path / "docs.zip"))
    bench.ingest()
    assert bench.scan().unchanged == 3
    pack(tmp_path / "docs.zip", {"a.md": "TEXT a", "sub/b.md": "text b", "c.md": "text c"})
    found = bench.update()
    assert (found.changed, found.added, found.removed, found.unchanged) == (["a.md"], ["sub/b.md"], ["b.md"], 1)
    assert bench.known["sub/b.md"].texts_embedded == 0


def test_a_tar_archive_is_read_too(tmp_path: Path):
    (tmp_path / "a.md").write_text("A")
    with tarfile.open(tmp_path / "docs.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.md", "docs/sub/a.md")
    source = source_of(f"tar://docs::{tmp_path}/docs.tar.gz")
    listing = source.list()
    assert (list(listing.entries), listing.entries["sub/a.md"].revision) == (["sub/a.md"], None)
    assert source.read("sub/a.md").data == b"A"


# Stores that do what a test tells them.


@pytest.fixture
def shelf() -> Iterator[type[Shelf]]:
    fsspec.register_implementation("shelf", Shelf, clobber=True)
    Shelf.files.clear()
    Shelf.failing.clear()
    for name in ("a.md", "sub/b.md", "sub/deep/c.md"):
        Shelf.files[f"docs/{name}"] = (name.encode(), {"mtime": OLD.timestamp()})
    yield Shelf
    Shelf.files.clear()
    Shelf.failing.clear()


def test_a_store_is_listed_folder_by_folder(shelf: type[Shelf]):
    shelf.files["docs/.git/d.md"] = (b"", {})
    shelf.files["documents/e.md"] = (b"", {})
    listing = source_of("shelf://docs").list()
    assert listing.entries == {
        name: Entry(name, len(name), int(OLD.timestamp() * 1e9)) for name in ("a.md", "sub/b.md", "sub/deep/c.md")
    }
    assert source_of("shelf://docs/sub/").read("deep/c.md").uri == "shelf://docs/sub/deep/c.md"


def test_a_folder_that_cannot_be_listed_fails_the_listing(shelf: type[Shelf]):
    """fsspec's own walk takes it for empty, and everything in it would be deleted."""
    shelf.failing["docs/sub/deep"] = PermissionError(13, "Permission denied")
    with pytest.raises(
        SourceError, match=r"cannot be listed: .*Permission denied; check .* environment: FSSPEC_SHELF_OPTION"
    ):
        source_of("shelf://docs").list()


def test_a_hidden_folder_is_not_even_listed(shelf: type[Shelf]):
    shelf.files["docs/.secret/d.md"] = (b"", {})
    shelf.failing["docs/.secret"] = PermissionError(13, "Permission denied")
    assert len(source_of("shelf://docs").list().entries) == 3


def test_what_is_neither_file_nor_folder_is_passed_over_with_a_reason(shelf: type[Shelf]):
    shelf.files["docs/link.md"] = (b"", {"type": "link"})
    shelf.files["docs/link.txt"] = (b"", {"type": "link"})
    listing = source_of("shelf://docs", include=["**/*.md"]).list()
    assert listing.refused == [("link.md", "it is no file but a link, which is not followed in a store")]
    assert "link.md" not in listing.entries


def test_folders_that_contain_themselves_fail_the_listing(shelf: type[Shelf]):
    shelf.files["docs" + "/up" * 200 + "/a.md"] = (b"", {})
    with pytest.raises(SourceError, match="deeper than 100 folders, and may contain itself"):
        source_of("shelf://docs").list()


def test_a_file_that_is_written_while_it_is_read_is_not_taken(shelf: type[Shelf], monkeypatch: pytest.MonkeyPatch):
    real = shelf._open

    def overwrite(self: Shelf, path: str, *_: Any, **__: Any) -> Any:
        opened = real(self, path)
        shelf.files[path] = (b"later", {"mtime": OLD.timestamp() + 5})
        return opened

    monkeypatch.setattr(shelf, "_open", overwrite)
    with pytest.raises(DocumentError, match="it was being written while it was read") as caught:
        source_of("shelf://docs").read("a.md")
    assert caught.value.retryable is True


def test_a_file_that_cannot_be_read_is_the_files_fault_while_the_store_answers(shelf: type[Shelf]):
    shelf.failing["docs/a.md is opened"] = PermissionError(13, "Permission denied")
    with pytest.raises(DocumentError, match=r"it cannot be read: .*Permission denied") as caught:
        source_of("shelf://docs").read("a.md")
    assert caught.value.retryable is True
    shelf.failing["docs"] = TimeoutError("no answer")
    with pytest.raises(SourceError, match="cannot be reached: no answer"):
        source_of("shelf://docs").read("a.md")


def test_a_file_of_unknown_size_is_read_up_to_the_limit(shelf: type[Shelf]):
    shelf.files["docs/a.md"] = (b"AAAA", {"size": None, "etag": "1"})
    assert source_of("shelf://docs", max_bytes=4).read("a.md").entry.bytes == 4
    with pytest.raises(DocumentError, match="it has 4 bytes, more than max_bytes 3"):
        source_of("shelf://docs", max_bytes=3).read("a.md")


def test_a_store_that_tells_neither_time_nor_revision_is_compared_by_content(tmp_path: Path, shelf: type[Shelf]):
    bench = bench_on_shelf(tmp_path)
    shelf.files = {"docs/a.md": (b"A", {})}
    bench.update()
    found = bench.scan()
    assert (found.unchanged, dict(found.touched)) == (1, {})
    shelf.files = {"docs/a.md": (b"B", {})}
    assert bench.scan().changed == ["a.md"]


def test_times_are_not_trusted_while_the_clocks_may_differ(tmp_path: Path, shelf: type[Shelf]):
    """A file server whose clock is five minutes behind: a second edit within the second of the first was never seen."""
    bench = bench_on_shelf(tmp_path)
    behind = (datetime.now(UTC) - timedelta(minutes=5)).timestamp()
    shelf.files = {"docs/a.md": (b"A", {"mtime": behind})}
    bench.update()
    shelf.files = {"docs/a.md": (b"B", {"mtime": behind})}
    assert bench.update().changed == ["a.md"]
    shelf.files = {"docs/a.md": (b"B", {"mtime": OLD.timestamp()})}
    bench.update()
    shelf.failing["docs/a.md is opened"] = AssertionError("it was read")
    assert bench.scan().unchanged == 1


def test_a_corpus_that_moves_to_a_store_with_revisions_is_read_once(tmp_path: Path, shelf: type[Shelf]):
    bench = bench_on_shelf(tmp_path)
    shelf.files = {"docs/a.md": (b"A", {"mtime": OLD.timestamp()})}
    bench.ingest()
    shelf.files = {"docs/a.md": (b"A", {"mtime": OLD.timestamp() + 9, "etag": "1"})}
    assert list(bench.scan().touched) == ["a.md"]
    shelf.files = {"docs/a.md": (b"A", {"mtime": OLD.timestamp() + 99, "etag": "1"})}
    shelf.failing["docs/a.md is opened"] = AssertionError("it was read")
    assert bench.scan().unchanged == 1


def bench_on_shelf(tmp_path: Path) -> Workbench:
    bench = make_workbench(tmp_path)
    bench.configure(source="shelf://docs")
    return bench


def test_options_reach_the_client_and_so_does_what_the_environment_holds(
    shelf: type[Shelf], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules["fsspec.config"].conf, "shelf", {"password": "p"})
    source_of("shelf://docs", source_options={"host": "h", "port": 7}).list()
    assert {key: shelf.given[key] for key in ("host", "port", "password")} == {"host": "h", "port": 7, "password": "p"}


def test_a_package_that_is_missing_is_told_with_what_fsspec_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(
        SourceError, match=r"source sftp://host/x needs a package that is not installed \(.*paramiko.*\); install it"
    ):
        source_of("sftp://host/x").list()


# What stores tell of a file, in the words of their clients.


@pytest.mark.parametrize(
    ("told", "modified", "revision"),
    [
        ({"ETag": '"abc"', "LastModified": OLD}, OLD, "etag:abc"),
        ({"etag": "CLi=", "md5Hash": "q2==", "updated": "2026-01-01T00:00:00.000Z"}, OLD, "md5hash:q2=="),
        ({"etag": "0x8D", "last_modified": OLD}, OLD, "etag:0x8D"),
        ({"sha": "ce0136", "mode": "100644"}, None, "sha:ce0136"),
        ({"CRC": 255, "date_time": (2026, 1, 1, 0, 0, 0)}, None, "crc:000000ff:3"),
        ({"mtime": OLD.timestamp()}, OLD, None),
        ({"mtime": OLD.replace(tzinfo=None)}, OLD, None),
        ({"modify": "20260101000000"}, OLD.replace(tzinfo=None), None),
        ({"mtime": 0, "etag": ""}, None, None),
        ({"mtime": "yesterday"}, None, None),
    ],
)
def test_time_and_revision_are_found_in_what_a_client_tells(
    told: dict[str, Any], modified: datetime | None, revision: str | None
):
    entry = describe("a.md", {"size": 3, **told})
    expected = int(modified.replace(tzinfo=UTC).timestamp() * 1e9) if modified else None
    assert (entry.bytes, entry.modified_ns, entry.revision) == (3, expected, revision)


def test_options_are_spelled_as_each_client_knows_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    fresh = {"skip_instance_cache": True}
    assert storage_options("s3://b/p", {"region": "eu", "anon": True}) == {
        "s3": {**fresh, "max_concurrency": 1, "client_kwargs": {"region_name": "eu"}, "anon": True}
    }
    assert storage_options("gs://b/p", {"anon": True, "project": "x"}) == {
        "gs": {**fresh, "token": "anon", "project": "x"}
    }
    assert storage_options("abfs://c/p", {"account_name": "x"}) == {"abfs": {**fresh, "account_name": "x"}}
    assert storage_options("zip://::s3://b/a.zip", {"endpoint_url": "u", "zip": {"x": 1}}) == {
        "zip": {**fresh, "x": 1},
        "s3": {**fresh, "max_concurrency": 1, "endpoint_url": "u"},
    }
    assert storage_options("zip://::/a.zip", {}) == {"zip": fresh, "file": fresh}
    monkeypatch.setenv("GITHUB_TOKEN", "t")
    assert storage_options("github://o:r@main/", {})["github"]["token"] == "t"


def test_every_scheme_that_we_know_is_one_that_fsspec_knows():
    by_its_client = {"abfss"}  # adlfs brings the name along, and may not be installed
    assert set(SCHEMES) - by_its_client <= set(fsspec.available_protocols())


# A repository, from a server on loopback that speaks GitHub's API.


class Repository:
    """A tree of files at `main`, as GitHub's API shows it."""

    def __init__(self, site: Website) -> None:
        self.site = site

    def commit(self, files: Mapping[str, str]) -> None:
        self.site.pages.clear()
        for folder in {"", *(parent for name in files for parent in _parents(name))}:
            self._tree(folder, files)
        for name, content in files.items():
            self.site.pages |= {}
            body = {"content": base64.b64encode(content.encode()).decode(), "download_url": None}
            self.site.put(f"/contents/{_quoted(name)}?ref=main", json.dumps(body))

    def _tree(self, folder: str, files: Mapping[str, str]) -> None:
        entries: dict[str, dict[str, Any]] = {}
        for name, content in files.items():
            if folder and not name.startswith(f"{folder}/"):
                continue
            part, *rest = name.removeprefix(f"{folder}/" if folder else "").split("/")
            path = f"{folder}/{part}".strip("/")
            if rest:
                entries[part] = {"path": part, "type": "tree", "mode": "040000", "sha": _sha(f"tree {path}")}
            else:
                size = len(content.encode())
                entries[part] = {"path": part, "type": "blob", "mode": "100644", "sha": _sha(content), "size": size}
        sha = _sha(f"tree {folder}") if folder else "main"
        self.site.put(f"/trees/{sha}", json.dumps({"sha": sha, "tree": list(entries.values())}))


def _sha(content: str) -> str:
    return hashlib.sha1(content.encode()).hexdigest()


def _parents(name: str) -> list[str]:
    return [str(parent) for parent in Path(name).parents if str(parent) != "."]


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name)


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    github = pytest.importorskip("fsspec.implementations.github", reason="needs requests")
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with Website() as site:
        monkeypatch.setattr(github.GithubFileSystem, "url", f"{site.url}/trees/{{sha}}")
        monkeypatch.setattr(github.GithubFileSystem, "content_url", f"{site.url}/contents/{{path}}?ref={{sha}}")
        yield Repository(site)


def test_a_repository_is_followed_by_the_hashes_of_its_files(repository: Repository, tmp_path: Path):
    repository.commit({"docs/a.md": "text a", "docs/sub/100% #1?.md": "text b", "README.md": "no"})
    bench = make_workbench(tmp_path)
    bench.configure(source="github://someone:notes@main/docs")
    bench.ingest()
    assert sorted(bench.known) == ["a.md", "sub/100% #1?.md"]
    assert bench.known["a.md"].revision == f"sha:{_sha('text a')}"
    assert bench.texts("text") == ["text a", "text b"]
    assert bench.scan().unchanged == 2
    repository.commit({"docs/a.md": "TEXT a", "docs/moved.md": "text b"})
    found = bench.update()
    assert (found.changed, found.added, found.removed) == (["a.md"], ["moved.md"], ["sub/100% #1?.md"])
    assert bench.known["moved.md"].texts_embedded == 0


def test_a_repository_that_cannot_be_seen_fails_the_listing_with_the_variable_to_set(repository: Repository):
    with pytest.raises(SourceError, match="does not exist"):
        source_of("github://someone:notes@main/docs").list()
    repository.site.put("/trees/main", "{}", status=403)
    with pytest.raises(SourceError, match=r"403 .*credentials in the environment: GITHUB_TOKEN"):
        source_of("github://someone:notes@main/docs").list()


def test_a_listing_says_how_far_its_clock_may_be_off(tmp_path: Path):
    assert source_of(tmp_path).list().clock_tolerance == timedelta(0)
    pack(tmp_path / "docs.zip", {"a.md": "A"})
    assert source_of(tmp_path / "docs.zip").list().clock_tolerance == timedelta(minutes=10)
    assert Listing({}).clock_tolerance == timedelta(0)
