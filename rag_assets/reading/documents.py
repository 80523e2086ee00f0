"""A source file becomes a Document: the reader is chosen by the file's ending.

Where the bytes come from is `source.py`; how a format is read is a module of its own, listed in `formats.py`. The
document goes to chunking next.
"""

from pathlib import PurePosixPath

from rag_assets.errors import DocumentError
from rag_assets.reading.formats import FORMATS
from rag_assets.records import Document

READER_VERSION = "1"
"""Part of every document's fingerprint: raised when the same bytes are read into another document."""


def read_document(document: str, data: bytes) -> Document:
    """Read `data`, found at the posix path `document` inside its corpus. A blank file is a document with blank text.

    Raises `DocumentError` when no format reads this ending, or when the bytes are not of the format.
    """
    suffix = PurePosixPath(document).suffix.lower()
    reader = FORMATS.get(suffix)
    if reader is None:
        found = f"{suffix!r} files" if suffix else "files without an ending"
        readable = ", ".join(FORMATS)
        raise DocumentError(f"{found} cannot be read, only {readable}; rename it, or exclude it in corpora.yaml")
    return reader(document, data)
