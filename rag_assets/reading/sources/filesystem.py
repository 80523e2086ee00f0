"""Any store that fsspec knows: buckets, archives, repositories, file servers.

What a store tells of a file is `describing.py`; how its addresses and credentials are spelled is `schemes.py`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError, RagAssetsError, SourceError
from rag_assets.reading.source import Entry, Listing, SourceFile
from rag_assets.reading.sources.describing import describe
from rag_assets.reading.sources.naming import DEEPEST, TOO_DEEP, check_name, is_hidden, too_large, wanted
from rag_assets.reading.sources.options import storage_options
from rag_assets.reading.sources.plugins import plugin_schemes
from rag_assets.reading.sources.schemes import SCHEMES, Scheme, credentials_of, scheme_of

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

# Where a store offers no revision, its times are believed only so long after the fact: its clock may differ from ours.
_CLOCK_TOLERANCE = timedelta(minutes=10)
# A store may read a file this large in several pieces, so it is looked at again after reading.
_IN_ONE_PIECE = 5_000_000
_REFUSED = re.compile(r"credential|forbidden|unauthori[sz]ed|access ?denied|\b40[13]\b", re.IGNORECASE)
_UNTOUCHED = "Nothing that is indexed was touched"


def open_filesystem(corpus: CorpusSettings, address: str) -> "FilesystemSource":
    """The source at `address`, which fsspec must know. Raises `SourceError` for a scheme that nothing reads."""
    import fsspec

    scheme = scheme_of(address)
    if scheme not in {*fsspec.available_protocols(), *fsspec.registry}:
        schemes = ", ".join(sorted({*SCHEMES, *plugin_schemes()}))
        raise SourceError(
            f"corpus {corpus.name}: source {corpus.source!r} has the scheme {scheme!r}; allowed: a folder on this machine,"
            f" the schemes {schemes}, and others that fsspec knows"
        )
    return FilesystemSource(corpus, address)


class FilesystemSource:
    """The files below `address`. Hidden ones are passed over, as in a folder. The store is reached when it is first
    needed, and anew for each listing, so that nothing that a client has cached is taken for what is there."""

    def __init__(self, corpus: CorpusSettings, address: str) -> None:
        self._corpus = corpus
        self._address = address
        self._scheme = SCHEMES.get(scheme_of(address), Scheme())
        # Of a chain such as zip://docs::s3://bucket/a.zip, the part where the bytes are.
        self._store = scheme_of(address.rpartition("::")[2])
        self._wanted = wanted(corpus.include, corpus.exclude)
        self._opened: tuple[AbstractFileSystem, str] | None = None

    def list(self) -> Listing:
        """See `Source.list`."""
        entries: dict[str, Entry] = {}
        refused: list[tuple[str, str]] = []
        with self._told("cannot be listed"):
            self._opened = None
            files, root = self._open()
            for info in sorted(self._files(files, root), key=lambda info: str(info["name"])):
                name = _below(root, str(info["name"]))
                if is_hidden(name) or name not in self._wanted:
                    continue
                reason = self._refusal(name, info)
                if reason:
                    refused.append((name, reason))
                else:
                    entries[name] = describe(name, info)
        return Listing(entries=entries, refused=refused, clock_tolerance=_CLOCK_TOLERANCE)

    def read(self, document: str) -> SourceFile:
        """See `Source.read`."""
        check_name(document, self._wanted)
        with self._told("cannot be opened"):
            files, root = self._open()
        read_at = datetime.now(UTC)
        try:
            entry, data = self._read(files, f"{root}/{document}" if root else document, document)
        except RagAssetsError:
            raise
        except FileNotFoundError:
            with self._told("cannot be reached"):
                self._check_root(files, root)
            raise DocumentError(
                "it is gone: it vanished after it was listed; the next scan removes it", retryable=True
            ) from None
        except Exception as error:  # whatever the client of a store raises
            with self._told("cannot be reached"):
                self._check_root(files, root)
            raise DocumentError(f"it cannot be read: {_said(error)}; check its permissions", retryable=True) from error
        return SourceFile(entry=entry, data=data, uri=self._uri(document), read_at=read_at)

    def _read(self, files: "AbstractFileSystem", path: str, document: str) -> tuple[Entry, bytes]:
        limit = self._corpus.max_bytes
        before = describe(document, files.info(path))
        if before.bytes is not None and before.bytes > limit:
            raise too_large(before.bytes, limit)
        # Its API takes paths as they stand in an address.
        spelled = quote(path) if self._scheme is SCHEMES["github"] else path
        if before.bytes is None:
            with files.open(spelled, "rb") as file:
                data = bytes(file.read(limit + 1))
        else:
            data = bytes(files.cat_file(spelled))
        if len(data) > limit:
            raise too_large(len(data), limit)
        if before.revision is None or len(data) > _IN_ONE_PIECE:
            files.invalidate_cache()
            after = describe(document, files.info(path))
            if after != before or after.bytes not in (None, len(data)):
                raise DocumentError(
                    "it was being written while it was read; it is read again once it rests", retryable=True
                )
        return Entry(document, len(data), before.modified_ns, before.revision), data

    def _open(self) -> "tuple[AbstractFileSystem, str]":
        if self._opened is None:
            from fsspec.core import url_to_fs

            files, root = url_to_fs(self._address, **storage_options(self._address, self._corpus.source_options))
            self._opened = files, str(root).rstrip("/")
        return self._opened

    def _files(self, files: "AbstractFileSystem", root: str) -> Sequence[Mapping[str, Any]]:
        """What the store tells of each file below `root`. Folders that are only a name ending in a slash are none."""
        if self._scheme.whole:
            below = files.find(root, detail=True)
            seen = iter(below.values()) if isinstance(below, dict) else map(files.info, below)
        else:
            seen = self._walk(files, root)
        found = [info for info in seen if info["type"] != "directory" and not str(info["name"]).endswith("/")]
        if any(str(info["name"]).strip("/") == root.strip("/") for info in found):
            raise NotADirectoryError(root)
        if not found:
            self._check_root(files, root)
        return found

    def _walk(self, files: "AbstractFileSystem", root: str) -> Iterator[Mapping[str, Any]]:
        """Everything below `root`, folder by folder. fsspec's own walk passes over folders that it cannot list."""
        waiting = [(root, 0)]
        while waiting:
            folder, depth = waiting.pop()
            if depth > DEEPEST:
                raise RecursionError(f"{folder}: {TOO_DEEP}")
            for info in files.ls(folder, detail=True):
                path = str(info["name"]).rstrip("/")
                if info["type"] != "directory":
                    yield info
                elif path != folder.rstrip("/") and self._wanted.has_room_in(_below(root, path)):
                    waiting.append((path, depth + 1))

    def _check_root(self, files: "AbstractFileSystem", root: str) -> None:
        """Raise what the client raises when the root cannot be seen. A bucket has no folders: a prefix without objects is
        an empty one, but its bucket must exist."""
        files.invalidate_cache()
        if root:
            files.info(root if self._scheme.folders else root.partition("/")[0])
        else:
            files.ls(root)

    def _refusal(self, name: str, info: Mapping[str, Any]) -> str | None:
        """Why a file cannot be a document, None where it can."""
        if not all(name.split("/")) or "\0" in name:
            return "its name has an empty part between slashes; rename it"
        word = self._scheme.unreadable
        if word is not None and word in name:
            return f"its name holds {word}, which the client of the store takes for a word of its own; rename it"
        if info["type"] != "file":
            return f"it is no file but a {info['type']}, which is not followed in a store"
        return None

    def _uri(self, document: str) -> str:
        first, separator, rest = self._address.partition("::")
        root = first if "://" in first else f"{first}://"
        return f"{root if root.endswith('/') else root + '/'}{document}{separator}{rest}"

    @contextmanager
    def _told(self, problem: str) -> Iterator[None]:
        """Tell what goes wrong with the store itself as a `SourceError` that names the setting and the remedy."""
        where = f"corpus {self._corpus.name}: source {self._corpus.source}"
        setting = f"corpora.{self._corpus.name}.source"
        try:
            yield
        except (RagAssetsError, MemoryError):
            raise
        except ImportError as error:
            extra = SCHEMES.get(self._store, self._scheme).extra
            remedy = f"install it: pip install 'rag-assets[{extra}]'" if extra else "install it"
            raise SourceError(f"{where} needs a package that is not installed ({error}); {remedy}") from error
        except FileNotFoundError as error:
            raise SourceError(f"{where} does not exist; create it, or correct {setting}. {_UNTOUCHED}") from error
        except NotADirectoryError as error:
            raise SourceError(f"{where} is a file; name the folder that holds it in {setting}") from error
        except Exception as error:  # whatever the client of a store raises
            said = _said(error)
            remedy = f"check {setting} and that the store can be reached"
            if isinstance(error, PermissionError) or _REFUSED.search(f"{type(error).__name__} {said}"):
                remedy = f"check {setting}, and the credentials in the environment: {credentials_of(self._store)}"
            raise SourceError(f"{where} {problem}: {said}; {remedy}. {_UNTOUCHED}") from error


def _below(root: str, path: str) -> str:
    """`path` without the `root` that it is below."""
    return path[len(root) + 1 :] if root else path.removeprefix("/")


def _said(error: BaseException) -> str:
    """What `error` says in one line, with its kind where that alone tells something."""
    said = " ".join(str(error).split()) or "no reason given"
    return said if isinstance(error, OSError) else f"{type(error).__name__}: {said}"
