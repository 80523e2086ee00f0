"""Pieces of Markdown: how every format that has structure writes its headings, lists, tables and code.

Here belongs the notation only; where the structure comes from is each format's own module. Blocks are joined with
`join_blocks`.
"""

import re
from collections.abc import Iterable, Sequence

from rag_assets.reading.content import one_line

# What would make a paragraph something else: a heading, a quote, a list item, a fence, an underline, a tag.
_OPENINGS = re.compile(
    r"^(#{1,6}(?=\s|$)|>|[-+*](?=\s)|`{3}|~{3}|[-=*_]+(?=\s*$))|^([0-9]{1,9})([.)])(?=\s)", re.MULTILINE
)
_STRUCTURE = re.compile(r"^(#{1,6}(?=\s|$)|>|`{3}|~{3}|[-=]+(?=\s*$))", re.MULTILINE)
# What those begin with, by which most texts are known to hold none of them, in a tenth of the time.
_OPENING_MARKS = "#>-+*`~=_0123456789"
_STRUCTURE_MARKS = "#>`~-="
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_RUNS = re.compile("`+")


def heading(level: int, text: str) -> str:
    """An ATX heading, nothing when `text` has no words."""
    words = one_line(text)
    return f"{'#' * min(max(level, 1), 6)} {words}" if words else ""


def paragraph(text: str) -> str:
    """`text` as prose: what Markdown would take for structure at the start of a line, or for a tag, is escaped."""
    return escape_openings(escape_tags(text))


def escape_tags(text: str) -> str:
    """`text` without anything that Markdown would take for an HTML tag."""
    return _TAG.sub(r"\<", text) if "<" in text else text


def escape_openings(text: str) -> str:
    """`text` whose lines do not begin as headings, quotes, items, fences or underlines do."""
    return _OPENINGS.sub(_escaped, text) if _may_open(text, _OPENING_MARKS) else text


def prose_lines(text: str) -> str:
    """Lines of a format without structure: what looks like a list stays one, but nothing becomes a heading or a fence."""
    return _STRUCTURE.sub(r"\\\1", text) if _may_open(text, _STRUCTURE_MARKS) else text


def _may_open(text: str, marks: str) -> bool:
    """Whether a line of `text` begins with one of `marks`."""
    return text[:1] in marks or ("\n" in text and any(f"\n{mark}" in text for mark in marks))


def code_span(text: str) -> str:
    """`text` as inline code, on one line."""
    words = " ".join(text.split())
    if not words:
        return ""
    ticks = "`" * (_longest_run(words) + 1)
    pad = " " if "`" in words else ""
    return f"{ticks}{pad}{words}{pad}{ticks}"


def fence(code: str, language: str = "") -> str:
    """`code` as a fenced block, nothing when it is blank."""
    body = code.strip("\n").rstrip()
    if not body:
        return ""
    ticks = "`" * max(3, _longest_run(body) + 1)
    return f"{ticks}{language}\n{body}\n{ticks}"


def list_item(marker: str, body: str) -> str:
    """A list item whose further lines are indented below its first."""
    indent = " " * (len(marker) + 1)
    first, *rest = body.split("\n")
    return "\n".join([f"{marker} {first}", *(indent + line if line else "" for line in rest)])


def table(rows: Sequence[Sequence[str]]) -> str:
    """`rows` as a pipe table whose first row is the header. Rows and columns that are blank throughout are left out."""
    filled, width = _filled(rows)
    return _pipe_table(filled[0], filled[1:], width) if filled else ""


def headless_table(rows: Sequence[Sequence[str]]) -> str:
    """As `table`, but all of `rows` are data: the header that Markdown asks for is blank."""
    filled, width = _filled(rows)
    return _pipe_table([], filled, width) if filled else ""


def table_row(cells: Sequence[str], width: int) -> str:
    """One line of a pipe table of `width` columns."""
    line = f"| {' | '.join(cells)} |" if cells else "|"
    return line + "  |" * (width - len(cells)) if len(cells) < width else line


def cell(text: str) -> str:
    """`text` as it may stand in a cell: one line, without bare pipes."""
    words = text.strip() if text.isprintable() else one_line(text)
    return words.replace("|", r"\|")


def join_blocks(blocks: Iterable[str]) -> str:
    """`blocks` that are not blank, with a blank line between them and a line end after the last."""
    text = "\n\n".join(block for block in blocks if block)
    return f"{text}\n" if text else ""


def _filled(rows: Sequence[Sequence[str]]) -> tuple[Sequence[Sequence[str]], int]:
    """The rows and columns of `rows` that are not blank, as they may stand in a table, and the number of columns."""
    filled = [cells for cells in map(_cells, rows) if any(cells)]
    width = max(map(len, filled), default=0)
    if any(len(row) == width and all(row) for row in filled):
        return filled, width
    used = [column for column in range(width) if any(column < len(row) and row[column] for row in filled)]
    if len(used) < width:
        filled = [[row[column] for column in used if column < len(row)] for row in filled]
    return filled, len(used)


def _cells(row: Sequence[str]) -> Sequence[str]:
    """`row` as `cell` writes each of it; most rows need nothing but looking at once."""
    cells = [*map(str.strip, row)]
    words = "".join(cells)
    return cells if words.isprintable() and "|" not in words else [*map(cell, cells)]


def _pipe_table(header: Sequence[str], body: Sequence[Sequence[str]], width: int) -> str:
    lines = [table_row(header, width), f"|{' --- |' * width}", *(table_row(row, width) for row in body)]
    return "\n".join(lines)


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"


def _longest_run(text: str) -> int:
    return max(map(len, _RUNS.findall(text)), default=0) if "`" in text else 0
