"""Bytes become text: byte order marks, UTF-8, and a guess for the rest that says it was one.

Here belongs what holds for every format that is text; what the text means is the format's own module. What comes out
has LF line ends and no U+FEFF, NUL or lone surrogate.
"""

import codecs
import re
from dataclasses import dataclass

from charset_normalizer import from_bytes

from rag_assets.errors import DocumentError

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (b"\x1f\x8b\x08", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a Windows program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"OggS", "an Ogg recording"),
    (b"ID3", "an MP3 recording"),
    (b"RIFF", "a RIFF recording or image"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_SAMPLE_BYTES = 200_000

# What Western European text in cp1252 holds beyond ASCII, and where it may stand.
_WESTERN_LETTERS = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜßàáâãäåæçèéêëìíîïñòóôõöøùúûüÿŠŒŽšœžŸ"
_WESTERN_MARKS = "€‚„…‰‹‘’“”•–—™› ¡¢£¥§©ª«¬®°±²³´µ¶·¹º»¼½¾¿×÷\u00a0\u00ad"
_WESTERN = re.compile(rf"[\x00-\x7f{_WESTERN_LETTERS}{_WESTERN_MARKS}]*")
_MARK_IN_WORD = re.compile(r"[^\W\d_][€‚„…‰‹•™›¡¢£¥§©ª«¬®°±²³µ¶¹º»¼½¾¿×÷][^\W\d_]")


@dataclass(frozen=True)
class Decoded:
    """`lossy` is true when the encoding was a guess or something was dropped."""

    text: str
    lossy: bool


def decode(data: bytes) -> Decoded:
    """`data` as clean text. Raises `DocumentError` for what is no text in any encoding, saying what it looks like."""
    raw, lossy = _decode_marked(data) or _decode_unmarked(data)
    text = raw.removeprefix("\ufeff")
    clean = text.replace("\0", "").replace("\ufeff", "")
    lines = clean.replace("\r\n", "\n").replace("\r", "\n")
    return Decoded(lines, lossy or clean != text)


def _decode_marked(data: bytes) -> tuple[str, bool] | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            body = data[len(mark) :]
            try:
                return body.decode(encoding), False
            except UnicodeDecodeError:
                if encoding != "utf-32-le":  # else UTF-16 that begins with a NUL
                    return body.decode(encoding, "replace"), True
    return None


def _decode_unmarked(data: bytes) -> tuple[str, bool]:
    encoding = _utf16_by_its_nuls(data)
    if encoding:
        return data.decode(encoding), True
    try:
        text = data.decode()
    except UnicodeDecodeError:
        _refuse_binary(data, max_share_of_controls=0.02)
        return _guess(data), True
    _refuse_binary(data, max_share_of_controls=0.1)
    return text, False


def _utf16_by_its_nuls(data: bytes) -> str | None:
    """UTF-16 without a mark: Western text in it has a NUL for every other byte."""
    if len(data) < 4 or len(data) % 2 or b"\0" not in data:
        return None
    even, odd = data[::2].count(0) * 2 / len(data), data[1::2].count(0) * 2 / len(data)
    for encoding, high, low in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if high > 0.6 and low < 0.05:
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                return None
            return encoding if _controls(text.encode()) <= 0.02 * len(text) else None
    return None


def _controls(data: bytes) -> int:
    return len(data) - len(data.translate(None, _CONTROLS))


def _refuse_binary(data: bytes, *, max_share_of_controls: float) -> None:
    count = _controls(data)
    crowded = count > 4 and count > max_share_of_controls * len(data)
    printable = count == 0 and not data.startswith(b"%PDF-")
    named = [name for signature, name in _SIGNATURES if data.startswith(signature)]
    if crowded or (named and not printable):
        found = named[0] if named else f"binary data ({count:,} control characters in {len(data):,} bytes)"
        raise DocumentError(
            f"its content is {found}, not text; give it its right ending, or exclude it in corpora.yaml"
        )


def _guess(data: bytes) -> str:
    """The text of bytes that are not UTF-8.

    charset-normalizer 3.5 reads "Zürich" in latin-1 as Chinese, and forty lines of Danish, Italian or Portuguese in
    cp1252 as Central European. So what can be Western European is read as cp1252, a superset of latin-1.
    """
    broken = data.decode(errors="replace")
    western = _western(data)
    if broken.count("\ufffd") * 2 <= len(re.findall(r"[^\x00-\x7f\ufffd]", broken)):
        return broken  # Older encodings make UTF-8 characters by accident, but never mostly.
    if western is not None:
        return western
    found = from_bytes(data[:_SAMPLE_BYTES]).best()
    if found is not None:
        return data.decode(found.encoding, "replace")
    raise DocumentError("its bytes are text in no known encoding; convert it to UTF-8, or exclude it in corpora.yaml")


def _western(data: bytes) -> str | None:
    """`data` as cp1252 where that makes words: accents are rare among plain letters, and no sign splits a word."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    letters = len(re.findall(r"[^\W\d_]", text))
    accented = len(re.findall(f"[{_WESTERN_LETTERS}]", text))
    if not _WESTERN.fullmatch(text) or accented * 5 > letters * 2 or _MARK_IN_WORD.search(text):
        return None
    return text
