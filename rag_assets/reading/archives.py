"""ZIP archives in Office clothing, bounded before anything in them is parsed.

A small file can unpack to more than fits in memory, and its table of contents may lie about it; so every part is
unpacked once, piece by piece, and counted. XML in Office archives never declares a document type: what does is an attack.
"""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from rag_assets.errors import DocumentError

MAX_PARTS = 20_000
MAX_RATIO = 250
PROTECTED = "it is protected by a password; save it without one, or exclude it in corpora.yaml"

_PIECE = 1 << 20
_SLICE = 1 << 16
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_MARKUP_ENDINGS = (".xml", ".rels", ".html", ".htm", ".xhtml", ".opf", ".ncx", ".vml")
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_HEAD_BYTES = 4096
# What zipfile raises for archives that are damaged in one way or another.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError, OSError, KeyError)


@dataclass(frozen=True)
class Bounds:
    """What an archive may unpack to, in bytes. Markup grows to several times its size when it is parsed.

    Below `harmless` no ratio matters: blank sheets and white images shrink a thousandfold.
    """

    total: int = 1 << 30
    markup: int = 256 << 20
    harmless: int = 32 << 20


BOUNDS = Bounds()


def open_archive(data: bytes) -> zipfile.ZipFile:
    """The archive in `data`. Raises `DocumentError` when it is damaged."""
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except _BROKEN as error:
        raise _damaged(str(error)) from None


def read_part(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of the part `name`. Raises `DocumentError` when it is missing or damaged."""
    try:
        return archive.read(name)
    except _BROKEN as error:
        raise _damaged(str(error).strip("'\"")) from None


def parse_part(data: bytes, name: str) -> Element:
    """The root element of an XML part. Raises `DocumentError` when it is damaged or declares entities."""
    try:
        root: Element = fromstring(data)
    except DefusedXmlException:
        raise DocumentError(f"its part {name!r} declares entities, as XML bombs do; it is not read") from None
    except ParseError as error:
        raise _damaged(f"{name!r}: {error}") from None
    return root


def check_archive(data: bytes, bounds: Bounds = BOUNDS) -> None:
    """Unpack every part of the archive in `data`, keeping none.

    Raises `DocumentError` when a part is damaged or protected by a password, or when all are more than `bounds` or
    `MAX_RATIO` times the size of the archive.
    """
    with open_archive(data) as archive:
        parts = archive.infolist()
    if len(parts) > MAX_PARTS:
        raise DocumentError(
            f"it holds {len(parts):,} parts, and no sound document more than {MAX_PARTS:,}; it is not read"
        )
    total = markup = 0
    for part in parts:
        is_markup = part.filename.lower().endswith(_MARKUP_ENDINGS)
        for piece in _unpack(data, part):
            total += len(piece)
            markup += len(piece) if is_markup else 0
            too_dense = total > bounds.harmless and total > MAX_RATIO * len(data)
            if total > bounds.total or markup > bounds.markup or too_dense:
                raise DocumentError(
                    f"it is {len(data):,} bytes that unpack to more than {total:,}, as a ZIP bomb does; it is not read"
                )


def refuse_document_types(data: bytes) -> None:
    """Raise `DocumentError` when XML in the archive in `data` declares a document type, and with it entities."""
    with open_archive(data) as archive:
        for part in archive.infolist():
            if part.filename.lower().endswith((".xml", ".rels")):
                head = next(_unpack(data, part), b"")[:_HEAD_BYTES]
                if _DOCTYPE.search(head.replace(b"\0", b"")):
                    raise DocumentError(
                        f"its part {part.filename!r} declares a document type, which Office files never do; it is not read"
                    )


def _unpack(data: bytes, part: zipfile.ZipInfo) -> Iterator[bytes]:
    """The bytes of `part` in pieces, from where they are and not as the table of contents measures them."""
    if part.flag_bits & 1:
        raise DocumentError(PROTECTED)
    try:
        signature, name_length, extra_length = _LOCAL_HEADER.unpack_from(data, part.header_offset)
    except struct.error:
        raise _damaged(f"{part.filename!r} is not where it should be") from None
    if signature != b"PK\x03\x04":
        raise _damaged(f"{part.filename!r} is not where it should be")
    start = part.header_offset + _LOCAL_HEADER.size + name_length + extra_length
    packed = memoryview(data)[start : start + part.compress_size]
    if part.compress_type == zipfile.ZIP_STORED:
        yield bytes(packed[:_PIECE])
        for at in range(_PIECE, len(packed), _PIECE):
            yield bytes(packed[at : at + _PIECE])
    elif part.compress_type == zipfile.ZIP_DEFLATED:
        yield from _inflate(packed, part.filename)
    else:
        raise _damaged(f"{part.filename!r} is packed with method {part.compress_type}, which is not known")


def _inflate(packed: memoryview, name: str) -> Iterator[bytes]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for at in range(0, len(packed), _SLICE):
            rest: bytes | memoryview = packed[at : at + _SLICE]
            while rest and not inflater.eof:
                yield inflater.decompress(rest, _PIECE)
                rest = inflater.unconsumed_tail
        yield inflater.flush()
    except zlib.error as error:
        raise _damaged(f"{name!r}: {error}") from None
    if not inflater.eof:
        raise _damaged(f"{name!r} ends too early")


def _damaged(what: str) -> DocumentError:
    return DocumentError(f"it is cut short or damaged ({what}); copy it again, or open it and save it anew")
