"""What a passage is made of: sentences, list items, table rows and code blocks, cleaned for a reader.

A unit is the smallest piece that may be quoted on its own. Prose loses its Markdown noise (emphasis, link targets,
HTML tags, admonition markers, headings) and nothing else; code stays as it is written. Which units answer a question
is decided in `extractive.py`.
"""

import html
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import PurePosixPath
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rag_assets.answering.sentences import ends_a_sentence, split_sentences
from rag_assets.records import Passage

Kind = Literal["sentence", "item", "row", "code"]

MAX_INTRODUCED_LINES = 15
MAX_CODE_LINES = 40
_MAX_PROSE = 600
_PLAIN = frozenset({".txt", ".text", ".log", ".pdf", ".eml"})
_CODE_SUFFIXES = """
.py .js .ts .jsx .tsx .go .rs .java .kt .c .h .cc .cpp .hpp .cs .rb .php .sh .bash .sql .yaml .yml .toml .ini .json .xml
"""
_CODE = frozenset(_CODE_SUFFIXES.split())
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)
_DIRECTIVE = re.compile(
    r"""\s*(?: /{3,}.*                          # Material's blocks: /// tip
             | :{3,}.*                          # Docusaurus, mkdocstrings
             | \{[*%:].*[*%]?\}                 # includes, templates, attribute lists
             | \{\{.*\}\}
             | (?:>\s*)*\[!\w+\]                # GitHub's alerts
             | \[\^?[^\]]+\]:\s+\S+.*           # link definitions
           )\s*""",
    re.VERBOSE,
)
_ADMONITION = re.compile(r"\s*(?:!!!|\?\?\?\+?|===)\s+\S.*")
_SILENT_HTML = re.compile(r"<(style|script)\b.*?(?:</\1\s*>|\Z)|<!--.*?(?:-->|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|code|dfn|em|i|kbd|mark|s|small|span|strong|sub|sup|u)\b[^<>]*>", re.IGNORECASE
)
_ATTRIBUTES = re.compile(r"\s*\{\s*[#.][^{}]*\}\s*$")
_ASKS = ("?", "？", "؟", '?"', "?*")
_LIST_LINE = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_FOOTNOTE = re.compile(r"(?:\s+|(?<![\w)\]\s]))\[\d{1,3}(?:,\s?\d{1,3})*\]")
_CODE_LINE = re.compile(r"[{}();=<>\[\]$#]|^\s{2,}\S|^\s*(?:import|from|def|class|return|curl|pip|npm|\$)\b")


@dataclass(frozen=True)
class Heading:
    """A heading, or a rule (without text). It separates and says what follows is about; it is not quoted."""

    text: str


@dataclass(frozen=True)
class Unit:
    """A quotable piece of a passage.

    `text` is shown (a list item keeps its indentation). `block` is what `text` introduces ("… like this:") or, for
    code, the fenced block itself. `heading` is the nearest one above. A unit is `cut` when the chunk holds only part
    of the sentence, and `dangling` when it leans on something that is not there.
    """

    text: str
    kind: Kind
    block: str = ""
    heading: str = ""
    flaw: Literal["", "cut", "dangling"] = ""

    @property
    def meaning(self) -> str:
        """What is compared with a question: the words without list markers and fences."""
        words = _LIST_LINE.sub("", self.text, count=1) if self.kind == "item" else self.text
        return f"{words} {_FENCE.sub('', self.block)}".strip()


_Piece = Unit | Heading


def units_of(passage: Passage) -> list[Unit]:
    """The units of `passage` in reading order; a passage with any text has at least one."""
    suffix = PurePosixPath(passage.document).suffix.lower()
    text = passage.text
    if suffix in _CODE:
        pieces: Iterator[_Piece] = iter([_code(text, suffix[1:])] if text.strip() else [])
    elif suffix in _PLAIN and not _FENCE.search(text):
        pieces = _plain(text)
    else:
        pieces = _markdown(text)
    above = passage.heading_path[-1] if passage.heading_path else passage.title
    headings: list[str] = []
    units: list[Unit] = []
    for piece in _joined(list(pieces)):
        if isinstance(piece, Heading):
            headings.append(piece.text)
        elif piece.text.strip() or piece.block:
            units.append(replace(piece, heading=headings[-1] if headings else above))
    if not units:
        units = [Unit(text, "sentence", flaw="cut") for text in headings if text]
    return _mark_cut_ends(units, passage)


def _mark_cut_ends(units: list[Unit], passage: Passage) -> list[Unit]:
    """A chunk that was cut inside a sentence begins in lower case, or stops without a mark where others have one.

    Elsewhere a beginning in lower case carries on from something that is not prose, and leans on it.
    """
    units = [
        replace(unit, flaw=unit.flaw or "dangling")
        if number and unit.kind == "sentence" and unit.text[:1].islower() and unit.text != unit.text.lower()
        else unit
        for number, unit in enumerate(units)
    ]
    if len(units) > 1 and units[0].kind == "sentence" and passage.start_char > 0 and units[0].text[:1].islower():
        units[0] = replace(units[0], flaw="cut")
    if len(units) > 1 and units[-1].kind == units[-2].kind == "sentence" and not units[-1].block:
        stops = ends_a_sentence(units[-1].text)
        if not stops and ends_a_sentence(units[-2].text) and not passage.text.rstrip(" ").endswith("\n"):
            units[-1] = replace(units[-1], flaw="cut")
    return units


# Plain text


def _plain(text: str) -> Iterator[_Piece]:
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
        is_wrapped = len(lines) > 1 and all(len(line) >= 40 for line in lines[:-1])
        is_list = any(_LIST_LINE.match(line) for line in lines)
        if is_wrapped and not is_list:
            yield from _prose(" ".join(lines))
        else:
            for line in lines:
                yield from [Unit(line, "item")] if _LIST_LINE.match(line) else _prose(line)


def _prose(text: str) -> Iterator[Unit]:
    for sentence in split_sentences(_distinct_markers(text)):
        for piece in _bounded(sentence):
            yield Unit(piece, "sentence")


def _bounded(sentence: str) -> list[str]:
    """Text without sentence marks, cut into readable windows. The cut shows as an ellipsis."""
    if len(sentence) <= _MAX_PROSE:
        return [sentence]
    pieces = textwrap.wrap(sentence, _MAX_PROSE // 2, break_on_hyphens=False)
    return [
        f"{'… ' if number else ''}{piece}{' …' if number < len(pieces) - 1 else ''}"
        for number, piece in enumerate(pieces)
    ]


def _distinct_markers(text: str) -> str:
    """Numbers in brackets would read as our own citations: footnote marks go, `names[0]` becomes code."""
    parts = re.split(r"(`[^`]*`)", text)
    for position in range(0, len(parts), 2):
        part = _FOOTNOTE.sub("", parts[position])
        parts[position] = re.sub(r"[\w.)\]]*[\w)]\[\d{1,3}\](?:\[\d{1,3}\])*", r"`\g<0>`", part)
    return "".join(parts).strip()


def _code(content: str, language: str = "") -> Unit:
    lines = textwrap.dedent(content.strip("\n")).rstrip().splitlines()
    if len(lines) > MAX_CODE_LINES:
        lines = [*lines[:MAX_CODE_LINES], "…"]
    longest = max((len(run) for run in re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return Unit("", "code", block="\n".join([f"{fence}{language}", *lines, fence]))


# Markdown


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _markdown(text: str) -> Iterator[_Piece]:
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
                    [Unit(marker + _distinct_markers(words), "item")] if len(words) <= _MAX_PROSE else _prose(words)
                )
            case "inline":
                yield from _prose(_inline(token))
            case "html_block":
                yield from _prose(_without_html(token.content))
            case "fence":
                yield _code(token.content, token.info.split()[0].strip("{}.") if token.info.split() else "")
            case "code_block":
                yield _code(token.content)


def _row(header: Sequence[str], cells: Sequence[str]) -> str:
    named = [
        f"{name}: {cell}" if name else cell
        for name, cell in zip([*header, *[""] * len(cells)], cells, strict=False)
        if cell
    ]
    return _distinct_markers("; ".join(named))


def _joined(pieces: Sequence[_Piece]) -> Iterator[_Piece]:
    """Join a colon with the code or the list that it introduces, if that is short, and a question with its answer."""
    position = 0
    while position < len(pieces):
        piece = pieces[position]
        position += 1
        if isinstance(piece, Unit) and piece.kind == "sentence" and piece.text.endswith(_ASKS):
            while position < len(pieces) and piece.text.endswith(_ASKS):
                answer = pieces[position]
                if isinstance(answer, Heading) or answer.kind != "sentence":
                    break
                piece = replace(piece, text=f"{piece.text} {answer.text}")
                position += 1
            if piece.text.endswith(_ASKS):
                piece = replace(piece, flaw="dangling")
        if isinstance(piece, Unit) and piece.kind in ("sentence", "item") and piece.text.endswith((":", "：")):
            block, count = _introduced(pieces[position:], piece)
            if count and len(block.splitlines()) <= MAX_INTRODUCED_LINES + 2:
                piece = replace(piece, block=block)
                position += count
            else:
                piece = replace(piece, flaw="dangling")
        yield piece


def _introduced(following: Sequence[_Piece], introduction: Unit) -> tuple[str, int]:
    """What follows an introduction, and of how many pieces it is made."""
    first = following[0] if following else None
    if not isinstance(first, Unit) or first.kind == introduction.kind:
        return "", 0
    if first.kind == "code":
        return first.block, 1
    texts: list[str] = []
    for unit in following:
        if isinstance(unit, Heading) or unit.kind != first.kind:
            break
        texts.append(unit.text if unit.kind == "item" else f"- {unit.text}")
    return "\n".join(texts), len(texts)


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
    words = _ATTRIBUTES.sub("", "".join(out))
    return " ".join(_TAG.sub("", words).split())


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
        mark = _FENCE.match(line.lstrip()) if not fence or line.strip().startswith(fence) else None
        if mark:
            fence = "" if fence else mark["mark"]
        if fence or mark:
            lines.append(line)
        elif _ADMONITION.fullmatch(line):
            shift = " " * (len(line) - len(line.lstrip()) + 4)
            lines.append("")
        else:
            lines.append("" if _DIRECTIVE.fullmatch(line) else line)
    if lines and _LIST_LINE.match(lines[0]):
        lines[0] = lines[0].lstrip()
    return "\n".join(lines)


def _with_open_fence(text: str) -> str:
    """A chunk may begin inside a code block: then its first fence closes one, and the opening must be put back."""
    text = text.strip("\n")
    fences = list(_FENCE.finditer(text))
    if len(fences) % 2 == 0 or fences[0]["info"].strip() or not text[: fences[0].start()].strip():
        return text
    before = [line for line in text[: fences[0].start()].splitlines() if line.strip()]
    coded = sum(_CODE_LINE.search(line) is not None for line in before)
    return f"{fences[0]['mark']}\n{text}" if coded * 2 >= len(before) else text
