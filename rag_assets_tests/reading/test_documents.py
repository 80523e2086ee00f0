"""A file becomes a document by its ending."""

import pytest

from rag_assets.errors import DocumentError
from rag_assets.reading.documents import READER_VERSION, read_document
from rag_assets.records import Document


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


@pytest.mark.parametrize(("document", "found"), [("a.xyz", "'.xyz' files"), ("README", "files without an ending")])
def test_an_ending_that_nothing_reads_is_refused_with_what_can_be_read(document, found):
    with pytest.raises(DocumentError, match=f"^{found} cannot be read, only .md, .markdown, .txt; rename it, or"):
        read_document(document, b"text")


def test_an_image_called_text_is_refused():
    with pytest.raises(DocumentError, match="its content is a PNG image, not text"):
        read_document("a.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")


def test_crlf_and_lf_are_one_document():
    """Case 14, at the reader."""
    lf = b"---\ntitle: x\n---\n# A\n\ntext\n\n```\ncode\n```\n"
    assert read_document("a.md", lf) == read_document("a.md", lf.replace(b"\n", b"\r\n"))
    assert read_document("a.md", lf) == read_document("a.md", lf.replace(b"\n", b"\r"))


def test_the_version_of_the_reader_is_a_string():
    assert READER_VERSION == "1"
