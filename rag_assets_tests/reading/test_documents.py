"""A file becomes a document: its bytes decide how where they can, its name where they cannot."""

import sys

import pytest

from rag_assets.errors import DocumentError
from rag_assets.reading.documents import READER_VERSION, read_document
from rag_assets.records import Document
from rag_assets_tests.reading.making import archive


def test_a_markdown_file_is_text_title_and_metadata():
    data = "---\ntitle: The  guide\ndraft: false\n---\n# Heading\n\nZürich\r\n".encode()
    assert read_document("sub/guide.md", data) == Document(
        document="sub/guide.md",
        title="The guide",
        mime="text/markdown",
        text="# Heading\n\nZürich\n",
        metadata={"title": "The  guide", "draft": False},
        first_line=5,
        lossy=False,
    )


def test_a_text_file_keeps_everything_and_is_called_by_its_name():
    assert read_document("notes/to do.txt", b"---\na: 1\n---\n# x\n") == Document(
        document="notes/to do.txt", title="to do", mime="text/plain", text="---\na: 1\n---\n# x\n"
    )


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (b"## Second\n\n# First\n", "First"),
        (b"## Only\n\n### Deeper\n", "Only"),
        (b"```\n# no\n```\n\nYes\n===\n", "Yes"),
        (b"---\ntitle: ''\n---\n# Heading\n", "Heading"),
        (b"---\ntitle: 2024\n---\n", "2024"),
        (b"---\ntitle: [a]\n---\n", "some-file"),
        (b"#\n\nno words\n", "some-file"),
        (b"", "some-file"),
    ],
)
def test_the_title_is_named_or_the_first_heading_or_the_file(data, title):
    assert read_document("a/some-file.md", data).title == title


def test_endings_are_read_in_any_case():
    assert read_document("A.MD", b"x").mime == "text/markdown"
    assert read_document("a.Markdown", b"x").mime == "text/markdown"
    assert read_document("a.TXT", b"x").mime == "text/plain"


def test_a_blank_file_is_a_document_with_blank_text():
    assert read_document("a.md", b"").text == ""
    assert read_document("a.txt", b"\xef\xbb\xbf \r\n").text == " \n"


@pytest.mark.parametrize("document", ["README", "Makefile", "notes.xyz", "app.log"])
def test_text_of_an_unknown_ending_is_plain_text(document):
    found = read_document(document, b"# just text\n")
    assert (found.mime, found.text) == ("text/plain", "# just text\n")


@pytest.mark.parametrize(
    ("document", "mime"),
    [
        ("a.py", "text/x-python"),
        ("a.pyi", "text/x-python"),
        ("a.js", "text/x-javascript"),
        ("a.ts", "text/x-typescript"),
        ("a.tsx", "text/x-tsx"),
        ("A.java", "text/x-java"),
        ("a.go", "text/x-go"),
        ("a.rs", "text/x-rust"),
        ("a.c", "text/x-c"),
        ("a.h", "text/x-c"),
        ("a.cpp", "text/x-cpp"),
        ("a.rb", "text/x-ruby"),
        ("a.sh", "text/x-bash"),
        ("a.sql", "text/x-sql"),
        ("a.json", "application/json"),
        ("a.jsonl", "application/x-ndjson"),
        ("a.yml", "application/yaml"),
        ("a.toml", "application/toml"),
        ("a.xml", "application/xml"),
    ],
)
def test_code_and_data_are_kept_as_written_and_say_what_they_are(document, mime):
    text = "x = 1  # größer\n\n\n\n    <b>y</b>\n"
    found = read_document(document, text.replace("\n", "\r\n").encode())
    assert (found.mime, found.text, found.title) == (mime, text, document.partition(".")[0])


def test_a_format_whose_package_is_missing_is_set_aside_with_the_command_and_tried_again(monkeypatch):
    """`ingest` takes retryable failures up again, so that installing the extra is all there is to do."""
    monkeypatch.setitem(sys.modules, "pptx", None)
    monkeypatch.delitem(sys.modules, "rag_assets.reading.pptx", raising=False)
    with pytest.raises(DocumentError, match=r"pip install 'rag-assets\[office\]'") as caught:
        read_document("a.pptx", archive({"ppt/presentation.xml": "<p/>"}))
    assert caught.value.retryable


def test_an_image_called_text_is_refused():
    with pytest.raises(DocumentError, match="its content is a PNG image, not text"):
        read_document("a.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")


def test_crlf_and_lf_are_one_document():
    """Case 14, at the reader."""
    lf = b"---\ntitle: x\n---\n# A\n\ntext\n\n```\ncode\n```\n"
    assert read_document("a.md", lf) == read_document("a.md", lf.replace(b"\n", b"\r\n"))
    assert read_document("a.md", lf) == read_document("a.md", lf.replace(b"\n", b"\r"))


def test_the_version_of_the_reader_is_a_string():
    assert READER_VERSION == "4"
