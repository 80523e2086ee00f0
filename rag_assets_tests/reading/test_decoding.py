"""Case 12: bytes of many origins become clean text, or a reason that a person can act on."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import DocumentError
from rag_assets.reading.decoding import Decoded, decode

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489")


@pytest.mark.parametrize(
    "data",
    [
        "Zürich".encode(),
        b"\xef\xbb\xbfZ\xc3\xbcrich",
        b"\xff\xfe" + "Zürich".encode("utf-16-le"),
        b"\xfe\xff" + "Zürich".encode("utf-16-be"),
        b"\xff\xfe\0\0" + "Zürich".encode("utf-32-le"),
        b"\0\0\xfe\xff" + "Zürich".encode("utf-32-be"),
    ],
)
def test_unicode_is_read_with_certainty(data):
    assert decode(data) == Decoded("Zürich", lossy=False)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Zürich", "latin-1"),
        ("Zürich liegt am See.", "latin-1"),
        ("“It’s curly,” she said – naïvely…", "cp1252"),
        ("L’été à Besançon, ça coûte 5 €.", "cp1252"),
        ("¿Qué año? ¡Mañana!", "latin-1"),
        ("Привет, как дела? Это текст на русском языке.", "cp1251"),
        ("これは日本語の文章です。漢字とひらがな。", "shift_jis"),
        ("这是一个中文句子，用于测试编码。", "gb18030"),
        ("한국어 문장입니다. 안녕하세요.", "euc-kr"),
        ("Ελληνικά γράμματα εδώ", "iso8859-7"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250"),
        ("Zażółć gęślą jaźń, proszę państwa", "cp1250"),
    ],
)
def test_older_encodings_are_guessed_right_and_flagged(text, encoding):
    assert decode(text.encode(encoding)) == Decoded(text, lossy=True)


def test_long_western_text_is_not_taken_for_central_european():
    """charset-normalizer alone reads this Danish as "Rřdgrřd med flřde"."""
    text = "Rødgrød med fløde er på bordet, æble og ål. " * 40
    assert decode(text.encode("cp1252")).text == text


def test_utf16_without_a_mark_is_recognised_by_its_nuls():
    assert decode("Plain words, ünd mehr.".encode("utf-16-le")) == Decoded("Plain words, ünd mehr.", lossy=True)
    assert decode("Plain words, ünd mehr.".encode("utf-16-be")) == Decoded("Plain words, ünd mehr.", lossy=True)


def test_one_broken_byte_does_not_turn_utf8_into_something_else():
    assert decode("Größe, Zürich, schön".encode() + b"\xff") == Decoded("Größe, Zürich, schön\ufffd", lossy=True)


def test_line_ends_become_lf():
    assert decode(b"a\r\nb\rc\nd\r\n\r\ne") == Decoded("a\nb\nc\nd\n\ne", lossy=False)


def test_isolated_nuls_and_inner_marks_are_dropped_and_flagged():
    assert decode(b"a\0b") == Decoded("ab", lossy=True)
    assert decode("a\ufeffb".encode()) == Decoded("ab", lossy=True)


def test_blank_files_are_text():
    assert decode(b"") == Decoded("", lossy=False)
    assert decode(b"\xef\xbb\xbf") == Decoded("", lossy=False)
    assert decode(b" \n\t\n") == Decoded(" \n\t\n", lossy=False)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (PNG, "a PNG image"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "a JPEG image"),
        (b"%PDF-1.7\nplain so far", "a PDF document"),
        (b"PK\x03\x04\x14\x00\x06\x00\x08\x00", "a ZIP archive or an Office document"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00", "gzip data"),
        (b"SQLite format 3\x00\x10\x00", "an SQLite database"),
        (bytes(range(256)) * 4, r"binary data \(104 control characters in 1,024 bytes\)"),
        (b"\0" * 1000, r"binary data \(1,000 control characters in 1,000 bytes\)"),
        (b"ab\x01\x02\x03\x04\x05cd", r"binary data \(5 control characters in 9 bytes\)"),
    ],
)
def test_what_is_no_text_is_refused_by_name(data, found):
    with pytest.raises(
        DocumentError, match=f"its content is {found}, not text; .* exclude it in corpora.yaml"
    ) as caught:
        decode(data)
    assert not caught.value.retryable


@pytest.mark.parametrize("text", ["PK is a signature", "GIF89a is a format", "MZ", "BZh", "RIFF", "ID3 tags"])
def test_text_that_begins_like_a_binary_format_is_text(text):
    assert decode(text.encode()) == Decoded(text, lossy=False)


def test_terminal_colours_and_form_feeds_are_text():
    assert decode(b"\x1b[31mred\x1b[0m\x0cnext page") == Decoded("\x1b[31mred\x1b[0m\x0cnext page", lossy=False)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode("utf-16", "surrogatepass")))
def test_any_bytes_are_clean_text_or_refused(data):
    try:
        text = decode(data).text
    except DocumentError:
        return
    assert not set(text) & set("\r\0\ufeff")
    text.encode()  # fails on a lone surrogate
