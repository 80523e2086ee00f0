"""A folder on this machine, walked by the operating system's own calls: other stores go through `filesystem.py`."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from rag_assets.config import MAX_BYTES
from rag_assets.errors import DocumentError, SourceError
from rag_assets.reading.source import Entry, Listing, SourceFile
from rag_assets.reading.sources.naming import DEEPEST, TOO_DEEP, check_name, too_large, wanted


class FolderSource:
    """A folder on this machine. Hidden files and folders are passed over; links to files are followed, to folders not."""

    def __init__(
        self, *, name: str, root: Path, include: Sequence[str], exclude: Sequence[str], max_bytes: int = MAX_BYTES
    ) -> None:
        self._name = name
        self._root = root
        self._wanted = wanted(include, exclude)
        self._max_bytes = max_bytes

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
        for name, entry in self._walk(self._root, "", 0):
            if isinstance(entry, str):
                refused.append((name, entry))
            else:
                entries[name] = entry
        return Listing(entries=entries, refused=refused)

    def read(self, document: str) -> SourceFile:
        """See `Source.read`."""
        check_name(document, self._wanted)
        path = self._root / document
        read_at = datetime.now(UTC)
        try:
            self._check_folders(document)
            before = path.stat()
            if before.st_size > self._max_bytes:
                raise too_large(before.st_size, self._max_bytes)
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

    def _check_folders(self, document: str) -> None:
        """Raise `DocumentError` where `document` is below a link: `list` looks into none."""
        for folder in PurePosixPath(document).parents[:-1]:
            if (self._root / folder).is_symlink():
                raise DocumentError(f"its folder {folder} is a link, and those are not followed; it is not read")

    def _walk(self, folder: str | Path, prefix: str, depth: int) -> Iterator[tuple[str, Entry | str]]:
        """What is below `folder`. One of its folders that cannot be looked into is refused; the others are."""
        try:
            with os.scandir(folder) as found:
                items = sorted(found, key=lambda item: item.name)
        except FileNotFoundError:
            if prefix:  # it vanished while the folder above was read
                return
            raise self._unlisted("it is gone") from None
        except OSError as error:
            if not prefix:
                raise self._unlisted(str(error)) from error
            yield _shown(prefix), f"it cannot be looked into: {error.strerror or error}; what is known of it is kept"
            return
        for item in items:
            if item.name.startswith("."):
                continue
            name = prefix + item.name
            if not item.is_dir(follow_symlinks=False):
                if name in self._wanted:
                    yield from _entry(name, item)
            elif self._wanted.has_room_in(name):
                if depth == DEEPEST:
                    yield _shown(f"{name}/"), TOO_DEEP
                else:
                    yield from self._walk(item.path, f"{name}/", depth + 1)

    def _unlisted(self, reason: str) -> SourceError:
        return SourceError(
            f"corpus {self._name}: its folder cannot be listed: {reason}; check its permissions. Nothing that is indexed"
            " was touched"
        )


def _entry(name: str, item: "os.DirEntry[str]") -> Iterator[tuple[str, Entry | str]]:
    try:
        name.encode()
    except UnicodeEncodeError:
        yield _shown(name), "its name is not valid UTF-8; rename it"
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


def _shown(name: str) -> str:
    """`name` as it can be printed, whatever its bytes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
