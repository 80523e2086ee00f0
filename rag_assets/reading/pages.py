"""Formats that have pages: their blocks as one text, and where in it each page begins."""

import re
from collections.abc import Sequence

from rag_assets.reading.content import clean

_OPEN_END = re.compile(r"[\w,;(–-]\s*\Z")
_STRUCTURE = ("#", "|", "```", "- ", ">")


def join_pages(pages: Sequence[Sequence[str]]) -> tuple[str, list[int]]:
    """The Markdown blocks of `pages` as one text, and the offset of each page. An empty page has no character.

    A blank line stands between pages, unless a sentence goes on: then it is a line end.
    """
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for blocks in pages:
        page = clean("\n\n".join(block for block in blocks if block)).strip("\n")
        if page and parts:
            parts.append("\n" if _goes_on(parts[-1], page) else "\n\n")
            length += len(parts[-1])
        starts.append(length)
        if page:
            parts.append(page)
            length += len(page)
    return "".join([*parts, "\n"] if parts else []), starts


def _goes_on(before: str, after: str) -> bool:
    last = before.rsplit("\n", 1)[-1]
    return after[:1].islower() and bool(_OPEN_END.search(last)) and not last.startswith(_STRUCTURE)
