"""The lines of PDF pages, and what they say of structure: larger letters are headings, gaps and indents paragraphs.

A PDF places characters; it knows no paragraph. So this is guessing, and it errs on the side of plain text. Tables stay
lines of text.
"""

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import pypdfium2.raw as pdfium
from pypdfium2 import PdfTextPage

from rag_assets.reading.content import clean, is_clean
from rag_assets.reading.markdown_writing import escape_tags, heading, prose_lines

_HEADING_RATIO = 1.3  # to the size of most letters
_BOLD_HEADING_RATIO = 1.1
_MAX_HEADING = 200
_MAX_HEADING_LINES = 3
_GAP = 1.3  # to the usual distance of lines
_RUNNING_PAGES = 3
_FULL_PAGE = 5  # lines; a slide that is called as the one before keeps its name
_BOLD = re.compile(rb"bold|black|heavy|semib|demi|cmbx|sfbx|-b\b", re.IGNORECASE)
_DROPPED = "\ufffe"  # also what PDFium puts where it joins a word at a hyphen
_BEYOND_LATIN = re.compile("[\u0250-\u1dff\u2c00-\ufefe]+")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_BULLETS = frozenset("•‣◦▪●○■□–\uf0b7\uf0a7")
_BULLET = re.compile(f"^[{''.join(_BULLETS)}]\\s*")
_SENTENCE_END = re.compile(r"[.!?:;。！？][\"'”’)\]]*\s*$")


class Line(NamedTuple):
    """A line of text, how high its letters are, where it starts, and its baselines, all in points from the lower left.

    A line that PDFium joined at a hyphen ends on a lower baseline (`bottom`) than it starts on (`top`).
    """

    text: str
    size: float = 0.0
    bold: bool = False
    left: float = 0.0
    top: float = 0.0
    bottom: float = 0.0


def lines_of(page: PdfTextPage) -> list[Line]:
    """The lines of a page that are not blank, in PDFium's order."""
    text = page.get_text_range()
    letters = _Letters(page, text)
    text = _repaired(letters, text)
    sound = is_clean(text.replace("\r\n", "\n"))  # most pages are: no line need be looked at
    lines = []
    places = []
    start = 0
    for raw in text.split("\r\n"):
        joined = not sound and (_DROPPED in raw or "\x02" in raw)
        words = raw.strip() if sound else clean(raw.replace(_DROPPED, "").replace("\x02", "")).strip()
        if words:
            first, last = start + len(raw) - len(raw.lstrip()), start + len(raw.rstrip()) - 1
            left, top, size = letters.place(first)
            bottom = letters.place(last)[1] if joined and last != first else top
            lines.append(Line(words, size, left=left, top=top, bottom=bottom))
            places.append((first, last))
        start += len(raw) + 2
    common = Counter(line.size for line in lines).most_common(1)
    return [
        _looked_at(letters, line, *place) if line.size > common[0][0] * _BOLD_HEADING_RATIO else line
        for line, place in zip(lines, places, strict=True)
    ]


class _Letters:
    """The characters of a page by their place in its text. PDFium is asked thousands of times, into the same memory."""

    def __init__(self, page: PdfTextPage, text: str) -> None:
        self._page = page.raw
        # Characters that are not in the text are all that moves it against their list.
        self._all_in_text = pdfium.FPDFText_CountChars(self._page) == len(text)
        self._box = pdfium.FS_RECTF()
        self._x, self._y = ctypes.c_double(), ctypes.c_double()

    def place(self, position: int) -> tuple[float, float, float]:
        """Left edge, baseline and height; heights to half a point."""
        index = self._index(position)
        pdfium.FPDFText_GetLooseCharBox(self._page, index, self._box)
        pdfium.FPDFText_GetCharOrigin(self._page, index, self._x, self._y)
        return self._x.value, self._y.value, round(abs(self._box.top - self._box.bottom) * 2) / 2

    def is_bold(self, position: int) -> bool:
        """Whether the name of the font says so."""
        index = self._index(position)
        name = ctypes.create_string_buffer(100)
        pdfium.FPDFText_GetFontInfo(self._page, index, name, 100, ctypes.c_int())
        return bool(_BOLD.search(name.value))

    def is_noise(self, position: int) -> bool:
        """Whether no table of the font explains the character."""
        index = self._index(position)
        return bool(pdfium.FPDFText_HasUnicodeMapError(self._page, index) == 1)

    def _index(self, position: int) -> int:
        if self._all_in_text:
            return position
        index: int = pdfium.FPDFText_GetCharIndexFromTextIndex(self._page, position)
        return index


def _looked_at(letters: _Letters, line: Line, first: int, last: int) -> Line:
    """A line that may be a heading: large to its end, not only in its initial, and perhaps bold."""
    return line._replace(size=min(line.size, letters.place(last)[2]), bold=letters.is_bold(first))


def _repaired(letters: _Letters, text: str) -> str:
    """`text` of a page, of the same length, without two faults of PDFium in scripts that are not Latin.

    Characters of glyphs that no table explains are noise. And where one glyph stands for several letters that are
    written from right to left, PDFium has them backwards; they are known by their common origin.
    """
    if text.isascii() or not _BEYOND_LATIN.search(text):
        return text
    mended = list(text)
    for run in _BEYOND_LATIN.finditer(text):
        places = range(run.start(), run.end())
        for place in places:
            if letters.is_noise(place):
                mended[place] = _DROPPED
        if _RIGHT_TO_LEFT.search(run[0]):
            origins = [(place, letters.place(place)[:2]) for place in places]
            for _, group in groupby(origins, key=lambda placed: placed[1]):
                glyph = [place for place, _ in group]
                if sum(mended[place].isalpha() for place in glyph) > 1:
                    mended[glyph[0] : glyph[-1] + 1] = mended[glyph[0] : glyph[-1] + 1][::-1]
    return "".join(mended)


def without_running_lines(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    """`pages` without page numbers and with running headers on their first page only: what begins or ends most pages."""
    kept = [_without_number(page, str(number)) for number, page in enumerate(pages, 1)]
    filled = [page for page in kept if len(page) >= _FULL_PAGE]
    if len(filled) < _RUNNING_PAGES:
        return kept
    for edge in (0, -1):
        counts = Counter(_shape(page[edge]) for page in filled)
        running = {shape for shape, count in counts.items() if count * 2 > len(filled)}
        seen: set[str] = set()
        for page in filled:
            shape = _shape(page[edge])
            if shape in running:
                if shape in seen or not any(letter.isalpha() for letter in shape):
                    del page[edge]
                seen.add(shape)
    return kept


def _without_number(page: Sequence[Line], number: str) -> list[Line]:
    is_numbered = len(page) >= _FULL_PAGE and page[-1].text == number
    return list(page[:-1] if is_numbered else page)


def _shape(line: Line) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", line.text)


def page_blocks(pages: Sequence[Sequence[Line]]) -> list[list[str]]:
    """The Markdown blocks of each page."""
    letters: Counter[float] = Counter()
    for page in pages:
        for line in page:
            letters[line.size] += len(line.text)
    body = letters.most_common(1)[0][0] if letters else 0.0
    large = {line.size for page in pages for line in page if line.size > body and _is_heading(line, body)}
    levels = {size: level for level, size in enumerate(sorted(large, reverse=True), 1)}
    pitch = _usual_pitch(pages)
    return [list(_blocks(page, levels, body, pitch)) for page in pages]


def _is_heading(line: Line, body: float) -> bool:
    ratio = line.size / body if body else 0.0
    large = ratio >= _HEADING_RATIO or (line.bold and ratio >= _BOLD_HEADING_RATIO)
    return large and len(line.text) <= _MAX_HEADING and any(letter.isalpha() for letter in line.text)


def _usual_pitch(pages: Sequence[Sequence[Line]]) -> float:
    pitches = Counter(
        [
            round(before.bottom - after.top)
            for page in pages
            for before, after in pairwise(page)
            if before.bottom > after.top and before.size == after.size
        ]
    )
    return float(pitches.most_common(1)[0][0]) if pitches else 0.0


def _blocks(page: Sequence[Line], levels: dict[float, int], body: float, pitch: float) -> Iterator[str]:
    for level, run in groupby(_with_bullets(page), key=lambda line: _level(line, levels, body)):
        lines = list(run)
        if level and len(lines) <= _MAX_HEADING_LINES:
            yield heading(level, " ".join(line.text for line in lines))
            continue
        for paragraph in _paragraphs(lines, pitch):
            yield escape_tags(prose_lines("\n".join(line.text for line in paragraph)))


def _level(line: Line, levels: dict[float, int], body: float) -> int:
    return levels[line.size] if line.size > body and _is_heading(line, body) else 0


def _with_bullets(page: Sequence[Line]) -> Iterator[Line]:
    """Bullets become Markdown's; one that stands alone belongs to the line after it."""
    alone: Line | None = None
    for line in page:
        words = _BULLET.sub("", line.text) if line.text[:1] in _BULLETS else line.text
        if not words:
            alone = line
        elif alone or words != line.text:
            yield (alone or line)._replace(text=f"- {words}", bottom=line.bottom, size=line.size, bold=line.bold)
            alone = None
        else:
            yield line


def _paragraphs(lines: Sequence[Line], pitch: float) -> Iterator[list[Line]]:
    paragraph: list[Line] = []
    for line in lines:
        if paragraph and _begins_paragraph(paragraph[-1], line, pitch):
            yield paragraph
            paragraph = []
        paragraph.append(line)
    if paragraph:
        yield paragraph


def _begins_paragraph(before: Line, line: Line, pitch: float) -> bool:
    if not pitch:
        return False
    gap = before.bottom - line.top
    if gap < 0:  # the next column, or a text box
        return _ends_sentence(before)
    if gap > _GAP * max(pitch, line.size):
        return True
    if line.text.startswith("- "):  # lists are indented, and stay together
        return False
    return 0.6 * line.size < line.left - before.left < 4 * line.size and _ends_sentence(before)


def _ends_sentence(line: Line) -> bool:
    return bool(_SENTENCE_END.search(line.text))
