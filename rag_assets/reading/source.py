"""Where the documents of a corpus are: a listing, and bytes by name. No text is made here.

A listing that fails raises `SourceError`; it is never an empty listing. What kinds of places there are is `sources/`;
`docs/extending.md` shows how to add one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from rag_assets.config import CorpusSettings, WebSettings
from rag_assets.reading.sources.schemes import scheme_of


@dataclass(frozen=True)
class Entry:
    """One document of a listing: its size in bytes, when it was last modified, in nanoseconds since the epoch, and its
    `revision`; each None where the store does not tell.

    A revision is the store's own mark of content: an etag, a checksum, a version. It is only compared with another one of
    the same document. While it stays the same the document is not read again.
    """

    document: str
    bytes: int | None
    modified_ns: int | None
    revision: str | None = None


@dataclass(frozen=True)
class Listing:
    """All documents of a corpus by name, and what was seen but cannot be a document now: (name, reason).

    A refused name that ends in a slash is a folder that cannot be looked into; what is known below it is not gone.
    `clock_tolerance` is how far the clock behind the times of modification may be from ours.
    """

    entries: dict[str, Entry]
    refused: Sequence[tuple[str, str]] = ()
    clock_tolerance: timedelta = timedelta(0)


@dataclass(frozen=True)
class SourceFile:
    """The bytes of one document, all of one moment: not before `read_at`. Its entry is no younger than its bytes.

    `content_type` is what the source says of them, as the header of HTTP does, None where it says nothing.
    """

    entry: Entry
    data: bytes
    uri: str
    read_at: datetime
    content_type: str | None = None


class Source(Protocol):
    """A set of documents that can be listed and read. Names are POSIX paths below the root of the corpus."""

    def list(self) -> Listing:
        """Every document now. Raises `SourceError` when the listing is not whole and what it lacks is not in `refused`."""
        ...

    def read(self, document: str) -> SourceFile:
        """The bytes of `document`. Raises `DocumentError` when it is gone, unreadable or being written, and `SourceError`
        when no document can be read."""
        ...


def open_source(corpus: CorpusSettings) -> Source:
    """The source of `corpus`. Nothing is looked at yet. Raises `SourceError` for a scheme that nothing reads."""
    if isinstance(corpus.source, WebSettings):
        from rag_assets.reading.sources.web import WebSource

        return WebSource(corpus, corpus.source)
    scheme = scheme_of(corpus.source)
    path = Path(corpus.source.removeprefix("file://"))
    if scheme in ("", "file") and not (path.suffix.lower() == ".zip" and path.is_file()):
        from rag_assets.reading.sources.folder import FolderSource

        return FolderSource(
            name=corpus.name, root=path, include=corpus.include, exclude=corpus.exclude, max_bytes=corpus.max_bytes
        )
    from rag_assets.reading.sources.filesystem import open_filesystem
    from rag_assets.reading.sources.plugins import find_plugin, make_source

    plugin = find_plugin(scheme)
    if plugin is not None:
        return make_source(plugin, corpus)
    return open_filesystem(corpus, corpus.source if scheme not in ("", "file") else f"zip://::{path}")
