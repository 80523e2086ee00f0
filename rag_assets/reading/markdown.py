"""Markdown files: front matter is metadata, the first heading is the title, the rest is kept as written."""

from rag_assets.reading.blocks import read_outline
from rag_assets.reading.content import Content
from rag_assets.reading.decoding import decode
from rag_assets.reading.front_matter import split_front_matter


def read(data: bytes) -> Content:
    """`data` as text. Its title is that of the front matter, else its first heading (level 1 first)."""
    decoded = decode(data)
    matter = split_front_matter(decoded.text)
    named = matter.metadata.get("title")
    title = " ".join(str(named).split()) if isinstance(named, str | int | float) else ""
    return Content(
        matter.text,
        title=title or first_heading(matter.text),
        metadata=matter.metadata,
        first_line=matter.first_line,
        lossy=decoded.lossy,
    )


def first_heading(text: str) -> str:
    """The plain text of the first heading of level 1 in Markdown `text`, else of any level, else nothing."""
    headings = [block for block in read_outline(text).blocks if block.kind == "heading" and block.title]
    first = next((block for block in headings if block.level == 1), None) or next(iter(headings), None)
    return first.title if first else ""
