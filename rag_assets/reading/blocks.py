"""Markdown text as the flat list of its blocks: where the headings, fences, lists and paragraphs are.

markdown-it-py reads the block structure (CommonMark and tables), so a `#` inside a fence, an indented block, a comment
or a list item is no heading here. Inline markup is left alone but in headings, whose plain text names a section. Titles
and chunks are made from this list.
"""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

Kind = Literal["heading", "paragraph", "fence", "list", "rule", "other"]

_KINDS: dict[str, Kind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "fence": "fence",
    "code_block": "fence",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "hr": "rule",
}
_CODE = ("fence", "code_block")
_ATTRIBUTES = re.compile(r"\s*\{[^{}]*\}\s*$")
_MARKUP = re.compile(r"[\\`*_\[<&]")
_MAX_HEADING_CHARACTERS = 500


@dataclass(frozen=True)
class Block:
    """Whole lines `text[start:end]`. `level` and `title` say more of a heading; `items` are where a list's items start."""

    kind: Kind
    start: int
    end: int
    level: int = 0
    title: str = ""
    items: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outline:
    """`blocks` in order; together they cover every line that is not blank. `fences` are the ranges of whole lines that
    hold fenced or indented code, also inside lists and quotes, ascending."""

    blocks: Sequence[Block]
    fences: Sequence[tuple[int, int]]


def read_outline(text: str) -> Outline:
    """The blocks of Markdown `text`.

    A heading's title is its plain text without markup or attributes (`{#id}`), at most 500 characters.
    """
    lines = _line_starts(text)
    tokens = _block_parser().parse(text)
    blocks: list[Block] = []
    covered = 0
    for block in _blocks(tokens, lines):
        blocks += _rest(text, covered, block.start)
        blocks.append(block)
        covered = block.end
    blocks += _rest(text, covered, len(text))
    return Outline(
        blocks, [(lines[token.map[0]], lines[token.map[1]]) for token in tokens if token.type in _CODE and token.map]
    )


@functools.cache
def _block_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["block"])
    return parser


@functools.cache
def _inline_parser() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _line_starts(text: str) -> list[int]:
    """Where each line starts; the end of the text twice at the end, because the last line may lack its line end."""
    return [0, *(found.end() for found in re.finditer("\n", text)), len(text), len(text)]


def _blocks(tokens: Sequence[Token], lines: Sequence[int]) -> Iterator[Block]:
    for index, token in enumerate(tokens):
        if token.level or not token.map:
            continue
        first, after = token.map
        kind = _KINDS.get(token.type, "other")
        heading = kind == "heading"
        yield Block(
            kind,
            lines[first],
            lines[after],
            level=int(token.tag[1:]) if heading else 0,
            title=_plain(tokens[index + 1].content) if heading else "",
            items=_items(tokens, index, lines) if kind == "list" else (),
        )


def _items(tokens: Sequence[Token], index: int, lines: Sequence[int]) -> tuple[int, ...]:
    starts = []
    for token in tokens[index + 1 :]:
        if token.level == 0:
            break
        if token.level == 1 and token.type == "list_item_open" and token.map:
            starts.append(lines[token.map[0]])
    return tuple(starts)


def _rest(text: str, start: int, end: int) -> list[Block]:
    """What the parser makes no block of, such as link definitions."""
    return [Block("other", start, end)] if text[start:end].strip() else []


def _plain(markdown: str) -> str:
    markdown = _ATTRIBUTES.sub("", markdown[:_MAX_HEADING_CHARACTERS])
    if not _MARKUP.search(markdown):
        return " ".join(markdown.split())
    parts = []
    for token in _inline_parser().parseInline(markdown)[0].children or ():
        if token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type != "html_inline":
            parts.append(token.content)
    return " ".join("".join(parts).split())
