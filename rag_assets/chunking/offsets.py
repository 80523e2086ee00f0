"""From the bytes that a parser counts to the code points that we count."""

import numpy as np
from tree_sitter import Node

_MAX_INDENTATION = 1000  # bytes; looking further back would take quadratic time in a file of one line


class Offsets:
    """Places of nodes in a text, as code points."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._characters = None
        if not text.isascii():
            data = np.frombuffer(text.encode(errors="replace"), dtype=np.uint8)
            self._characters = np.append(np.cumsum((data & 0xC0) != 0x80) - 1, len(text))

    def start(self, node: Node) -> int:
        """Where `node` starts."""
        return self._character(node.start_byte)

    def end(self, node: Node) -> int:
        """Where `node` ends."""
        return self._character(node.end_byte)

    def line(self, node: Node) -> int | None:
        """The start of the line that `node` begins; None if it begins in the middle of a line."""
        column = node.start_point.column
        if column > _MAX_INDENTATION:
            return None
        start = self._character(node.start_byte - column)
        return start if not self._text[start : self.start(node)].strip() else None

    def _character(self, byte: int) -> int:
        return byte if self._characters is None else int(self._characters[byte])
