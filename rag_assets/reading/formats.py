"""Which module reads which ending. A new format is a module with one function, and one line here."""

from collections.abc import Callable, Mapping

from rag_assets.reading.markdown import read_markdown
from rag_assets.reading.plain import read_plain
from rag_assets.records import Document

Reader = Callable[[str, bytes], Document]
"""Path in the corpus and bytes to a document. Raises `DocumentError` for bytes that are not of the format."""

FORMATS: Mapping[str, Reader] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_plain,
}
