"""A source file becomes a Document: its format is detected, and the module of the format reads it.

Where the bytes come from is `source.py`; which formats there are is `formats.py`. The document goes to chunking next.
"""

import importlib
from collections.abc import Callable
from pathlib import PurePosixPath

from rag_assets.errors import DocumentError
from rag_assets.reading.content import Content
from rag_assets.reading.content_type import parse_content_type
from rag_assets.reading.decoding import as_utf8
from rag_assets.reading.detecting import detect_format
from rag_assets.reading.formats import TEXT, Format, format_by_name
from rag_assets.records import Document

READER_VERSION = "4"
"""Part of every document's fingerprint: raised when the same bytes are read into another document."""


def read_document(document: str, data: bytes, content_type: str | None = None) -> Document:
    """Read `data`, found at the posix path `document` inside its corpus. A blank file is a document with blank text.

    `content_type` is what the source says of it, as the header of HTTP does; its bytes may tell better. Raises
    `DocumentError` when the bytes cannot be read: retryable when the format's extra is not installed.
    """
    stated = parse_content_type(content_type)
    if data and not data.isspace():
        kind = detect_format(document, data, stated.kind)
        content = _read(kind, data if kind.container else as_utf8(data, stated.charset))
    else:
        kind = stated.kind or format_by_name(document) or TEXT
        content = Content("") if kind.container else _read(kind, data)
    return Document(
        document=document,
        title=content.title or PurePosixPath(document).stem,
        mime=kind.mime,
        text=content.text,
        metadata=content.metadata,
        first_line=content.first_line,
        lossy=content.lossy,
        page_starts=content.page_starts,
    )


def _read(kind: Format, data: bytes) -> Content:
    read = _reader(kind)
    try:
        return read(data)
    except (DocumentError, MemoryError):
        raise
    except RecursionError:
        raise DocumentError(f"it is nested too deep to be read as {kind.name}; flatten it, or exclude it") from None
    except Exception as error:
        # Parsers meet bytes that nobody foresaw with whatever their code stumbles over.
        raise DocumentError(_stumbled(kind, error)) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # how parsers written in Rust stumble
            raise
        raise DocumentError(_stumbled(kind, error)) from error


def _stumbled(kind: Format, error: BaseException) -> str:
    said = " ".join(str(error).split())[:200]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"it cannot be read as {kind.name} ({what}); it may be damaged: open it and save it anew, or exclude it"


def _reader(kind: Format) -> Callable[[bytes], Content]:
    """The function that reads a format. Its module, and the parser that it needs, are imported at the first file."""
    try:
        module = importlib.import_module(f"rag_assets.reading.{kind.module}")
    except ModuleNotFoundError as error:
        package = f"rag-assets[{kind.extra}]" if kind.extra else "rag-assets"
        raise DocumentError(
            f"{kind.name} is read with a package that is not installed ({error.name}); install it: pip install '{package}'",
            retryable=True,
        ) from None
    read: Callable[[bytes], Content] = module.read
    return read
