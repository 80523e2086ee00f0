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
_BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_SAMPLE_BYTES = 200_000
_PIECE_BYTES = 1 << 20
_BINARY_SAMPLE_BYTES = 1 << 20

# What browsers take these for, and encodings that nobody means who declares them: text that says so is guessed.
_DECLARED_ALIASES = {
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "shift-jis": "cp932",
    "sjis": "cp932",
    "x-sjis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "ks-c-5601-1987": "cp949",
    "euc-kr": "cp949",
    "iso-8859-9": "cp1254",
    "x-user-defined": "cp1252",
}
_NOT_BELIEVED = frozenset({"utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "idna", "punycode"})

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


def decode(data: bytes, *, declared: str | None = None) -> Decoded:
    """`data` as clean text. `declared` is the encoding that the file says it has, believed where its bytes allow it.

    Raises `DocumentError` for what is no text in any encoding, saying what it looks like.
    """
    found = _decode_marked(data) or _decode_declared(data, declared) or _decode_utf8(data)
    if found is None:
        raw, lossy = _decode_unmarked(data)
        found = _without_marks(raw, lossy=lossy)
    return found


def as_utf8(data: bytes, declared: str | None) -> bytes:
    """Text in the encoding that its source declares, as UTF-8; `data` as it is where it cannot be in that encoding."""
    found = None if declared is None or data.isascii() else _decode_declared(data, declared)
    return found.text.encode() if found else data


def _decode_marked(data: bytes) -> Decoded | None:
    for mark, encoding in _MARKS:
        if data.startswith(mark) and encoding != "utf-8":
            body = memoryview(data)[len(mark) :]
            try:
                return _without_marks(codecs.decode(body, encoding), lossy=False)
            except UnicodeDecodeError:
                if encoding != "utf-32-le":  # else UTF-16 that begins with a NUL
                    return _without_marks(codecs.decode(body, encoding, "replace"), lossy=True)
    return None


def _decode_declared(data: bytes, declared: str | None) -> Decoded | None:
    """UTF-8 that holds anything but ASCII is what it is, whatever it says."""
    encoding = _DECLARED_ALIASES.get((declared or "").lower().replace("_", "-"), declared)
    if not encoding:
        return None
    try:
        if codecs.lookup(encoding).name in _NOT_BELIEVED or (not data.isascii() and _is_utf8(data)):
            return None
        text = data.decode(encoding)
    except (LookupError, UnicodeError):
        return None
    return None if "\0" in text else _without_marks(text, lossy=False)


def _decode_utf8(data: bytes) -> Decoded | None:
    """Marks, NULs and line ends are dealt with in the bytes: as text they may be four times the size."""
    if b"\0" in data and _utf16_by_its_nuls(data):
        return None
    body = data.removeprefix(codecs.BOM_UTF8)
    clean = body.replace(b"\0", b"")
    if b"\xef" in clean:  # looking for one byte takes a tenth of the time
        clean = clean.replace(codecs.BOM_UTF8, b"")
    lossy = len(clean) != len(body)
    del body
    if b"\r" in clean:
        clean = clean.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    try:
        text = clean.decode()
    except UnicodeDecodeError:
        return None
    _refuse_binary(data, max_share_of_controls=0.1)
    return Decoded(text, lossy)


def _is_utf8(data: bytes) -> bool:
    """Whether `data` is UTF-8, without making a text of all of it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), _PIECE_BYTES):
            decoder.decode(data[at : at + _PIECE_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _decode_unmarked(data: bytes) -> tuple[str, bool]:
    encoding = _utf16_by_its_nuls(data)
    if encoding:
        return data.decode(encoding), True
    _refuse_binary(data, max_share_of_controls=0.02)
    return _guess(data), True


def _without_marks(raw: str, *, lossy: bool) -> Decoded:
    text = raw.removeprefix("\ufeff")
    clean = text.replace("\0", "").replace("\ufeff", "")
    return Decoded(clean.replace("\r\n", "\n").replace("\r", "\n"), lossy or clean != text)


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
    sample = data[:_BINARY_SAMPLE_BYTES]
    count = _controls(sample)
    crowded = count > 4 and count > max_share_of_controls * len(sample)
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
    cp1252 as Central European. So what can be Western European is read as cp1252, a superset of latin-1. A sample from
    the first byte that is not ASCII on decides.
    """
    try:
        # UTF-8 with halves of UTF-16 pairs in it, as older databases write it: pairs are joined, lone halves replaced.
        return data.decode("utf-8", "surrogatepass").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    except UnicodeDecodeError:
        pass
    sample = _sample(data)
    broken = sample.decode(errors="replace")
    if broken.count("\ufffd") * 2 <= len(re.findall(r"[^\x00-\x7f\ufffd]", broken)):
        # Older encodings make UTF-8 characters by accident, but never mostly.
        return data.decode(errors="replace")
    if _is_western(sample):
        return data.decode("cp1252", "replace")
    found = from_bytes(sample).best()
    if found is not None:
        return data.decode(found.encoding, "replace")
    raise DocumentError("its bytes are text in no known encoding; convert it to UTF-8, or exclude it in corpora.yaml")


def _sample(data: bytes) -> bytes:
    """Whole lines, where there are any, around the first byte that is not ASCII."""
    odd = _BEYOND_ASCII.search(data)
    start = data.rfind(b"\n", 0, odd.start()) + 1 if odd else 0
    start = max(start, odd.start() - _SAMPLE_BYTES // 2) if odd else 0
    if start + _SAMPLE_BYTES >= len(data):
        return data[start:]
    end = data.rfind(b"\n", start + _SAMPLE_BYTES // 2, start + _SAMPLE_BYTES) + 1
    return data[start : end or start + _SAMPLE_BYTES]


def _is_western(data: bytes) -> bool:
    """Whether cp1252 makes words of it: accents are rare among plain letters, and no sign splits a word."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return False
    letters = len(re.findall(r"[^\W\d_]", text))
    accented = len(re.findall(f"[{_WESTERN_LETTERS}]", text))
    return bool(_WESTERN.fullmatch(text)) and accented * 5 <= letters * 2 and not _MARK_IN_WORD.search(text)
