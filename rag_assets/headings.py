"""A text below the headings that say what it is about, for whoever reads it alone: full text, and rerankers."""

from collections.abc import Sequence

_BETWEEN = " > "


def with_headings(text: str, *, title: str | None, heading_path: Sequence[str]) -> str:
    """`text` below a line of the title and the headings above it, outermost first, each once."""
    line = _BETWEEN.join(dict.fromkeys(filter(None, [title, *heading_path])))
    return f"{line}\n{text}" if line else text
