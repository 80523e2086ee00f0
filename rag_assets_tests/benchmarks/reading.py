"""How fast each format is read, beside the library that parses it alone in the same run.

The library's share is its own plain text: headings, lists, tables, pages and the checks against hostile files are ours.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping
from email import policy
from email.parser import BytesParser
from pathlib import Path

import mammoth
import pptx
import pypdfium2
import python_calamine
from docutils.core import publish_parts
from selectolax.lexbor import LexborHTMLParser

from rag_assets.reading.documents import read_document
from rag_assets_tests.benchmarks.measuring import median, wall_seconds
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.reading.making import docx, lines, pdf, word, word_table, xlsx

_TITLE = "Reading, in MB of file a second"
_GOAL = 0.8
_COMPARABLE = frozenset({"a.pdf", "a.docx", "a.pptx", "a.xlsx", "a.rst"})
_SENTENCE = "The pass is closed from November to May, and the bus leaves the station every hour. "


def run(size: Size, folder: Path) -> Report:
    copies, repeats = (1, 1) if size == "tiny" else (60, 7)
    files = _files(copies)
    figures = []
    for name, (data, library, alone) in files.items():
        ours = median(repeats, lambda name=name, data=data: wall_seconds(lambda: read_document(name, data)))  # type: ignore[misc]
        theirs = median(repeats, lambda alone=alone, data=data: wall_seconds(lambda: alone(data)))  # type: ignore[misc]
        rate, raw = len(data) / ours / 1e6, len(data) / theirs / 1e6
        goal = Goal("at least", round(_GOAL * raw, 3)) if name in _COMPARABLE else None
        figures.append(Figure(name, rate, "MB/s", Baseline(library, raw), goal))
    return Report(
        name="reading",
        title=_TITLE,
        figures=figures,
        notes=[
            f"Files made up of {copies} sections; median of {repeats}. Goal: {_GOAL:.0%} of the library alone.",
            "No goal where the library alone does no more than split, decode or gather words.",
        ],
    )


def _files(copies: int) -> Mapping[str, tuple[bytes, str, Callable[[bytes], object]]]:
    """Name → bytes, the library that parses them, and the least that it can be asked for."""
    section = (
        f"<h2>Section</h2><p>{_SENTENCE * 5}</p><ul><li>one<li>two</ul><table><tr><th>a<th>b<tr><td>1<td>2</table>"
    )
    html = f"<title>T</title><body>{section * copies}".encode()
    rows: list[list[object]] = [["name", "height", "note"]]
    rows += [[f"pass {n}", n * 100, _SENTENCE] for n in range(copies * 20)]
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    body = (word("Section", "heading1") + word(_SENTENCE * 5) + word_table([["a", "b"], ["1", "2"]])) * copies
    page = [(18, 50, 760, "Section"), *lines(730, *[_SENTENCE[:80]] * 40)]
    cells = [
        {"cell_type": "markdown", "source": _SENTENCE * 5},
        {"cell_type": "code", "source": "x = 1\n" * 10},
    ] * copies
    rst = f"Section\n=======\n\n{_SENTENCE * 5}\n\n- one\n- two\n\n" * copies
    mail = f"Subject: s\n\n{(_SENTENCE + chr(10)) * 10 * copies}"
    return {
        "a.txt": ((_SENTENCE + "\n").encode() * copies * 1000, "bytes.decode", bytes.decode),
        "a.html": (html, "selectolax", _html_words),
        "a.pdf": (pdf([page] * copies), "PDFium", _pdf_words),
        "a.docx": (docx(body), "Mammoth, as HTML", lambda data: mammoth.convert_to_html(io.BytesIO(data)).value),
        "a.pptx": (_presentation(copies), "python-pptx", _slide_words),
        "a.xlsx": (xlsx({"A": rows}), "Calamine", _cells),
        "a.csv": (table.getvalue().encode(), "csv", lambda data: list(csv.reader(io.StringIO(data.decode())))),
        "a.ipynb": (json.dumps({"cells": cells}).encode(), "json", json.loads),
        "a.eml": (
            mail.encode(),
            "email",
            lambda data: BytesParser(policy=policy.default).parsebytes(data).get_content(),
        ),
        "a.rst": (
            rst.encode(),
            "docutils, as HTML",
            lambda data: publish_parts(data.decode(), writer="html5")["html_body"],
        ),
    }


def _html_words(data: bytes) -> object:
    body = LexborHTMLParser(data.decode()).body
    return body and body.text_lexbor()


def _pdf_words(data: bytes) -> object:
    with pypdfium2.PdfDocument(data) as document:
        return [page.get_textpage().get_text_range() for page in document]


def _cells(data: bytes) -> object:
    workbook = python_calamine.load_workbook(io.BytesIO(data))
    return [workbook.get_sheet_by_name(name).to_python() for name in workbook.sheet_names]


def _presentation(copies: int) -> bytes:
    deck = pptx.Presentation()
    for _ in range(copies):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = "Section"
        slide.placeholders[1].text_frame.text = "\n".join([_SENTENCE] * 5)
    target = io.BytesIO()
    deck.save(target)
    return target.getvalue()


def _slide_words(data: bytes) -> object:
    slides = pptx.Presentation(io.BytesIO(data)).slides
    return [shape.text_frame.text for slide in slides for shape in slide.shapes if shape.has_text_frame]
