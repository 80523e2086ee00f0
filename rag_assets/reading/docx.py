"""Word documents: Mammoth reads styles, lists, tables and notes into HTML, and that becomes Markdown.

Headers, footers, comments and deleted text are left out. Of pictures the description is kept, of equations the text.
"""

import io
import re
import zipfile

import mammoth

from rag_assets.reading.archives import Bounds, read_part
from rag_assets.reading.content import Content, clean, one_line
from rag_assets.reading.html_markdown import fragment_blocks
from rag_assets.reading.markdown_writing import join_blocks
from rag_assets.reading.office import open_office, properties
from rag_assets.reading.office_math import with_math_as_text

BOUNDS = Bounds(markup=96 << 20)
"""Mammoth builds two trees of Python objects, about thirty times the size of the XML."""

_BODY = "word/document.xml"
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name='Source Code'] => pre:separator('\\n')
p[style-name='Code'] => pre:separator('\\n')
r[style-name='HTML Code'] => code
"""
_BACK_TO_TEXT = re.compile(r'<a href="#(?:foot|end)note-ref-[^"]*">↑</a>')


def read(data: bytes) -> Content:
    """`data` as Markdown. Its title is the one in its properties, else its first heading of level 1."""
    with open_office(data, BOUNDS) as archive:
        named = properties(archive)
        body = read_part(archive, _BODY) if _BODY in archive.namelist() else b""
        source = _replaced(archive, _BODY, with_math_as_text(body)) if b":oMath" in body else data
    converted = mammoth.convert_to_html(
        io.BytesIO(source), style_map=_STYLES, convert_image=mammoth.images.img_element(_no_picture)
    )
    blocks = fragment_blocks(_BACK_TO_TEXT.sub("", converted.value))
    title = next((block[2:] for block in blocks if block.startswith("# ")), "")
    metadata = {key: value for key, value in named.items() if key != "title"}
    return Content(clean(join_blocks(blocks)), title=named.get("title") or one_line(title), metadata=metadata)


def _no_picture(image: object) -> dict[str, str]:  # noqa: ARG001 - Mammoth asks with the picture
    """The attributes of a picture besides its description."""
    return {}


def _replaced(archive: zipfile.ZipFile, name: str, content: bytes) -> bytes:
    """`archive` with other `content` in one part, and without pictures."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as copy:
        for part in archive.namelist():
            if not part.startswith("word/media/"):
                copy.writestr(part, content if part == name else read_part(archive, part))
    return target.getvalue()
