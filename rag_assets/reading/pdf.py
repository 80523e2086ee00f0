"""PDF: the text of each page in reading order, with headings and paragraphs guessed from size and position.

PDFium finds characters and lines; `pdf_lines.py` makes blocks of them. Pictures of text hold no text: they need OCR first.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pypdfium2

from rag_assets.errors import DocumentError
from rag_assets.reading.archives import PROTECTED
from rag_assets.reading.content import Content, one_line
from rag_assets.reading.office import is_no_title
from rag_assets.reading.pages import join_pages
from rag_assets.reading.pdf_lines import Line, lines_of, page_blocks, without_running_lines

_DAMAGED = "it is no PDF that can be opened: cut short or damaged; copy it again, or open it and save it anew"
_PROPERTIES = ("Title", "Author", "Subject", "Keywords")
_CONTENTS = ("contents", "table of contents", "index")
_NOTHING = ("", "anonymous", "unspecified", "unknown")
_ONE_AT_A_TIME = threading.Lock()  # PDFium is not safe in two threads


def read(data: bytes) -> Content:
    """`data` as Markdown, with the start of each page. Raises `DocumentError` when there is no text on any page.

    A page that is damaged is blank, and makes the document lossy.
    """
    with _ONE_AT_A_TIME:
        try:
            pdf = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower():
                raise DocumentError(PROTECTED) from None
            raise DocumentError(_DAMAGED) from None
        try:
            named = {key: one_line(pdf.get_metadata_value(key)) for key in _PROPERTIES}
            pages = [_lines(pdf, number) for number in range(len(pdf))]
        finally:
            pdf.close()
    sound = [page for page in pages if page is not None]
    if not sound:
        raise DocumentError(_DAMAGED)
    if not any(sound):
        where = "its one page" if len(pages) == 1 else f"any of its {len(pages):,} pages"
        raise DocumentError(
            f"it holds no text on {where}, only pictures or nothing; run OCR on it first (ocrmypdf adds the text),"
            " or exclude it in corpora.yaml"
        )
    content = _content([page or [] for page in pages], named)
    return replace(content, lossy=len(sound) < len(pages))


def _content(pages: Sequence[Sequence[Line]], named: dict[str, str]) -> Content:
    blocks = page_blocks(without_running_lines(pages))
    text, starts = join_pages(blocks)
    title = "" if is_no_title(named["Title"]) else named["Title"]
    headings = [block.lstrip("# ") for page in blocks[:1] for block in page if block.startswith("#")]
    headings = [words for words in headings if words.lower() not in _CONTENTS]
    metadata = {key.lower(): named[key] for key in _PROPERTIES[1:] if named[key].lower() not in _NOTHING}
    return Content(
        text,
        title=title or next(iter(headings), ""),
        metadata={**metadata, "pages": len(pages)},
        page_starts=starts,
    )


def _lines(pdf: pypdfium2.PdfDocument, number: int) -> Sequence[Line] | None:
    """The lines of a page, None when it is damaged."""
    try:
        page = pdf[number]
    except pypdfium2.PdfiumError:
        return None
    try:
        text_page = page.get_textpage()
        try:
            return lines_of(text_page)
        finally:
            text_page.close()
    except pypdfium2.PdfiumError:
        return None
    finally:
        page.close()
