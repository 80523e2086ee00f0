"""Files that other people made (shared/corpora/formats): what they say is found, and what cannot be read says why."""

from pathlib import Path

import pytest

from rag_assets.reading.documents import read_document
from rag_assets_tests.format_outcomes import outcomes

FORMATS = Path(__file__).parents[3] / "shared" / "corpora" / "formats"

pytestmark = pytest.mark.skipif(not FORMATS.is_dir(), reason="shared/corpora/formats is not beside the repository")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("office/test.docx", "## d666f1f7-46cb-42bd-9a39-9a39cf2a509f\n"),
        ("office/test.docx", "| 13 | 14 | 49e168b7-d2ae-407f-a055-2167576f39a1 | 15 | 16 | 17 |\n"),
        ("office/equations.docx", "The angle is θ=sin^(-1)(2.2×10^(-4))=2.2×10^(-4)rad.\n"),
        ("office/test.pptx", "| 7 | 8 | 9 | 1b92870d-e3b5-4e65-8153-919f4ff45592 | 11 | 12 |\n"),
        ("office/test.pptx", "a3f6004b-6f4f-4ea8-bee3-3741f4dc385f\n\n|  | Series 1 |\n| --- | --- |\n"),
        (
            "office/test.xlsx",
            "## Sheet1\n\n| Alpha | Beta | Gamma | Delta |\n| --- | --- | --- | --- |\n| 89 | 82 | 100 | 12 |\n",
        ),
        ("office/test.epub", "# Chapter 1: Test Content\n\nThis is a test paragraph with some formatting.\n"),
        ("office/test_blog.html", "## Experiment Setup\n\nWe use AutoGen to select between the following models"),
        ("office/test_wikipedia.html", "| Year | Revenue in million US$ | Net income in million US$ |"),
        ("office/test_notebook.ipynb", '```python\nprint("markitdown")\n```\n\n```text\nmarkitdown\n```\n'),
        ("office/test_mskanji.csv", "| 髙橋淳 | 35 | 名古屋 |\n"),
        ("pdf/multicolumn.pdf", "# Two-Column Document with Lorem Ipsum\n"),
        (
            "pdf/multicolumn.pdf",
            "dignissim rutrum.\n\nNam dui ligula, fringilla a, euismod sodales, sollicitudin vel, wisi.",
        ),
        ("pdf/pdflatex-outline.pdf", "# 4 Foo\n\nHello, here is some text without a meaning."),
        ("pdf/habibi.pdf", "habibi حَبيبي\n"),
        ("pdf/crazyones-pdfa.pdf", "# The Crazy Ones\n\nOctober 14, 1998\n"),
    ],
)
def test_what_a_file_says_is_in_its_text(name, part):
    assert part in read_document(name, (FORMATS / name).read_bytes()).text


def test_pages_of_a_real_pdf_begin_where_their_text_does():
    found = read_document("a.pdf", (FORMATS / "pdf" / "pdflatex-outline.pdf").read_bytes())
    assert [found.text[start:].partition("\n")[0] for start in found.page_starts[:2]] == ["# Contents", "# 1 Foo"]


def test_every_file_is_read_or_says_why_not():
    aside = {name: outcome for name, _, outcome in outcomes(FORMATS) if outcome.startswith("set aside: ")}
    pictures = "set aside: it holds no text on its one page, only pictures or nothing; run OCR on it first"
    assert {name: outcome[: len(pictures)] for name, outcome in aside.items() if "OCR" in outcome} == {
        "pdf/grayscale-image.pdf": pictures,
        "pdf/imagemagick-ASCII85Decode.pdf": pictures,
        "pdf/imagemagick-CCITTFaxDecode.pdf": pictures,
        "pdf/imagemagick-lzw.pdf": pictures,
    }
    assert {name: outcome.partition(";")[0] for name, outcome in aside.items() if "OCR" not in outcome} == {
        "office/random.bin": "set aside: its content is binary data (114 control characters in 1,024 bytes), not text",
        "pdf/libreoffice-writer-password.pdf": "set aside: it is protected by a password",
    }
