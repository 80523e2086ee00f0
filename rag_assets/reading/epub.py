"""EPUB books: the chapters in reading order, each the XHTML page that it is."""

import posixpath
from collections.abc import Mapping
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from rag_assets.errors import DocumentError
from rag_assets.reading.archives import open_checked, parse_part, read_part
from rag_assets.reading.content import Content, clean, one_line
from rag_assets.reading.decoding import decode
from rag_assets.reading.html import page_content
from rag_assets.reading.xml import declared_encoding

_CONTAINER = "META-INF/container.xml"
_PAGES = ("application/xhtml+xml", "text/html")
_KEYS = {"creator": "author", "language": "language", "publisher": "publisher", "date": "date"}


def read(data: bytes) -> Content:
    """`data` as Markdown, titled as its metadata say."""
    with open_checked(data) as archive:
        names = set(archive.namelist())
        if "META-INF/encryption.xml" in names and "META-INF/rights.xml" in names:
            raise DocumentError("it is protected by digital rights management; exclude it in corpora.yaml")
        root_path = _root_path(parse_part(read_part(archive, _CONTAINER), _CONTAINER))
        package = parse_part(read_part(archive, root_path), root_path)
        chapters = []
        for item in _spine(package):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(root_path), unquote(item.get("href", ""))))
            is_contents = "nav" in item.get("properties", "").split()
            if item.get("media-type") in _PAGES and name in names and not is_contents:
                page = read_part(archive, name)
                chapters.append(page_content(decode(page, declared=declared_encoding(page)).text).text)
    named = _metadata(package)
    metadata = {_KEYS[key]: value for key, value in named.items() if key in _KEYS}
    text = "\n".join(chapter for chapter in chapters if chapter)
    return Content(clean(text), title=named.get("title", ""), metadata=metadata)


def _root_path(container: Element) -> str:
    for element in container.iter():
        if _local(element) == "rootfile" and element.get("full-path"):
            return element.get("full-path", "")
    raise DocumentError("its table of contents names no package; it is damaged: copy it again")


def _spine(package: Element) -> list[Element]:
    """The items of the book in reading order."""
    items = {element.get("id", ""): element for element in package.iter() if _local(element) == "item"}
    order = [element.get("idref", "") for element in package.iter() if _local(element) == "itemref"]
    return [items[name] for name in order if name in items]


def _metadata(package: Element) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for element in package.iter():
        name, words = _local(element), one_line(element.text or "")
        if words and str(element.tag).startswith("{http://purl.org/dc/elements/1.1/}"):
            found.setdefault(name, words)
    return found


def _local(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]
