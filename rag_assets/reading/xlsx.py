"""Spreadsheets (Excel, OpenDocument): a heading a sheet, its rows a table. Formulas are read as their last results.

Calamine reads the cells. A line that stands alone above a table is its title, not its header.
"""

import datetime
import io
from collections.abc import Iterator, Sequence

import python_calamine

from rag_assets.errors import DocumentError
from rag_assets.reading.archives import PROTECTED, Bounds
from rag_assets.reading.content import Content, clean, one_line
from rag_assets.reading.markdown_writing import heading, join_blocks, paragraph, table
from rag_assets.reading.office import open_office, properties


def read(data: bytes) -> Content:
    """`data` as Markdown."""
    named: dict[str, str] = {}
    if data.startswith(b"PK"):
        with open_office(data, Bounds()) as archive:
            named = properties(archive)
    try:
        workbook = python_calamine.load_workbook(io.BytesIO(data))
    except python_calamine.PasswordError:
        raise DocumentError(PROTECTED) from None
    blocks = []
    for name in workbook.sheet_names:
        rows = [
            [value.strip() if type(value) is str else _written(value) for value in row]
            for row in workbook.get_sheet_by_name(name).iter_rows()
        ]
        parts = [part for part in _parts(rows) if part]
        blocks += [heading(2, name), *parts] if parts else []
    metadata = {key: value for key, value in named.items() if key != "title"}
    return Content(clean(join_blocks(blocks)), title=named.get("title", ""), metadata=metadata)


def _parts(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Tables, and the titles above them: a lone cell at the top, or after a blank row, in a sheet of several columns."""
    counts = [len(row) - row.count("") for row in rows]
    wide = max(counts, default=0) > 1
    pending: list[Sequence[str]] = []
    after_blank = True
    for row, filled in zip(rows, counts, strict=True):
        if filled == 1 and wide and after_blank:
            yield table(pending)
            pending = []
            yield paragraph(next(one_line(value) for value in row if value))
            continue
        after_blank = filled == 0
        if filled:
            pending.append(row)
    yield table(pending)


def _written(value: object) -> str:
    """A cell as a person would write it: no `.0` behind whole numbers, no midnight behind dates."""
    if type(value) is float:
        return f"{value:.15g}"
    if type(value) is bool:
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        return str(value.date()) if value.time() == datetime.time() else value.isoformat(" ")
    return str(value)
