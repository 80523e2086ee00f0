"""What the embedder sees of a chunk: its text, or the template of the corpus filled in.

A vector is kept under the hash of what was embedded, so a template that leaves a chunk as it was costs nothing. What
readers see and cite is the chunk's text all the same.
"""

import functools
import string
from collections.abc import Sequence

PLACES = ("title", "heading_path", "text")
_BETWEEN_HEADINGS = " > "


def check_template(template: str) -> str:
    """`template` again. Raises `ValueError` when it is no template, holds an unknown place, or leaves the text out."""
    allowed = ", ".join(f"{{{place}}}" for place in PLACES)
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{template!r} is no template: {error}; a brace is written {{{{ or }}}}") from None
    for _, place, how, conversion in parts:
        if place is not None and (place not in PLACES or how or conversion):
            written = f"{{{place}{f'!{conversion}' if conversion else ''}{f':{how}' if how else ''}}}"
            raise ValueError(f"{written} is unknown; allowed: {allowed}; a brace is written {{{{ or }}}}")
    if "text" not in [place for _, place, _, _ in parts]:
        raise ValueError(f"{template!r} leaves the text out; allowed: {allowed}, and {{text}} must be there")
    return template


def uses_title(template: str | None) -> bool:
    """Whether what is embedded depends on the title of the document."""
    return template is not None and "title" in [place for _, place in _parse(template)]


def embedded_text(template: str | None, *, title: str, heading_path: Sequence[str], text: str) -> str:
    """What the embedder sees; the text itself where there is no template. Its SHA-256 is the key of its vector.

    What stands in the template between one place and the next is left out where the next is empty, up to the line's start.
    """
    if template is None:
        return text
    values = {"title": title, "heading_path": _BETWEEN_HEADINGS.join(heading_path), "text": text}
    filled = []
    for literal, place in _parse(template):
        value = values[place] if place else ""
        filled.append(literal if value or place is None else literal[: literal.rfind("\n") + 1])
        filled.append(value)
    return "".join(filled)


@functools.cache
def _parse(template: str) -> Sequence[tuple[str, str | None]]:
    return [(literal, place) for literal, place, _, _ in string.Formatter().parse(template)]
