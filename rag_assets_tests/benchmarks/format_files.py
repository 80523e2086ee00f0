"""Files to read: those that people made (shared/corpora/formats), and larger ones made up to look like what people have.

A small file measures what every call costs, so a made-up one has the length of a report, a deck or a year of bookings.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from rag_assets_tests.benchmarks.measuring import REPOSITORY
from rag_assets_tests.reading.making import docx, epub, lines, pdf, word, word_table, xlsx

FORMATS = REPOSITORY.parent / "shared" / "corpora" / "formats"
SENTENCE = "The pass is closed from November to May, and the bus leaves the station every hour. "

_PARAGRAPH = SENTENCE * 5
_SECTION = f"""<h2>Section</h2><p>{_PARAGRAPH}</p><p>{_PARAGRAPH}</p><ul><li>one</li><li>two</li></ul>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>"""
_FUNCTION = '''
class Pass{n}:
    """A pass, its height in metres and the months in which it is closed."""

    def open_in(self, month: int) -> bool:
        """Whether the road over it is open in `month`."""
        if month in self.closed:
            return False
        return self.height < {n}000 or month in (6, 7, 8)
'''


def made_up(copies: int) -> Mapping[str, bytes]:
    """A file of each format by name, of `copies` sections, pages or slides."""
    rows = _rows(copies * 20)
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    cells = [
        {"cell_type": "markdown", "source": _PARAGRAPH},
        {"cell_type": "code", "source": "x = 1\n" * 10},
    ] * copies
    body = (word("Section", "heading1") + word(_PARAGRAPH) * 2 + word_table([["a", "b"], ["1", "2"]])) * copies
    return {
        "a.md": f"## Section\n\n{_PARAGRAPH}\n\n{_PARAGRAPH}\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n".encode()
        * copies,
        "a.txt": f"{_PARAGRAPH}\n\n".encode() * copies * 5,
        "a.rst": f"Section\n=======\n\n{_PARAGRAPH}\n\n{_PARAGRAPH}\n\n- one\n- two\n\n".encode() * copies,
        "a.html": f"<title>T</title><body>{_SECTION * copies}".encode(),
        "a.epub": epub([_SECTION * 5] * (copies // 5 + 1)),
        "a.pdf": pdf([[(18, 50, 760, "Section"), *lines(730, *[SENTENCE[:80]] * 40)]] * copies),
        "a.docx": docx(body),
        "a.pptx": _presentation(copies),
        "a.xlsx": xlsx({"Bookings": rows, "Heights": [row[:4] for row in rows]}),
        "a.csv": table.getvalue().encode(),
        "a.ipynb": json.dumps({"cells": cells}).encode(),
        "a.eml": f"Subject: s\n\n{(SENTENCE + chr(10)) * 10 * copies}".encode(),
        "a.json": json.dumps([dict(zip(map(str, rows[0]), row, strict=True)) for row in rows], indent=1).encode(),
        "a.yaml": "".join(
            f"pass_{n}:\n  height: {n}00\n  note: {SENTENCE}\n  closed: [11, 12, 1]\n" for n in range(copies * 5)
        ).encode(),
        "a.py": "".join(_FUNCTION.format(n=n) for n in range(copies * 4)).encode(),
    }


def made_by_people(ending: str) -> Sequence[tuple[str, bytes]]:
    """The files of a format in shared/corpora/formats, name and bytes; none where that is not beside the repository."""
    return [(path.name, path.read_bytes()) for path in sorted(FORMATS.rglob(f"*{ending}")) if _is_file(path)]


def _is_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _rows(count: int) -> list[list[object]]:
    rows: list[list[object]] = [["name", "height", "share", "open", "valley", "road", "year", "note"]]
    for n in range(count):
        rows.append(
            [f"pass {n}", n * 100, n / 7, n % 2 == 0, f"valley {n % 9}", f"A{n % 30}", 1900 + n % 120, SENTENCE]
        )
    return rows


def _presentation(copies: int) -> bytes:
    """Slides with bullets, every fourth with a table, every fifth with a chart, every second with notes."""
    deck = pptx.Presentation()
    chart = CategoryChartData()
    chart.categories = ["May", "June", "July"]
    chart.add_series("Cars", (19.2, 21.4, 16.7))
    for number in range(copies):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = f"Section {number}"
        slide.placeholders[1].text_frame.text = "\n".join([SENTENCE] * 6)
        for part in slide.placeholders[1].text_frame.paragraphs[1::2]:
            part.level = 1
        slide.shapes.add_textbox(Inches(1), Inches(6), Inches(4), Inches(1)).text_frame.text = SENTENCE
        if number % 4 == 0:
            table = slide.shapes.add_table(4, 3, Inches(1), Inches(4), Inches(6), Inches(1)).table
            for cell in table.iter_cells():
                cell.text = "every hour"
        if number % 5 == 0:
            size = (Inches(1), Inches(4), Inches(4), Inches(2))
            slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *size, chart)
        if number % 2 == 0:
            slide.notes_slide.notes_text_frame.text = SENTENCE * 2
    target = io.BytesIO()
    deck.save(target)
    return target.getvalue()
