"""Where the documents of a corpus are: a listing, and bytes by name. No text is made here.

A listing that fails raises `SourceError`; it is never an empty listing. Names are POSIX paths below the corpus root.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from fsspec.utils import glob_translate

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError, SourceError


@dataclass(frozen=True)
class Entry:
    """One file of a listing: its size in bytes and when it was last modified, in nanoseconds since the epoch."""

    document: str
    bytes: int
    modified_ns: int


@dataclass(frozen=True)
class Listing:
    """All documents of a corpus by name, and what was seen but cannot be a document: (name, reason)."""

    entries: dict[str, Entry]
    refused: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class SourceFile:
    """The bytes of one document, all of one moment: not before `read_at`."""

    entry: Entry
    data: bytes
    uri: str
    read_at: datetime


class Source(Protocol):
    """A set of documents that can be listed and read."""

    def list(self) -> Listing:
        """Every document now. Raises `SourceError` when the listing is not whole."""
        ...

    def read(self, document: str) -> SourceFile:
        """The bytes of `document`. Raises `DocumentError` when it is gone, unreadable or being written."""
        ...


def open_source(corpus: CorpusSettings) -> Source:
    """The source of `corpus`."""
    scheme, separator, _ = corpus.source.partition("://")
    if separator and scheme != "file":
        raise SourceError(
            f"corpus {corpus.name}: source {corpus.source!r} has the scheme {scheme!r}; allowed: a folder on this machine"
        )
    return FolderSource(
        name=corpus.name,
        root=Path(corpus.source.removeprefix("file://")),
        include=corpus.include,
        exclude=corpus.exclude,
    )


class FolderSource:
    """A folder on this machine. Hidden files and folders are passed over; links to files are followed, to folders not."""

    def __init__(self, *, name: str, root: Path, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._name = name
        self._root = root
        self._include = _matcher(include)
        self._exclude = _matcher(exclude)

    def list(self) -> Listing:
        """See `Source.list`."""
        entries: dict[str, Entry] = {}
        refused: list[tuple[str, str]] = []
        if not self._root.is_dir():
            what = "is not a folder" if self._root.exists() else "does not exist"
            raise SourceError(
                f"corpus {self._name}: its folder {self._root} {what}; create it, or correct"
                f" corpora.{self._name}.source. Nothing that is indexed was touched"
            )
        try:
            for name, entry in self._walk(self._root, ""):
                if isinstance(entry, str):
                    refused.append((name, entry))
                else:
                    entries[name] = entry
        except (OSError, RecursionError) as error:
            raise SourceError(
                f"corpus {self._name}: its folder cannot be listed: {error}. Nothing that is indexed was touched"
            ) from error
        return Listing(entries=entries, refused=refused)

    def read(self, document: str) -> SourceFile:
        """See `Source.read`."""
        if "\0" in document or any(not part or part.startswith(".") for part in document.split("/")):
            raise DocumentError(
                "its name is not a path below the folder of the corpus, or a hidden one; it is not read"
            )
        path = self._root / document
        read_at = datetime.now(UTC)
        try:
            before = path.stat()
            data = path.read_bytes()
            after = path.stat()
        except FileNotFoundError:
            raise DocumentError(
                "it is gone: it vanished after it was listed; the next scan removes it", retryable=True
            ) from None
        except OSError as error:
            raise DocumentError(
                f"it cannot be read: {error.strerror or error}; check its permissions", retryable=True
            ) from None
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(data) != after.st_size:
            raise DocumentError(
                "it was being written while it was read; it is read again once it rests", retryable=True
            )
        return SourceFile(
            entry=Entry(document=document, bytes=after.st_size, modified_ns=after.st_mtime_ns),
            data=data,
            uri=path.as_uri(),
            read_at=read_at,
        )

    def _walk(self, folder: Path, prefix: str) -> Iterator[tuple[str, Entry | str]]:
        with os.scandir(folder) as found:
            for item in sorted(found, key=lambda item: item.name):
                if item.name.startswith("."):
                    continue
                name = prefix + item.name
                if item.is_dir(follow_symlinks=False):
                    yield from self._walk(Path(item.path), f"{name}/")
                elif self._wanted(name):
                    yield from _entry(name, item)

    def _wanted(self, name: str) -> bool:
        return bool(self._include.match(name)) and not self._exclude.match(name)


def _entry(name: str, item: "os.DirEntry[str]") -> Iterator[tuple[str, Entry | str]]:
    try:
        name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        yield shown, "its name is not valid UTF-8; rename it"
        return
    try:
        stat = item.stat()
    except FileNotFoundError:  # it vanished while the folder was read, or is a link to nowhere
        return
    except OSError as error:  # a link in a circle, for one
        yield name, f"it cannot be looked at: {error.strerror}"
        return
    if item.is_file():
        yield name, Entry(document=name, bytes=stat.st_size, modified_ns=stat.st_mtime_ns)


def _matcher(globs: Sequence[str]) -> re.Pattern[str]:
    """One pattern for all globs, none of which match nothing: `**` spans folders, and case is ignored, as in `.MD`."""
    try:
        patterns = [glob_translate(glob) for glob in globs]
    except ValueError as error:
        raise SourceError(
            f"include or exclude of the corpus holds what is no glob: {error}: {', '.join(globs)}"
        ) from None
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)", re.IGNORECASE)
