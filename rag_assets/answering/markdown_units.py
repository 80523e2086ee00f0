"""Markdown as pieces: headings, sentences, list items, table rows and code, without the noise of site generators.

A chunk is a fragment: it may begin inside a code block or a nested list, and that is mended first.
"""

import html
import re
from collections.abc import Iterator, Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rag_assets.answering.units import (
    FENCE,
    LIST_LINE,
    MAX_PROSE,
    Heading,
    Piece,
    Unit,
    code_block,
    prose,
    without_markers,
)

_DIRECTIVE = re.compile(
    r"""\s*(?: /{3,}.*                          # Material's blocks: /// tip
             | :{3,}.*                          # Docusaurus, mkdocstrings
             | \{[*%:].*[*%]?\}                 # includes, templates, attribute lists
             | \{\{.*\}\}
             | (?:>\s*)*\[!\w+\]                # GitHub's alerts
           )\s*""",
    re.VERBOSE,
)
_ADMONITION = re.compile(r"\s*(?:!!!|\?\?\?\+?|===)\s+\S.*")
_SILENT_HTML = re.compile(r"<(style|script)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|code|dfn|em|i|kbd|mark|s|small|span|strong|sub|sup|u)\b[^<>]*>", re.IGNORECASE
)
_REFERENCE = re.compile(r"(?<!\w)\[(?P<words>(?!\d+\])[^\[\]^][^\[\]]*)\]\[[^\[\]]*\]|\[\^[^\[\]\s]+\]:?")
"""A link whose target is in another chunk; the mark of a footnote."""
_ATTRIBUTES = re.compile(r"\s*\{\s*[#.][^{}]*\}\s*$")
_CODE_LINE = re.compile(r"[{}();=<>\[\]$#]|^\s{2,}\S|^\s*(?:import|from|def|class|return|curl|pip|npm|\$)\b")


def markdown_pieces(text: str) -> Iterator[Piece]:
    """The pieces of `text` in reading order."""
    tokens = _parser().parse(_without_directives(_with_open_fence(text)))
    items: list[str] = []
    header: list[str] = []
    row: list[str] = []
    in_head = in_heading = False
    for position, token in enumerate(tokens):
        match token.type:
            case "heading_open":
                in_heading = True
            case "heading_close":
                in_heading = False
            case "hr":
                yield Heading("")
            case "list_item_open":
                items.append("  " * len(items) + (f"{token.info}{token.markup} " if token.info else "- "))
            case "list_item_close":
                items.pop()
            case "thead_open":
                in_head, header = True, []
            case "thead_close":
                in_head = False
            case "tr_open":
                row = []
            case "tr_close" if not in_head:
                yield Unit(_row(header, row), "row")
            case "inline" if in_heading:
                yield Heading(_inline(token))
            case "inline" if tokens[position - 1].type in ("th_open", "td_open"):
                (header if in_head else row).append(_inline(token))
            case "inline" if items and items[-1]:
                words, marker = _inline(token), items[-1]
                items[-1] = ""
                yield from (
                    [Unit(marker + without_markers(words), "item")] if len(words) <= MAX_PROSE else prose(words)
                )
            case "inline":
                yield from prose(_inline(token))
            case "html_block":
                yield from prose(_without_html(token.content))
            case "fence":
                yield code_block(token.content, token.info.split()[0].strip("{}.") if token.info.split() else "")
            case "code_block":
                yield code_block(token.content)


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _row(header: Sequence[str], cells: Sequence[str]) -> str:
    named = [
        f"{name}: {cell}" if name else cell
        for name, cell in zip([*header, *[""] * len(cells)], cells, strict=False)
        if cell
    ]
    return without_markers("; ".join(named))


def _inline(token: Token) -> str:
    """The words of a paragraph: link text for links, inline code as written, no emphasis, no tags."""
    out: list[str] = []
    kept: list[str] = []
    children = token.children or []
    for position, child in enumerate(children):
        match child.type:
            case "text" | "text_special":
                out.append(child.content)
            case "softbreak" | "hardbreak":
                out.append(" ")
            case "code_inline":
                out.append(f"`{child.content}`")
            case "html_inline":
                out.append(" " if re.match(r"<(br|p|li|td)\b", child.content, re.IGNORECASE) else "")
            case "em_open" | "strong_open":
                kept.append(child.markup if _is_not_emphasis(children, position, "".join(out[-1:])) else "")
                out.append(kept[-1])
            case "em_close" | "strong_close":
                out.append(kept.pop() if kept else "")
    words = _ATTRIBUTES.sub("", _REFERENCE.sub(r"\g<words>", "".join(out)))
    return " ".join(words.split())


def _is_not_emphasis(children: Sequence[Token], position: int, before: str) -> bool:
    """`2*3*4` and `__init__` are Markdown emphasis by the letter, and facts by intent."""
    inside = children[position + 1].content if position + 1 < len(children) else ""
    is_product = children[position].markup == "*" and before[-1:].isalnum() and inside[:1].isalnum()
    is_dunder = children[position].markup == "__" and re.fullmatch(r"[a-z][a-z0-9_]*", inside) is not None
    return is_product or is_dunder


def _without_html(content: str) -> str:
    words = _INLINE_TAG.sub("", _SILENT_HTML.sub(" ", content))
    return " ".join(html.unescape(_TAG.sub(" ", words)).split())


def _without_directives(text: str) -> str:
    """Lines that steer a site generator, taken out; the indented body of an admonition, moved to the margin."""
    lines: list[str] = []
    fence = ""
    shift = ""
    for line in text.expandtabs(4).splitlines():
        if shift and line.strip():
            if line.startswith(shift):
                line = line[len(shift) :]
            else:
                shift = ""
        mark = FENCE.match(line.lstrip()) if not fence or line.strip().startswith(fence) else None
        if mark:
            fence = "" if fence else mark["mark"]
        if fence or mark:
            lines.append(line)
        elif _ADMONITION.fullmatch(line):
            shift = " " * (len(line) - len(line.lstrip()) + 4)
            lines.append("")
        else:
            lines.append("" if _DIRECTIVE.fullmatch(line) else line)
    if lines and LIST_LINE.match(lines[0]):
        lines[0] = lines[0].lstrip()
    return "\n".join(lines)


def _with_open_fence(text: str) -> str:
    """A chunk may begin inside a code block: then its first fence closes one, and the opening must be put back."""
    text = text.strip("\n")
    fences = list(FENCE.finditer(text))
    if len(fences) % 2 == 0 or fences[0]["info"].strip() or not text[: fences[0].start()].strip():
        return text
    before = [line for line in text[: fences[0].start()].splitlines() if line.strip()]
    coded = sum(_CODE_LINE.search(line) is not None for line in before)
    return f"{fences[0]['mark']}\n{text}" if coded * 2 >= len(before) else text
