"""The statements of SQL text, in any dialect: a statement ends at a semicolon outside of quotes, comments and bodies.

There is a grammar for SQL, of 14 MB, and it reads one dialect; statements are all that is needed here.
"""

import re
from collections.abc import Iterator

from rag_assets.chunking.units import Unit

_MARK = re.compile(
    r"""(?P<skip>'[^']*+(?:'|\Z)|"[^"]*+(?:"|\Z)|`[^`]*+(?:`|\Z)|--[^\n]*+|/\*.*?(?:\*/|\Z)|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z))
      | (?P<inner>\bEND\s+(?:IF|LOOP|WHILE|REPEAT|FOR)\b)
      | (?P<opens>\b(?:BEGIN|CASE)\b)
      | (?P<closes>\bEND\b)
      | (?P<stop>;[^\S\n]*\n?|^GO[^\S\n]*(?:\n|\Z))
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_NAME = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?P<name>(?:CREATE|ALTER)\s+(?P<what>[^;(]{1,100}?))\s*(?:\(|\bAS\b|\bON\b|;|\n|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_HAS_BODY = re.compile(r"\b(?:PROCEDURE|PROC|FUNCTION|TRIGGER|PACKAGE)\b", re.IGNORECASE)
_LEADING_CHARACTERS = 5_000


def statement_units(text: str) -> Iterator[Unit]:
    """A unit for each statement, with the comments above it. CREATE and ALTER name what they make."""
    yield Unit(0, named=False)
    start = 0
    for end in (*_ends(text), len(text)):
        if end > start:
            name = _name(text, start)
            yield Unit(start, (name,) if name else (), named=bool(name))
        start = end


def _name(text: str, start: int) -> str:
    found = _NAME.match(text, start, start + _LEADING_CHARACTERS)
    return " ".join(found["name"].split()) if found else ""


def _ends(text: str) -> Iterator[int]:
    """Where statements end, their line end included. `BEGIN … END` hides semicolons in what is created with a body."""
    start = depth = 0
    has_body: bool | None = None
    for mark in _MARK.finditer(text):
        if mark["skip"] is not None or mark["inner"] is not None:
            continue
        if mark["stop"] is None:
            if has_body is None:
                has_body = _HAS_BODY.search(_name(text, start)) is not None
            if has_body:
                depth = depth + 1 if mark["opens"] else max(0, depth - 1)
            continue
        if depth and mark[0].startswith(";"):
            continue
        if mark.end() == len(text) or text[mark.end() - 1] == "\n":
            yield mark.end()
            start, depth, has_body = mark.end(), 0, None
