"""Web pages: what is in them apart from scripts, styles and navigation, titled by `<title>` or the first heading."""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from rag_assets.reading.content import Content, clean, names, one_line
from rag_assets.reading.decoding import decode
from rag_assets.reading.html_markdown import blocks_of, parse_html
from rag_assets.reading.markdown_writing import heading, join_blocks
from rag_assets.reading.xml import declared_encoding

_META = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_META_BYTES = 4096
_SELF_CLOSED = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*?)?)/>")
_VOID = names("area base br col embed hr img input link meta param source track wbr")

# What pages hold for browsers and for finding one's way, by the names that site generators give it.
_NOISE = """
nav, [hidden], [aria-hidden="true"], [style*="display:none"], [style*="display: none"], [role="navigation"],
[role="search"], [role="contentinfo"], body > footer, body > * > footer, .headerlink, .hash-link, .anchor-link,
.mw-editsection, .mw-jump-link, .navbox, .vector-dropdown, .vector-menu, .navbar, .breadcrumbs, .skip-link, .sr-only,
.screen-reader-text, sup.reference, .noprint, .catlinks, .mw-indicators
"""
_MAIN = 'main, [role="main"]'
_MAIN_SHARE = 0.25


def read(data: bytes) -> Content:
    """`data` as Markdown."""
    found = _META.search(data, 0, _META_BYTES)
    declared = found[1].decode("ascii") if found else declared_encoding(data)
    decoded = decode(data, declared=declared)
    page = page_content(decoded.text)
    return Content(page.text, title=page.title, lossy=decoded.lossy)


def page_content(html: str) -> Content:
    """The Markdown of a whole page."""
    if html.lstrip()[:5].lower() == "<?xml":
        html = _opened(html)
    tree = parse_html(html)
    body = tree.body
    if body is None:
        return Content("", title=_title(tree))
    noise = {node.mem_id for node in tree.css(_NOISE)}
    main = _main_part(tree, body)
    blocks = blocks_of(main, noise)
    first = tree.css_first("h1")
    name = one_line(first.text_lexbor()) if first is not None else ""
    if name and blocks and main is not body and not any(block.startswith("# ") for block in blocks):
        blocks.insert(0, heading(1, name))
    return Content(clean(join_blocks(blocks)), title=_title(tree) or name)


def _opened(xhtml: str) -> str:
    """XHTML closes elements in their start tag, which in HTML only opens them: `<title/>` would swallow the page."""

    def opened(found: re.Match[str]) -> str:
        return found[0] if found[1].lower() in _VOID else f"<{found[1]}{found[2]}></{found[1]}>"

    return _SELF_CLOSED.sub(opened, xhtml)


def _title(tree: LexborHTMLParser) -> str:
    """The words of the page's own `<title>`; drawings in it have titles too."""
    named = tree.css_first("head > title, body > title")
    return one_line(named.text_lexbor()) if named is not None else ""


def _main_part(tree: LexborHTMLParser, body: LexborNode) -> LexborNode:
    """The element that says it is the main one, or the only article, if it holds a good part of the words."""
    marked = tree.css(_MAIN)
    articles = tree.css("article")
    candidates = marked[:1] or (articles if len(articles) == 1 else [])
    for candidate in candidates:
        if len(candidate.text_lexbor()) >= _MAIN_SHARE * len(body.text_lexbor()):
            return candidate
    return body
