"""PDF files: text by page, headings by size, paragraphs by gaps."""

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.errors import DocumentError
from rag_assets.reading.documents import read_document
from rag_assets.reading.pdf_lines import Line, without_running_lines
from rag_assets_tests.reading.making import lines, pdf


def test_large_letters_are_headings_and_gaps_are_paragraphs():
    page = [
        (20, 50, 750, "The Title"),
        *lines(720, "A first line of text that goes", "on in a second one."),
        *lines(670, "Another paragraph, (with brackets)."),
        *lines(640, "• an item", "• and one more"),
        (14, 50, 600, "A smaller heading"),
        *lines(580, "# is no heading, and <b> no tag."),
    ]
    found = read_document("a.pdf", pdf([page], title="Untitled"))
    assert (found.title, found.mime, found.metadata) == ("The Title", "application/pdf", {"pages": 1})
    assert (
        found.text
        == """# The Title

A first line of text that goes
on in a second one.

Another paragraph, (with brackets).

- an item
- and one more

## A smaller heading

\\# is no heading, and \\<b> no tag.
"""
    )


def test_an_indented_line_after_a_full_stop_begins_a_paragraph():
    page = [*lines(700, "The first ends here."), (10, 65, 688, "The second begins"), *lines(676, "and goes on.")]
    assert read_document("a.pdf", pdf([page])).text == "The first ends here.\n\nThe second begins\nand goes on.\n"


def test_a_chunk_knows_its_page():
    pages = [lines(700, "One."), [], lines(700, "The third page has words, and more than fit.")]
    found = read_document("a.pdf", pdf(pages))
    assert (found.text, found.page_starts) == ("One.\n\nThe third page has words, and more than fit.\n", [0, 4, 6])
    chunk = chunk_document(found, ChunkingSettings(strategy="fixed_size", max_tokens=8, overlap_tokens=0))[-1]
    assert (chunk.text[-4:], chunk.start_page, chunk.end_page) == ("fit.", 3, 3)


def test_a_sentence_goes_on_over_the_page():
    found = read_document("a.pdf", pdf([lines(700, "It begins here and"), lines(700, "ends there.")]))
    assert (found.text, found.page_starts) == ("It begins here and\nends there.\n", [0, 19])


def test_the_title_in_the_properties_is_believed_where_a_person_wrote_it():
    assert read_document("a.pdf", pdf([lines(700, "x")], title="Annual report")).title == "Annual report"
    assert read_document("a.pdf", pdf([lines(700, "x")], title="Microsoft Word - a.doc")).title == "a"


def test_running_headers_are_kept_once_and_page_numbers_never():
    body = [Line("One."), Line("Two."), Line("Three.")]
    pages = [[Line(f"Report, page {n}"), *body, Line(f"– {n} –")] for n in (1, 2, 3)]
    assert [[line.text for line in page] for page in without_running_lines(pages)] == [
        ["Report, page 1", "One.", "Two.", "Three."],
        ["One.", "Two.", "Three."],
        ["One.", "Two.", "Three."],
    ]


def test_a_pdf_without_text_asks_for_ocr():
    with pytest.raises(DocumentError, match="it holds no text on any of its 2 pages, .* run OCR on it first") as caught:
        read_document("a.pdf", pdf([[], []]))
    assert not caught.value.retryable


def test_a_pdf_cut_short_is_set_aside():
    whole = pdf([lines(700, "words")])
    with pytest.raises(DocumentError, match="no PDF that can be opened: cut short or damaged; copy it again"):
        read_document("a.pdf", whole[:60])
