"""HTML elements as Markdown: headings, paragraphs, lists, tables and code; of links and emphasis the words.

Web pages, EPUB chapters, Word documents, e-mails and reStructuredText all come through here. Which part of a page is
worth keeping is decided in `html.py`.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import sub

from selectolax.lexbor import LexborHTMLParser, LexborNode

from rag_assets.errors import DocumentError
from rag_assets.reading.content import names
from rag_assets.reading.html_tables import Block, Cell, Kind, as_table, elements, number_of, rows_of
from rag_assets.reading.markdown_writing import code_span, escape_openings, escape_tags, fence, list_item

MAX_DEPTH = 2_000
"""Deeper pages are refused: parsing time grows with the square of the depth (lists: 0.1 s at 2,000, 28 s at 80,000)."""
_FLAT_DEPTH = 100  # below this many elements only the words are kept; pages that people wrote have 20 to 60

_SILENT = names(
    """
    audio base button canvas datalist dialog embed frameset head iframe input link map meta meter nav noscript object
    option progress script select source style svg template textarea title track video -comment
    """
)
_BLOCKS = names(
    """
    address article aside body caption center dd details dialog dir div dt fieldset figcaption figure footer form header
    hgroup html legend li main menu optgroup p search section summary tbody td tfoot th thead tr
    """
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CODE = names("code kbd samp tt")
_BREAK = "\0"  # no parser leaves one in a text
_TAG = re.compile(r"<(/?[A-Za-z][A-Za-z0-9]*)")
_CLOSES_ITSELF = names(
    "area base br col colgroup dd dt embed hr img input li link meta option p param source td th tr track wbr"
)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-|brush:\s*|sourceCode\s+|code\s+)([\w+#-]+)")
_NO_LANGUAGE = names("default none text plaintext literal-block notranslate")
_POWER = re.compile(r"[-+−]?\d{1,3}")


def parse_html(html: str) -> LexborHTMLParser:
    """The tree of `html`, however broken. Raises `DocumentError` when it is nested deeper than `MAX_DEPTH`."""
    if html.count("<") > MAX_DEPTH and _depth(html) > MAX_DEPTH:
        raise DocumentError(f"its HTML is nested deeper than {MAX_DEPTH:,} elements, as no page is that a person wrote")
    return LexborHTMLParser(html)


def _depth(html: str) -> int:
    """About how deep `html` is nested: the most that its start tags are ahead of its end tags from any point on."""
    tags = _TAG.findall(html)
    steps = {tag: _step(tag) for tag in set(tags)}
    ahead: list[int] = list(accumulate(map(steps.__getitem__, tags), initial=0))
    deepest: int = max(map(sub, ahead, accumulate(ahead, min)))
    return deepest


def _step(tag: str) -> int:
    if tag.lstrip("/").lower() in _CLOSES_ITSELF:
        return 0
    return -1 if tag.startswith("/") else 1


def fragment_blocks(html: str) -> list[str]:
    """The Markdown blocks of an HTML fragment."""
    body = parse_html(html).body
    return blocks_of(body) if body else []


def blocks_of(node: LexborNode, without: Collection[int] = frozenset()) -> list[str]:
    """The Markdown blocks of what is in `node`, except for the elements whose `mem_id` is in `without`."""
    writer = _Writer(without)
    writer.walk(node, 0)
    return [block.text for block in writer.finish()]


@dataclass
class _Writer:
    """Gathers words until a block ends. In `nested` ones, which make what is in a list or a quote, headings are prose."""

    without: Collection[int]
    nested: bool = False
    blocks: list[Block] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def finish(self) -> list[Block]:
        """End the last block and return all of them."""
        self.end()
        return self.blocks

    def end(self) -> None:
        """Make a block of the words that were gathered."""
        if not self.words:
            return
        lines = (" ".join(line.split()) for line in "".join(self.words).split(_BREAK))
        self.words = []
        text = "\n".join(line for line in lines if line)
        if text:
            self.blocks.append(Block("prose", escape_openings(text)))

    def add(self, kind: Kind, text: str) -> None:
        """Add a block that is ready, after what was gathered."""
        self.end()
        if text:
            self.blocks.append(Block(kind, text))

    def walk(self, node: LexborNode, depth: int) -> None:
        """Take in everything in `node`."""
        child = node.first_child
        while child is not None:
            tag = child.tag or ""
            if tag == "-text":
                self.words.append(escape_tags(child.text_content or ""))
            elif tag not in _SILENT and child.mem_id not in self.without:
                self._element(child, tag, depth + 1)
            child = child.next

    def cell(self, node: LexborNode, depth: int) -> Cell:
        """A cell of a table. Where tables lay out a page, headings in them are those of the page."""
        writer = _Writer(self.without, nested=self.nested)
        writer.walk(node, depth)
        return Cell(node, writer.finish())

    def inside(self, node: LexborNode, depth: int) -> list[Block]:
        """The blocks of `node` as they are in a list, a heading or a quote."""
        writer = _Writer(self.without, nested=True)
        writer.walk(node, depth)
        return writer.finish()

    def _element(self, node: LexborNode, tag: str, depth: int) -> None:
        if depth > _FLAT_DEPTH:
            self.words.append(f" {escape_tags(node.text_lexbor())} ")
        elif tag in _BLOCKS:
            self.end()
            self.walk(node, depth)
            self.end()
        elif tag in _HEADINGS:
            self._heading(node, _HEADINGS[tag], depth)
        elif tag in ("ul", "ol"):
            self._list(node, depth)
        elif tag == "pre":
            self.add("structure", fence(_code_text(node), _language_of(node)))
        elif tag == "table":
            self._table(node, depth)
        elif tag == "dl":
            self._definitions(node, depth)
        elif tag == "blockquote":
            quoted = "\n\n".join(block.text for block in self.inside(node, depth))
            self.add("structure", "\n".join(f"> {line}".rstrip() for line in quoted.split("\n")) if quoted else "")
        elif tag == "hr":
            self.end()
        elif tag in _CODE:
            self.words.append(code_span(node.text_lexbor()))
        else:
            self._inline(node, tag, depth)

    def _inline(self, node: LexborNode, tag: str, depth: int) -> None:
        if tag == "br":
            self.words.append(_BREAK)
        elif tag == "img":
            self.words.append(escape_tags(f" {node.attributes.get('alt') or ''} "))
        elif tag == "math":
            self.words.append(code_span(node.attributes.get("alttext") or "") or escape_tags(node.text_lexbor()))
        elif tag == "sup" and self.words and self.words[-1][-1:].isdigit() and _POWER.fullmatch(node.text_lexbor()):
            self.words.append(f"^{node.text_lexbor()}")
        else:
            self.walk(node, depth)

    def _heading(self, node: LexborNode, level: int, depth: int) -> None:
        self.end()
        words = " ".join(block.text for block in self.inside(node, depth))
        words = " ".join(words.split())
        if words:
            self.add("structure", words if self.nested else f"{'#' * level} {words}")

    def _list(self, node: LexborNode, depth: int) -> None:
        self.end()
        ordered = node.tag == "ol"
        number = number_of(node.attributes.get("start"), 1) if ordered else 1
        items = []
        for child in elements(node):
            if child.mem_id in self.without or child.tag in _SILENT:
                continue
            blocks = self.inside(child, depth) if child.tag == "li" else self._whole(child, depth)
            if blocks:
                items.append(list_item(f"{number}." if ordered else "-", _joined(blocks)))
                number += 1
        self.add("list", _items(items))

    def _whole(self, node: LexborNode, depth: int) -> list[Block]:
        """The blocks of something that stands in a list without being an item of it."""
        writer = _Writer(self.without, nested=True)
        writer._element(node, node.tag or "", depth + 1)
        return writer.finish()

    def _definitions(self, node: LexborNode, depth: int) -> None:
        """A list of terms, each with the definitions that follow it."""
        self.end()
        items: list[list[Block]] = []
        for child in _definition_parts(node):
            blocks = self.inside(child, depth)
            if child.tag == "dt" or not items:
                items.append(blocks)
            elif blocks and len(items[-1]) == 1 and items[-1][0].kind == blocks[0].kind == "prose":
                term = items[-1][0].text
                colon = "" if term.endswith((":", "：")) else ":"
                items[-1] = [Block("prose", f"{term}{colon} {blocks[0].text}"), *blocks[1:]]
            else:
                items[-1] += blocks
        self.add("list", _items([list_item("-", _joined(blocks)) for blocks in items if blocks]))

    def _table(self, node: LexborNode, depth: int) -> None:
        self.end()
        rows = [[self.cell(cell, depth) for cell in row] for row in rows_of(node)]
        rows = [row for row in rows if any(cell.blocks for cell in row)]
        for caption in elements(node):
            if caption.tag == "caption":
                self.walk(caption, depth)
                self.end()
        while rows and len(rows[0]) == 1 and len(rows) > 1:  # a title across the whole table
            self.blocks += rows.pop(0)[0].blocks
        if len(rows) < 2 or max(map(len, rows)) < 2 or any(cell.is_layout for row in rows for cell in row):
            for row in rows:
                for cell in row:
                    self.blocks += cell.blocks
            return
        self.add("structure", as_table(rows))


def _definition_parts(node: LexborNode) -> Iterator[LexborNode]:
    for child in elements(node):
        if child.tag == "div":
            yield from elements(child)
        elif child.tag not in _SILENT:
            yield child


def _joined(blocks: Sequence[Block]) -> str:
    """Blocks of one item: a list goes right below its introduction."""
    text = blocks[0].text if blocks else ""
    for block in blocks[1:]:
        text += ("\n" if block.kind == "list" else "\n\n") + block.text
    return text


def _items(items: Sequence[str]) -> str:
    return ("\n\n" if any("\n\n" in item for item in items) else "\n").join(items)


def _code_text(node: LexborNode) -> str:
    """The text of a `pre`, in which some pages break lines with `br`."""
    parts = []
    for inner in node.traverse(include_text=True):
        if inner.tag == "br":
            parts.append("\n")
        elif inner.tag == "-text":
            parts.append(inner.text_content or "")
    return "".join(parts)


def _language_of(node: LexborNode) -> str:
    """The language that a `pre`, the code in it, or the highlighter around it names."""
    around = node.parent
    wider = around.parent if around is not None else None
    for candidate in (node, node.first_child, around, wider):
        if candidate is not None and candidate.is_element_node:
            found = _LANGUAGE.search(candidate.attributes.get("class") or "")
            if found and found[1].lower() not in _NO_LANGUAGE:
                return found[1].lower()
    return ""
