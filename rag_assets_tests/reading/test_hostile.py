"""Files that somebody made to do harm, or that broke on the way: a reason for a person, never a crash, never a flood."""

import io
import json
import random
import struct
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assets.errors import DocumentError
from rag_assets.reading.archives import Bounds, open_checked
from rag_assets.reading.documents import read_document
from rag_assets.reading.formats import BY_ENDING
from rag_assets_tests.reading.making import archive, docx, epub, lines, pdf, word, xlsx

BOMB = b"".join(b'<!ENTITY l%d "%s">' % (n, b"&l%d;" % (n - 1) * 10) for n in range(1, 10))
ENTITIES = b'<!DOCTYPE x [<!ENTITY l0 "lol">' + BOMB + b"]><x>&l9;</x>"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def refusal(document: str, data: bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        read_document(document, data)
    assert not caught.value.retryable
    return caught.value.reason


def test_a_zip_bomb_in_the_clothes_of_word_is_not_unpacked():
    bomb = docx(word("x"), {"word/media/a.xml": b" " * (40 << 20)})
    assert len(bomb) < 100_000
    assert "as a ZIP bomb does; it is not read" in refusal("a.docx", bomb)


def test_what_an_archive_says_of_its_sizes_is_not_believed():
    """The table of contents of a ZIP file may claim a kilobyte for a part that unpacks to a gigabyte."""
    honest = archive({"a.xml": b" " * 3_000_000})
    size = struct.pack("<I", 3_000_000)
    liar = honest.replace(size, struct.pack("<I", 1000))
    with zipfile.ZipFile(io.BytesIO(liar)) as claimed:
        assert claimed.getinfo("a.xml").file_size == 1000
    with pytest.raises(DocumentError, match="unpack to more than"):
        open_checked(liar, Bounds(total=2_000_000))


def test_an_archive_of_sound_size_passes():
    open_checked(archive({"a.xml": b" " * 3_000_000, "b.png": bytes(100)}))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", docx("", {"word/document.xml": ENTITIES})),
        ("a.xlsx", archive({"xl/workbook.xml": ENTITIES})),
        ("a.pptx", archive({"ppt/presentation.xml": ENTITIES.decode().encode("utf-16")})),
        ("a.docx", docx("", {"word/document.xml": b"<?xml version='1.0'?>\n<!--" + b" " * 5000 + b"-->" + ENTITIES})),
        ("a.docx", docx("", {"word/document.xml": b"<!--" + b" " * (2 << 20) + b"-->" + ENTITIES})),
    ],
)
def test_entities_in_an_office_file_are_not_expanded(name, data):
    assert "declares a document type, which Office files never do" in refusal(name, data)


def test_entities_in_a_book_are_not_expanded():
    assert "declares entities, as XML bombs do" in refusal("a.epub", archive({"META-INF/container.xml": ENTITIES}))


def test_entities_in_xml_stay_as_written():
    assert read_document("a.xml", ENTITIES).text == ENTITIES.decode()


def test_protected_files_ask_for_their_protection_to_be_taken_off():
    assert "protected by a password" in refusal("a.docx", OLE + "EncryptedPackage".encode("utf-16-le"))
    encrypted = bytearray(docx(word("x")))
    with zipfile.ZipFile(io.BytesIO(encrypted)) as parts:
        for part in parts.infolist():
            encrypted[part.header_offset + 6] |= 1
    place = -1
    while (place := encrypted.find(b"PK\x01\x02", place + 1)) >= 0:
        encrypted[place + 8] |= 1
    assert "protected by a password" in refusal("a.docx", bytes(encrypted))


def test_office_files_from_before_2007_and_rich_text_name_the_remedy():
    assert "from before 2007, which is not read; save it as DOCX" in refusal("a.doc", OLE + b"x" * 600)
    assert "Rich Text (RTF), which is not read; save it as DOCX" in refusal("a.doc", b"{\\rtf1 x}")


@pytest.mark.parametrize("make", [lambda: docx(word("some words")), lambda: xlsx({"A": [["b"]]}), lambda: epub(["c"])])
def test_archives_cut_short_are_called_so(make):
    data = make()
    for end in (10, len(data) // 2, len(data) - 5):
        assert "it is cut short or damaged" in refusal("a.docx", data[:end])


def test_deep_nesting_is_refused_before_it_takes_minutes():
    assert "nested deeper than 2,000 elements" in refusal("a.html", b"<ul><li>" * 100_000)
    assert "nested deeper than 2,000 elements" in refusal("a.html", b"</p>" * 90_000 + b"<div>" * 90_000)
    assert "nested too deep" in refusal("a.ipynb", b"[" * 100_000)
    assert "nested too deep" in refusal("a.docx", docx("<w:sdt>" * 50_000 + "</w:sdt>" * 50_000))
    assert read_document("a.json", b"[" * 100_000).text == "[" * 100_000


def test_nesting_that_is_only_silly_keeps_its_words():
    text = read_document("a.html", b"<ul><li>" * 900 + b"here it is").text
    assert text.endswith("here it is\n")


@pytest.mark.parametrize("ending", [".txt", ".md", ".html", ".csv", ".json", ".rst", ".py"])
def test_a_line_of_five_megabytes_is_read(ending):
    assert len(read_document(f"a{ending}", b"word " * 1_000_000).text) >= 4_999_999


def test_markup_that_never_ends_does_not_keep_docutils_busy_for_a_minute():
    assert read_document("a.rst", b"*a " * 20_000).text == "*a " * 20_000


def test_a_table_whose_cells_span_everything_stays_bounded():
    page = b"<table>" + b"<tr><td colspan=99999 rowspan=99999>x<td>y" * 500
    assert len(read_document("a.html", page).text) < 1_000_000


def test_characters_that_are_no_text_do_not_pass_a_parser():
    cells = [{"cell_type": "markdown", "source": "a\ud800b\0c\ufeffd\re\x0bf"}]
    found = read_document("a.ipynb", json.dumps({"cells": cells}).encode())
    assert found.text == "abcd\ne\nf\n"
    surrogates = '{"a": "\ud83d\ude00 \ud800"}'.encode("utf-8", "surrogatepass")
    assert read_document("a.json", surrogates).text == '{"a": "😀 \ufffd"}'


ENDINGS = st.sampled_from([*BY_ENDING, "", ".xyz"])
SIGNATURES = st.sampled_from(
    [
        b"",
        b"%PDF-1.7\n",
        b"PK\x03\x04",
        b"PK\x05\x06",
        OLE,
        b"<html>",
        b"<?xml ?>",
        b"{\\rtf",
        b'{"cells": [',
        b"Subject: x\n\n",
    ]
)


def check_promises(document: str, data: bytes) -> None:
    """What holds for any bytes under any name: clean text with pages inside it, or a reason."""
    try:
        found = read_document(document, data)
    except DocumentError:
        return
    assert not set(found.text) & set("\r\0\ufeff")
    for text in (found.text, found.title, json.dumps(dict(found.metadata))):
        text.encode()
    assert list(found.page_starts) == sorted(found.page_starts)
    assert all(0 <= start <= len(found.text) for start in found.page_starts)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ending=ENDINGS, head=SIGNATURES, body=st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_under_any_name_are_a_document_or_a_reason(ending, head, body):
    check_promises(f"a{ending}", head + body)


SOUND = {
    "a.docx": docx(word("Title", "heading1") + word("some words")),
    "a.xlsx": xlsx({"A": [["b", 1.5], ["c", 2]]}),
    "a.epub": epub(["<h1>One</h1><p>text</p>"]),
    "a.pdf": pdf([lines(700, "some words on a page", "and more"), lines(700, "another")]),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_files_that_broke_are_a_document_or_a_reason(name):
    chance = random.Random(7)
    for _ in range(150):
        data = bytearray(SOUND[name])
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        check_promises(name, bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]))


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.epub"])
def test_archives_whose_parts_broke_are_a_document_or_a_reason(name):
    chance = random.Random(7)
    with zipfile.ZipFile(io.BytesIO(SOUND[name])) as sound:
        parts = {part: sound.read(part) for part in sound.namelist()}
    for _ in range(150):
        victim = chance.choice(list(parts))
        broken = bytearray(parts[victim])
        for _ in range(chance.choice([1, 3])):
            broken[chance.randrange(len(broken))] = chance.randrange(32, 127)
        check_promises(name, archive({**parts, victim: bytes(broken[: chance.choice([None, len(broken) // 2])])}))
