"""The list of formats: what it promises, and what it does not load."""

import importlib
import subprocess
import sys

import pytest

from rag_assets.errors import DocumentError
from rag_assets.reading.detecting import detect_format
from rag_assets.reading.formats import BY_ENDING, DOCX, EPUB, FORMATS, HTML, INCLUDE, PDF, TEXT, XLS, XLSX, markup_of
from rag_assets_tests.reading.making import archive, docx, epub, pdf, xlsx


@pytest.mark.parametrize("module", sorted({kind.module for kind in FORMATS}))
def test_every_module_of_the_list_reads(module):
    assert callable(importlib.import_module(f"rag_assets.reading.{module}").read)


def test_no_ending_is_claimed_twice_and_each_is_included():
    endings = [ending for kind in FORMATS for ending in kind.endings.split()]
    assert len(endings) == len(set(endings)) == len(INCLUDE)
    assert INCLUDE[:4] == ("**/*.md", "**/*.markdown", "**/*.mdx", "**/*.txt")
    assert all(ending == ending.lower() for ending in endings)


def test_markup_tells_markdown_from_prose_and_code():
    names = ("a.md", "a.PDF", "a.csv", "a.txt", "a.py", "a.json", "README")
    assert list(map(markup_of, names)) == ["markdown", "markdown", "markdown", "plain", "code", "code", "plain"]


def test_no_parser_is_loaded_before_a_file_needs_it():
    program = """
import sys
import rag_assets.reading.documents
heavy = {"pypdfium2", "mammoth", "pptx", "lxml", "python_calamine", "selectolax", "docutils", "email.message"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_list_itself_loads_nothing_but_the_standard_library():
    program = "import sys, rag_assets.reading.formats; print('pyarrow' in sys.modules, 'yaml' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize("name", ["a.txt", "a", "a.docx", "a.pdf", "a.html"])
def test_content_that_tells_its_format_wins_over_the_name(name):
    assert detect_format(name, pdf([[]])) is PDF
    assert detect_format(name, docx("")) is DOCX
    assert detect_format(name, xlsx({"A": []})) is XLSX
    assert detect_format(name, epub([])) is EPUB
    assert detect_format(name, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "Workbook".encode("utf-16-le")) is XLS


@pytest.mark.parametrize("name", ["page", "page.xls", "page.docx", "page.php3"])
def test_a_web_page_is_one_under_any_name_that_promises_no_text(name):
    assert detect_format(name, b"\xef\xbb\xbf\n<!-- x -->\n<!DOCTYPE html><p>Hi") is HTML


def test_text_is_what_its_ending_says():
    for ending, kind in BY_ENDING.items():
        if not kind.container:
            assert detect_format(f"a{ending.upper()}", b"plain words") is kind


def test_text_that_is_called_a_pdf_or_a_workbook_is_no_document():
    """`not a pdf` in bad.pdf was indexed as text, and nobody was told."""
    for ending, kind in BY_ENDING.items():
        if kind.container:
            with pytest.raises(DocumentError, match=f"its content is not {kind.name}; give it its right ending"):
                detect_format(f"a{ending.upper()}", b"plain words")


def test_text_that_a_server_calls_a_workbook_is_what_its_ending_says():
    assert detect_format("a.csv", b"plain, words", BY_ENDING[".xls"]) is BY_ENDING[".csv"]
    assert detect_format("export", b"plain words", BY_ENDING[".xls"]) is TEXT


def test_text_about_formats_is_text():
    assert detect_format("a.md", b"%PDF- is how a PDF begins") is BY_ENDING[".md"]
    assert detect_format("a.txt", b"PK is how a ZIP archive begins") is TEXT


def test_an_archive_of_anything_is_no_document():
    with pytest.raises(DocumentError, match="not Word, but a ZIP archive, which is not read; unpack it"):
        detect_format("a.docx", archive({"a.txt": "x"}))
    with pytest.raises(DocumentError, match="an OpenDocument text or presentation, which is not read; save it as DOCX"):
        detect_format("a.odt", archive({"mimetype": "application/vnd.oasis.opendocument.text"}))
