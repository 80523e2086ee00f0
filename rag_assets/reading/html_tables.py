"""Elements of HTML that several modules look at, and tables: cells that span rows and columns become pipe tables.

`html_markdown.py` fills the cells.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from selectolax.lexbor import LexborNode

from rag_assets.reading.markdown_writing import headless_table, table

_MARKER = re.compile(r"\s*^\s*(?:-|\d+\.) ", re.MULTILINE)
_MAX_COLUMNS = 200  # cells are not said again beyond; a hostile table would grow with the square of its rows

Kind = Literal["prose", "list", "structure"]


@dataclass(frozen=True)
class Block:
    """A block of Markdown. `structure` is a heading, a fence, a quote or a table."""

    kind: Kind
    text: str


class Cell:
    """A cell, and the blocks in it. One that holds more than words and lists is there for the layout."""

    def __init__(self, node: LexborNode, blocks: list[Block]) -> None:
        self.blocks = blocks
        self.is_header = node.tag == "th"
        attributes = node.attributes
        self.columns = min(max(number_of(attributes.get("colspan"), 1), 1), 50) if "colspan" in attributes else 1
        self.rows = min(max(number_of(attributes.get("rowspan"), 1), 1), 1000) if "rowspan" in attributes else 1

    @property
    def is_layout(self) -> bool:
        """Whether a pipe table cannot hold it."""
        return any(
            "\n" in block.text or block.text.startswith("#") for block in self.blocks if block.kind == "structure"
        )

    @property
    def text(self) -> str:
        """The words, on one line."""
        return " ".join(
            _MARKER.sub("; ", block.text).removeprefix("; ") if block.kind == "list" else block.text
            for block in self.blocks
        )


def as_table(rows: Sequence[Sequence[Cell]]) -> str:
    """Cells that reach over columns are followed by blank ones; those that reach over rows are said again in each."""
    grid: list[list[str]] = []
    pending: dict[int, tuple[int, str]] = {}
    for row in rows:
        line: list[str] = []
        for cell in row:
            _say_again(line, pending)
            if cell.rows > 1:
                pending[len(line)] = (cell.rows - 1, cell.text)
            line += [cell.text, *[""] * (cell.columns - 1)]
        _say_again(line, pending)
        grid.append(line)
    heads = [all(cell.is_header for cell in row) for row in rows]
    sides = sum(row[0].is_header for row in rows)
    return table(grid) if heads[0] or sides * 2 <= len(rows) else headless_table(grid)


def _say_again(line: list[str], pending: dict[int, tuple[int, str]]) -> None:
    while len(line) in pending and len(line) < _MAX_COLUMNS:
        left, text = pending.pop(len(line))
        if left > 1:
            pending[len(line)] = (left - 1, text)
        line.append(text)


def rows_of(node: LexborNode) -> Iterator[list[LexborNode]]:
    """The cells of each row of a table, without those of tables in it."""
    for child in elements(node):
        if child.tag in ("thead", "tbody", "tfoot"):
            yield from rows_of(child)
        elif child.tag == "tr":
            yield [cell for cell in elements(child) if cell.tag in ("td", "th")]


def elements(node: LexborNode) -> Iterator[LexborNode]:
    """The elements right below `node`."""
    child = node.first_child
    while child is not None:
        if child.is_element_node:
            yield child
        child = child.next


def number_of(text: str | None, otherwise: int) -> int:
    """The number that an attribute holds, `otherwise` where it holds none of at most six digits."""
    return int(text) if text and re.fullmatch(r"\s*\d{1,6}\s*", text) else otherwise
