"""Markdown files: front matter is metadata, the first heading is the title, the rest is kept as written."""

from pathlib import PurePosixPath

from rag_assets.reading.blocks import read_outline
from rag_assets.reading.decoding import decode
from rag_assets.reading.front_matter import split_front_matter
from rag_assets.records import Document


def read_markdown(document: str, data: bytes) -> Document:
    """`data` as a document. Its title is that of the front matter, else its first heading (level 1 first), else its name."""
    decoded = decode(data)
    matter = split_front_matter(decoded.text)
    named = matter.metadata.get("title")
    title = " ".join(str(named).split()) if isinstance(named, str | int | float) else ""
    return Document(
        document=document,
        title=title or _first_heading(matter.text) or PurePosixPath(document).stem,
        mime="text/markdown",
        text=matter.text,
        metadata=matter.metadata,
        first_line=matter.first_line,
        lossy=decoded.lossy,
    )


def _first_heading(text: str) -> str:
    headings = [block for block in read_outline(text).blocks if block.kind == "heading" and block.title]
    first = next((block for block in headings if block.level == 1), None) or next(iter(headings), None)
    return first.title if first else ""
