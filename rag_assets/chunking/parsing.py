"""Code becomes a syntax tree, unless that would take too long.

After an error, tree-sitter takes time that grows with the square of what follows: 150 kB of Python read as shell took 29
seconds (tree-sitter 0.26, November 2026). So a beginning is read first, and a text that is full of errors is not of its
language; and a file that no person wrote, by its size, is not parsed.
"""

from tree_sitter import Node, Parser

from rag_assets.chunking.languages import language_of
from rag_assets.records import Document

MAX_BYTES = 250_000

_BEGINNING = 8_000
_BYTES_PER_ERROR = 400
_ERRORS_OF_A_CUT = 10  # where the beginning stops is an error, or a few


def parse(document: Document) -> Node | None:
    """The root of the tree of `document.text` as UTF-8; None where there is no grammar, or it is no use here."""
    language = language_of(document)
    data = document.text.encode(errors="replace")
    if language is None or len(data) > MAX_BYTES:
        return None
    parser = Parser(language)
    size = _BEGINNING
    while size < len(data):
        if _is_full_of_errors(parser.parse(data[:size]).root_node, size):
            return None
        size *= 4
    root = parser.parse(data).root_node
    return None if _is_full_of_errors(root, len(data)) else root


def _is_full_of_errors(root: Node, size: int) -> bool:
    allowed = _ERRORS_OF_A_CUT + size // _BYTES_PER_ERROR
    todo = [root]
    while todo and allowed >= 0:
        node = todo.pop()
        allowed -= node.is_error or node.is_missing
        if node.has_error:
            todo += node.children
    return allowed < 0
