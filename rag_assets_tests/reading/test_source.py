import os
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError, SourceError
from rag_assets.reading.source import open_source
from rag_assets.reading.sources.folder import FolderSource
from rag_assets_tests.workbench import make_workbench


def source_of(root: Path, *, include: Sequence[str] = ("**/*.md",), exclude: Sequence[str] = ()) -> FolderSource:
    return FolderSource(name="notes", root=root, include=include, exclude=exclude)


def names_in(root: Path, *, include: Sequence[str] = ("**/*.md",), exclude: Sequence[str] = ()) -> list[str]:
    return list(source_of(root, include=include, exclude=exclude).list().entries)


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def test_files_are_named_by_their_path_below_the_root_and_come_in_order(tmp_path: Path):
    write(tmp_path, "b.md", "a/z.md", "a/b/c.md", "c.rst")
    assert names_in(tmp_path) == ["a/b/c.md", "a/z.md", "b.md"]


def test_an_entry_has_the_size_and_the_time_of_its_file(tmp_path: Path):
    write(tmp_path, "a.md")
    os.utime(tmp_path / "a.md", ns=(5, 1_700_000_000_123_456_789))
    entry = source_of(tmp_path).list().entries["a.md"]
    assert (entry.document, entry.bytes, entry.modified_ns) == ("a.md", 4, 1_700_000_000_123_456_789)


def test_hidden_files_and_folders_are_passed_over(tmp_path: Path):
    write(tmp_path, ".hidden.md", ".git/a.md", "a/.b/c.md", "seen.md")
    assert names_in(tmp_path) == ["seen.md"]


def test_endings_match_in_either_case(tmp_path: Path):
    write(tmp_path, "a.MD", "b.Md", "c.md")
    assert names_in(tmp_path) == ["a.MD", "b.Md", "c.md"]


def test_names_that_differ_in_case_or_normal_form_are_documents_of_their_own(tmp_path: Path):
    names = ["A.md", "a.md", unicodedata.normalize("NFC", "café.md"), unicodedata.normalize("NFD", "café.md")]
    write(tmp_path, *names)
    assert sorted(names_in(tmp_path)) == sorted(names)


@pytest.mark.parametrize(
    "name", ["new\nline.md", "it's.md", "back\\slash.md", "[x].md", "sp ace.md", "e" * 247 + ".md"]
)
def test_a_hostile_name_is_listed_and_read_back(tmp_path: Path, name: str):
    write(tmp_path, name)
    assert names_in(tmp_path) == [name]
    assert source_of(tmp_path).read(name).data == name.encode()


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["**/*.md"], ["drafts/**"], ["a.md", "deep/drafts/c.md", "deep/e.md"]),
        (["**/*.md"], ["**/drafts/**"], ["a.md", "deep/e.md"]),
        (["*.md"], [], ["a.md"]),
        (["deep/*.md"], [], ["deep/e.md"]),
        (["**/[ab].md"], [], ["a.md", "drafts/b.md"]),
        (["**/*"], ["**/*.md"], ["d.txt"]),
        (["a.md", "d.txt"], [], ["a.md", "d.txt"]),
        (["**/*.md"], ["**/*.MD"], []),
        ([], [], []),
    ],
)
def test_globs_say_what_belongs_to_the_corpus(
    tmp_path: Path, include: list[str], exclude: list[str], expected: list[str]
):
    write(tmp_path, "a.md", "drafts/b.md", "deep/drafts/c.md", "d.txt", "deep/e.md")
    assert names_in(tmp_path, include=include, exclude=exclude) == expected


def test_what_is_no_glob_is_told(tmp_path: Path):
    with pytest.raises(SourceError, match=r"include or exclude .* holds what is no glob: .*: docs\*\*\.md"):
        source_of(tmp_path, include=["docs**.md"])


def test_links_to_files_are_followed_and_links_to_folders_are_not(tmp_path: Path):
    root = tmp_path / "root"
    write(tmp_path, "outside/real.md", "root/own.md")
    (root / "file-link.md").symlink_to(tmp_path / "outside/real.md")
    (root / "folder-link").symlink_to(tmp_path / "outside")
    (root / "folder-link.md").symlink_to(tmp_path / "outside")
    assert names_in(root) == ["file-link.md", "own.md"]
    assert source_of(root).read("file-link.md").data == b"outside/real.md"


def test_links_in_a_circle_are_refused_with_a_reason_and_the_rest_is_listed(tmp_path: Path):
    write(tmp_path, "ok.md")
    (tmp_path / "a.md").symlink_to(tmp_path / "b.md")
    (tmp_path / "b.md").symlink_to(tmp_path / "a.md")
    (tmp_path / "up").symlink_to(tmp_path)
    listing = source_of(tmp_path).list()
    assert list(listing.entries) == ["ok.md"]
    assert [name for name, _ in listing.refused] == ["a.md", "b.md"]
    assert listing.refused[0][1].startswith("it cannot be looked at: Too many levels of symbolic links")


def test_a_link_to_nowhere_is_no_document(tmp_path: Path):
    (tmp_path / "a.md").symlink_to(tmp_path / "gone.md")
    assert source_of(tmp_path).list().entries == {}


def test_pipes_are_no_documents_and_are_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.md")
    assert names_in(tmp_path) == []


def test_a_name_that_is_not_utf_8_is_refused_with_a_reason(tmp_path: Path):
    write(tmp_path, "ok.md")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).write_text("x")
    listing = source_of(tmp_path).list()
    assert list(listing.entries) == ["ok.md"]
    assert listing.refused == [("caf\\xe9.md", "its name is not valid UTF-8; rename it")]


def test_a_missing_root_is_an_error_and_not_an_empty_listing(tmp_path: Path):
    with pytest.raises(
        SourceError, match=r"corpus notes: its folder .*gone does not exist; create it, or correct corpora\.notes"
    ):
        source_of(tmp_path / "gone").list()


def test_a_root_that_is_a_file_is_an_error(tmp_path: Path):
    write(tmp_path, "a.md")
    with pytest.raises(SourceError, match=r"a\.md is not a folder"):
        source_of(tmp_path / "a.md").list()


def test_an_empty_root_is_an_empty_listing(tmp_path: Path):
    assert source_of(tmp_path).list().entries == {}


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of folders that nobody may look into; root may look into all."""
    names: set[str] = set()
    real = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name in names:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("rag_assets.reading.sources.folder.os.scandir", refuse)
    return names


def test_a_folder_that_cannot_be_looked_into_is_told_and_the_others_are_read(tmp_path: Path, locked: set[str]):
    """One such folder stopped the whole corpus."""
    write(tmp_path, "a.md", "locked/b.md", "z/c.md")
    locked.add("locked")
    found = source_of(tmp_path).list()
    assert list(found.entries) == ["a.md", "z/c.md"]
    assert found.refused == [
        ("locked/", "it cannot be looked into: Permission denied; what is known of it is kept"),
    ]


def test_a_root_that_cannot_be_looked_into_fails_the_listing(tmp_path: Path, locked: set[str]):
    write(tmp_path, "a.md")
    locked.add(tmp_path.name)
    with pytest.raises(
        SourceError, match=r"cannot be listed: .*Permission denied.*Nothing that is indexed was touched"
    ):
        source_of(tmp_path).list()


def test_documents_below_a_folder_that_cannot_be_looked_into_are_not_removed(tmp_path: Path, locked: set[str]):
    bench = make_workbench(tmp_path)
    for name in ("a.md", "gone.md", "locked/b.md", "lockedout.md"):
        bench.write(name, "Words.")
    bench.ingest()
    locked.add("locked")
    (bench.folder / "gone.md").unlink()
    (bench.folder / "lockedout.md").unlink()
    assert bench.scan().removed == ["gone.md", "lockedout.md"]
    locked.clear()
    (bench.folder / "locked/b.md").unlink()
    assert bench.scan().removed == ["gone.md", "locked/b.md", "lockedout.md"]


def test_an_excluded_folder_is_not_looked_into(tmp_path: Path, locked: set[str]):
    write(tmp_path, "a.md", "locked/b.md", "x/locked/c.md", "lockedout/d.md")
    locked.add("locked")
    found = source_of(tmp_path, exclude=["**/locked/**"]).list()
    assert (list(found.entries), found.refused) == (["a.md", "lockedout/d.md"], [])


def test_a_folder_that_may_contain_itself_is_passed_over(tmp_path: Path):
    """It was a RecursionError with a page of traceback."""
    write(tmp_path, "a.md")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    found = source_of(tmp_path).list()
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)  # pytest cannot: it stumbles over the depth as well
    assert list(found.entries) == ["a.md"]
    assert found.refused == [
        ("d/" * 101, "it is deeper than 100 folders, and may contain itself; exclude it by what is above it")
    ]


def test_a_file_is_read_with_its_entry_and_its_address(tmp_path: Path):
    write(tmp_path, "sub dir/ä.md")
    before = datetime.now(UTC)
    file = source_of(tmp_path).read("sub dir/ä.md")
    assert file.data == "sub dir/ä.md".encode()
    assert file.entry == source_of(tmp_path).list().entries["sub dir/ä.md"]
    assert file.uri == f"{tmp_path.as_uri()}/sub%20dir/%C3%A4.md"
    assert before <= file.read_at <= datetime.now(UTC)


def test_a_file_that_vanished_says_so_and_may_come_back(tmp_path: Path):
    with pytest.raises(DocumentError, match="it is gone: it vanished after it was listed") as caught:
        source_of(tmp_path).read("gone.md")
    assert caught.value.retryable is True


def test_a_file_that_cannot_be_read_says_so_and_may_be_mended(tmp_path: Path):
    (tmp_path / "a.md").mkdir()
    with pytest.raises(DocumentError, match="it cannot be read: Is a directory; check its permissions") as caught:
        source_of(tmp_path).read("a.md")
    assert caught.value.retryable is True


def test_a_file_that_is_written_while_it_is_read_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "a.md")
    real = Path.read_bytes

    def grow(path: Path) -> bytes:
        data = real(path)
        with path.open("ab") as file:
            file.write(b"more")
        return data

    monkeypatch.setattr(Path, "read_bytes", grow)
    with pytest.raises(DocumentError, match="it was being written while it was read") as caught:
        source_of(tmp_path).read("a.md")
    assert caught.value.retryable is True


@pytest.mark.timeout(60)
def test_a_file_that_is_rewritten_all_the_time_is_read_whole_or_not_at_all(tmp_path: Path):
    """The writer replaces the file by renaming, which is how careful programs write."""
    contents = [bytes([letter]) * 50_000 for letter in b"ab"]
    (tmp_path / "a.md").write_bytes(contents[0])
    ended = threading.Event()

    def write_on() -> None:
        number = 0
        while not ended.is_set():
            (tmp_path / "next").write_bytes(contents[number % 2])
            (tmp_path / "next").replace(tmp_path / "a.md")
            number += 1

    writer = threading.Thread(target=write_on)
    writer.start()
    read = []
    for _ in range(100):
        try:
            read.append(source_of(tmp_path).read("a.md").data)
        except DocumentError:
            continue
    ended.set()
    writer.join()
    assert set(read) <= set(contents)


@pytest.mark.parametrize(
    "name", ["../secret.md", "a/../../secret.md", "/etc/hostname", "", "a//b.md", ".hidden.md", "a\0.md"]
)
def test_nothing_outside_the_folder_is_read_whatever_the_partition_is_called(tmp_path: Path, name: str):
    """Anyone can add a partition key in Dagster's UI: `../secret.md` was read, indexed and cited."""
    write(tmp_path, "secret.md", "root/a/b.md", "root/.hidden.md")
    with pytest.raises(DocumentError, match="not a path below the folder of the corpus, or a hidden one"):
        source_of(tmp_path / "root").read(name)


@pytest.mark.parametrize("name", ["private/salaries.md", "a.txt"])
def test_what_include_and_exclude_leave_out_is_not_read_whatever_the_partition_is_called(tmp_path: Path, name: str):
    """An excluded file whose path was typed as a partition key was read, indexed and cited."""
    write(tmp_path, "private/salaries.md", "a.txt")
    with pytest.raises(DocumentError, match="include or exclude of the corpus leaves its name out; it is not read"):
        source_of(tmp_path, exclude=["private/**"]).read(name)


def test_nothing_below_a_link_to_a_folder_is_read_though_the_root_may_be_one(tmp_path: Path):
    write(tmp_path, "outside/sub/secret.md", "real/a.md", "real/sub/b.md")
    (tmp_path / "real/link").symlink_to(tmp_path / "outside")
    (tmp_path / "root").symlink_to(tmp_path / "real")
    source = source_of(tmp_path / "root")
    assert list(source.list().entries) == ["a.md", "sub/b.md"]
    assert source.read("sub/b.md").data == b"real/sub/b.md"
    with pytest.raises(DocumentError, match="its folder link is a link, and those are not followed; it is not read"):
        source.read("link/sub/secret.md")


def test_a_source_is_opened_by_what_the_settings_say(tmp_path: Path):
    write(tmp_path, "a.md", "b.txt", "skip/c.md")
    for spelled in (str(tmp_path), f"file://{tmp_path}"):
        source = open_source(CorpusSettings(name="notes", source=spelled, exclude=["skip/**"]))
        assert list(source.list().entries) == ["a.md", "b.txt"]


def test_a_scheme_that_nothing_reads_is_told_with_those_that_are():
    with pytest.raises(
        SourceError, match=r"source 'gopher://host/x' has the scheme 'gopher'; allowed: a folder .*, s3, "
    ):
        open_source(CorpusSettings(name="notes", source="gopher://host/x"))


def test_a_file_that_is_larger_than_a_document_may_be_is_not_read(tmp_path: Path):
    write(tmp_path, "a.md")
    source = open_source(CorpusSettings(name="notes", source=str(tmp_path), max_bytes=3))
    with pytest.raises(DocumentError, match=r"it has 4 bytes, more than max_bytes 3 allows; raise max_bytes") as caught:
        source.read("a.md")
    assert caught.value.retryable is False


def test_questions_are_answered_without_fsspec(tmp_path: Path):
    """It takes a quarter of a second to import, and a question opens no source."""
    bench = make_workbench(tmp_path)
    bench.write("a.md", "Cats sleep all day.")
    bench.ingest()
    settings = {"source": "corpus", "include": ["**/*.md"], "embedding": {"provider": "hashing", "dimensions": 64}}
    (tmp_path / "corpora.yaml").write_text(yaml.safe_dump({"corpora": {"notes": settings}}))
    code = (
        "import sys; from rag_assets import cli\n"
        "for command in ('search', 'ask'):\n"
        "    sys.argv = ['rag-assets', command, 'cats', '--json']\n"
        "    try: cli.main()\n"
        "    except SystemExit as end: assert not end.code, end\n"
        "assert not {'fsspec', 's3fs', 'httpx2'} & set(sys.modules), sorted(sys.modules)"
    )
    environment = {"RAG_ASSETS_CONFIG": str(tmp_path / "corpora.yaml"), "RAG_ASSETS_HOME": bench.store.home}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, check=True)


def test_a_folder_is_read_without_fsspec():
    """Importing fsspec takes as long as listing some thousand files."""
    code = (
        "import sys; from rag_assets.config import CorpusSettings; from rag_assets.reading.source import open_source;"
        "open_source(CorpusSettings(name='notes', source='.')).list(); assert 'fsspec' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
