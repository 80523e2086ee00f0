"""ZIP archives in Office clothing, bounded before anything in them is parsed.

A small file can unpack to more than fits in memory, and its table of contents may lie about it; so every part is
unpacked once, piece by piece, and counted. XML in Office archives never declares a document type: what does is an attack.
"""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
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
_XML_ENDINGS = (".xml", ".rels")
_HEAD_BYTES = 4096
# What may stand before the root element, and before a document type.
_BYTE_ORDER_MARK = re.compile(rb"[\xef\xbb\xbf\xfe\xff]*")
_OF_PROLOG = re.compile(rb"\s+|<\?.*?\?>|<!--.*?-->", re.DOTALL)
_ROOT = re.compile(rb"<[^!?]")
# What zipfile raises for archives that are damaged in one way or another.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError, OSError, KeyError)


@dataclass(frozen=True)
class Bounds:
    """What an archive may unpack to, in bytes. Markup grows to several times its size when it is parsed.

    Below `harmless` no ratio matters: blank sheets and white images shrink a thousandfold. `document_types` says whether
    XML may declare one.
    """

    total: int = 1 << 30
    markup: int = 256 << 20
    harmless: int = 32 << 20
    document_types: bool = True


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


def open_checked(data: bytes, bounds: Bounds = BOUNDS) -> zipfile.ZipFile:
    """The archive in `data`, every part of which was unpacked once, keeping none.

    Raises `DocumentError` when a part is damaged, protected by a password or declares a document type that it may not, or
    when all are more than `bounds` or `MAX_RATIO` times the size of the archive.
    """
    archive = open_archive(data)
    try:
        _check(data, archive.infolist(), bounds)
    except DocumentError:
        archive.close()
        raise
    return archive


def _check(data: bytes, parts: Sequence[zipfile.ZipInfo], bounds: Bounds) -> None:
    if len(parts) > MAX_PARTS:
        raise DocumentError(
            f"it holds {len(parts):,} parts, and no sound document more than {MAX_PARTS:,}; it is not read"
        )
    total = markup = 0
    most = min(bounds.total, max(bounds.harmless, MAX_RATIO * len(data)))
    for part in parts:
        name = part.filename.lower()
        is_markup = name.endswith(_MARKUP_ENDINGS)
        is_checked = not bounds.document_types and name.endswith(_XML_ENDINGS)
        for piece in _unpack(data, part):
            if is_checked and piece:
                _refuse_document_type(part.filename, piece)
                is_checked = False
            total += len(piece)
            markup += len(piece) if is_markup else 0
            if total > most or markup > bounds.markup:
                raise DocumentError(
                    f"it is {len(data):,} bytes that unpack to more than {total:,}, as a ZIP bomb does; it is not read"
                )


def _refuse_document_type(name: str, beginning: bytes) -> None:
    """A part begins with its root element, but for comments: whatever hides behind a long one is refused as well."""
    if b"\0" in beginning[:_HEAD_BYTES]:
        beginning = beginning.replace(b"\0", b"")
    # Not one pattern with a possessive repetition: before Python 3.11.5 that ends in the wrong place.
    mark = _BYTE_ORDER_MARK.match(beginning)
    end = mark.end() if mark else 0
    while found := _OF_PROLOG.match(beginning, end):
        end = found.end()
    if not _ROOT.match(beginning, end) and b"<" in beginning[end:]:
        raise DocumentError(f"its part {name!r} declares a document type, which Office files never do; it is not read")


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
