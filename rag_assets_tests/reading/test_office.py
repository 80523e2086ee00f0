"""Word, Excel and PowerPoint files: what their authors structured stays structured."""

import io

import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from rag_assets.errors import DocumentError
from rag_assets.reading.documents import read_document
from rag_assets_tests.reading.making import archive, core, docx, word, word_table, xlsx


def test_a_word_document_keeps_headings_lists_tables_and_code():
    body = (
        word("Great", "Title")
        + word("One", "heading1")
        + word("Text with 1 < 2 & more.")
        + word("a", numbered=(1, 0))
        + word("b", numbered=(1, 1))
        + word("c", numbered=(2, 0))
        + word("x = 1", "SourceCode")
        + word("  y = 2", "SourceCode")
        + word_table([["k", "v"], ["a|b", "2"]])
    )
    found = read_document("a.docx", docx(body, {"docProps/core.xml": core(creator="Ann")}))
    assert (found.title, found.metadata) == ("Great", {"author": "Ann"})
    assert (
        found.text
        == """# Great

# One

Text with 1 < 2 & more.

- a
  - b

1. c

```
x = 1
  y = 2
```

| k | v |
| --- | --- |
| a\\|b | 2 |
"""
    )


def test_equations_of_a_word_document_are_text():
    """Mammoth leaves them out: "For ," was all that was left of a sentence."""
    power = "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    half = "<m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
    root = f"<m:rad><m:deg/><m:e>{half}</m:e></m:rad>"
    body = f"<w:p><w:r><w:t>For </w:t></w:r><m:oMath>{power}<m:r><m:t>=</m:t></m:r>{root}</m:oMath></w:p>"
    assert read_document("a.docx", docx(body)).text == "For x^2=√((a+b)/2)\n"


def test_the_title_in_the_properties_wins_unless_a_program_wrote_it():
    body = word("Heading", "heading1")
    for named, title in (("Annual report", "Annual report"), ("Document1", "Heading"), ("report.docx", "Heading")):
        assert read_document("a.docx", docx(body, {"docProps/core.xml": core(title=named)})).title == title
    assert read_document("b/name.docx", docx(word("text"))).title == "name"


def test_a_workbook_is_a_table_a_sheet():
    sheets: dict[str, list[list[object]]] = {
        "Sales": [
            ["Report 2024"],
            [],
            ["Name", "When", "Sum", "Sold"],
            ["a", (45000, 1), 3.0, True],
            ["b", None, 0.1, False],
        ],
        "Nothing": [[]],
        "More": [["x", None, "y"], [1, None, 2]],
    }
    assert (
        read_document("a.xlsx", xlsx(sheets)).text
        == """## Sales

Report 2024

| Name | When | Sum | Sold |
| --- | --- | --- | --- |
| a | 2023-03-15 | 3 | TRUE |
| b |  | 0.1 | FALSE |

## More

| x | y |
| --- | --- |
| 1 | 2 |
"""
    )


def presentation() -> bytes:
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "The plan"
    frame = first.placeholders[1].text_frame
    frame.text = "begin"
    for level, words in ((1, "small"), (0, "go on")):
        part = frame.add_paragraph()
        part.text, part.level = words, level
    first.notes_slide.notes_text_frame.text = "Smile."
    deck.slides.add_slide(deck.slide_layouts[6])
    third = deck.slides.add_slide(deck.slide_layouts[5])
    third.shapes.title.text = "Figures"
    table = third.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for row, column, words in ((0, 0, "a"), (0, 1, "b"), (1, 0, "1"), (1, 1, "2")):
        table.cell(row, column).text = words
    data = CategoryChartData()
    data.categories = ["2023", "2024"]
    data.add_series("Sales", (1.5, 2))
    third.shapes.add_chart(XL_CHART_TYPE.LINE, Inches(1), Inches(4), Inches(4), Inches(2), data)
    target = io.BytesIO()
    deck.save(target)
    return target.getvalue()


def test_a_presentation_has_a_page_a_slide():
    found = read_document("a.pptx", presentation())
    assert (
        found.text
        == """# The plan

- begin
  - small
- go on

Notes: Smile.

# Figures

| a | b |
| --- | --- |
| 1 | 2 |

|  | Sales |
| --- | --- |
| 2023 | 1.5 |
| 2024 | 2 |
"""
    )
    assert found.title == "The plan"
    assert found.metadata == {"pages": 3}
    assert [found.text[start:].split("\n")[0] for start in found.page_starts] == ["# The plan", "", "# Figures"]


def test_a_presentation_whose_bytes_are_of_another_kind_says_so():
    with pytest.raises(DocumentError, match=r"cannot be read as PowerPoint .* it may be damaged"):
        read_document("a.pptx", archive({"ppt/presentation.xml": "<p/>"}))
