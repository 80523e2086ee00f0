"""Which format a file is: its bytes decide where they can; what the source says of it, then its name where they cannot.

A PDF called `.txt` is a PDF, and a page called `.xls` is HTML, as web servers like to call them. What no format reads
is refused by its name and with a remedy.
"""

import re

from rag_assets.errors import DocumentError
from rag_assets.reading import formats
from rag_assets.reading.archives import PROTECTED, open_archive, read_part
from rag_assets.reading.formats import Format, format_by_name

_PDF = re.compile(rb"%PDF-\d")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HTML = re.compile(rb"\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_HEAD_BYTES = 4096

# A part that only this kind of archive has, and what reads it.
_PARTS = (
    ("word/document.xml", formats.DOCX),
    ("ppt/presentation.xml", formats.PPTX),
    ("xl/workbook.xml", formats.XLSX),
    ("xl/workbook.bin", formats.XLSX),
)
_TYPES = {
    b"application/epub+zip": formats.EPUB,
    b"application/vnd.oasis.opendocument.spreadsheet": formats.ODS,
}
_OPEN_DOCUMENT = b"application/vnd.oasis.opendocument"


def detect_format(document: str, data: bytes, stated: Format | None = None) -> Format:
    """The format of `data`, found under the name `document` in a source that says it is `stated`.

    Raises `DocumentError` for a container that nothing reads, and for text that is called a container.
    """
    named = stated or format_by_name(document)
    head = data[:_HEAD_BYTES]
    if _PDF.match(head.lstrip()) or (named is formats.PDF and _PDF.search(head)):
        return formats.PDF
    if head.startswith(_ZIP):
        return _in_archive(data, named)
    if head.startswith(_OLE):
        return _in_compound_file(data)
    if head.startswith(b"{\\rtf"):
        raise DocumentError("it is Rich Text (RTF), which is not read; save it as DOCX")
    if named and not named.container:
        return named
    if _HTML.match(head.removeprefix(b"\xef\xbb\xbf")):
        return formats.HTML
    if head.removeprefix(b"\xef\xbb\xbf").startswith(b"<?xml"):
        return formats.XML
    by_name = format_by_name(document)  # servers call CSV a workbook
    if by_name is None or not by_name.container:
        return by_name or formats.TEXT
    raise DocumentError(
        f"its content is not {by_name.name}; give it its right ending, save it anew if it is damaged, or exclude it in"
        " corpora.yaml"
    )


def _in_archive(data: bytes, named: Format | None) -> Format:
    with open_archive(data) as archive:
        names = set(archive.namelist())
        for part, kind in _PARTS:
            if part in names:
                return kind
        stated = b""
        if "mimetype" in names and archive.getinfo("mimetype").file_size < _HEAD_BYTES:
            stated = read_part(archive, "mimetype").strip()
    if stated in _TYPES:
        return _TYPES[stated]
    if "META-INF/container.xml" in names:
        return formats.EPUB
    if stated.startswith(_OPEN_DOCUMENT):
        raise DocumentError("it is an OpenDocument text or presentation, which is not read; save it as DOCX or PPTX")
    what = f"not {named.name}, but " if named and named.container else ""
    raise DocumentError(
        f"its content is {what}a ZIP archive, which is not read; unpack it, or exclude it in corpora.yaml"
    )


def _in_compound_file(data: bytes) -> Format:
    """Office files before 2007, and those of today when they are protected by a password."""
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise DocumentError(PROTECTED)
    if "Workbook".encode("utf-16-le") in data:
        return formats.XLS
    raise DocumentError("it is an Office document from before 2007, which is not read; save it as DOCX or PPTX")
