"""The members of YAML and JSON text as a tree: keys and list items, and what is nested in them.

Both are scanned by their marks, line by line or bracket by bracket. Nothing is validated: a Helm template, a file with a
syntax error or half a file has members too. No alias is followed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_YAML_LINE = re.compile(r"""(?P<indent>\ *)(?:
      (?P<document>---(?=\s|$)|\.\.\.(?=\s|$))
    | (?P<comment>\#)
    | (?P<dashes>(?:-\ +)*(?:-(?=\s|$))?)
      (?:(?P<key>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,\[\]{}&*!|>'"%@`\#][^\n]*?):(?=\s|$))?
    )""", re.VERBOSE)  # fmt: skip
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*\s*(?:#[^\n]*)?$")
_JSON_MARK = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?(?:"|\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_MAX_KEY_CHARACTERS = 100
_MAX_DEPTH = 60
_DOCUMENT = -1


@dataclass(slots=True)
class Member:
    """A key or list item: where it starts, its name (none for an item), and what is nested in it."""

    start: int
    name: str = ""
    members: Sequence["Member"] = ()


def members_of(text: str) -> Sequence[Member]:
    """The outermost members of YAML or JSON `text`, in order; for several YAML documents, the documents."""
    if re.match(r"\s*(?:\{(?!\{)|\[)", text):
        return _nest(_json_members(text))
    return _nest(_yaml_members(text))


def _nest(found: Iterator[tuple[int, int, str]]) -> Sequence[Member]:
    """A tree from (depth, start, name) in order of the text. What is nested too deeply is left to what holds it."""
    top: list[Member] = []
    path: list[tuple[int, Member]] = []
    for depth, start, name in found:
        while path and path[-1][0] >= depth:
            path.pop()
        if len(path) >= _MAX_DEPTH:
            continue
        member = Member(start, name[:_MAX_KEY_CHARACTERS])
        if not path:
            top.append(member)
        elif isinstance(siblings := path[-1][1].members, list):
            siblings.append(member)
        else:
            path[-1][1].members = [member]
        path.append((depth, member))
    return top[0].members if len(top) == 1 and not top[0].name and top[0].members else top


def _yaml_members(text: str) -> Iterator[tuple[int, int, str]]:
    """Depth is twice the indentation, and one more for a list item: it may stand below its key without indentation."""
    above: int | None = None  # where the comment lines begin that stand directly above
    scalar: int | None = None  # the depth of a block scalar's key: deeper lines are its text
    at = 0
    while at < len(text):
        begin, line_end = at, text.find("\n", at)
        at = len(text) if line_end < 0 else line_end + 1
        line = text[begin:at].rstrip()
        if not line:
            above = None
            continue
        found = _YAML_LINE.match(line)
        indent = len(line) - len(line.lstrip(" "))
        if scalar is not None and 2 * indent > scalar:
            continue
        scalar = None
        if found is None:
            continue
        if found["comment"]:
            above = begin if above is None else above
            continue
        start, above = (begin if above is None else above), None
        dashes, key = found["dashes"] or "", found["key"]
        if found["document"]:
            yield _DOCUMENT, start, ""
            continue
        depth = 2 * indent
        for dash in re.finditer("-", dashes):
            depth = 2 * (indent + dash.start()) + 1
            yield depth, start, ""
        if key is not None:
            depth = 2 * (indent + len(dashes))
            yield depth, start, key.strip().strip("\"'")
        if _BLOCK_SCALAR.search(line) and (key is not None or dashes):
            scalar = depth


def _json_members(text: str) -> Iterator[tuple[int, int, str]]:
    """Depth is the number of brackets around a member. A key may be missing, a bracket closed twice."""
    opened: list[str] = []
    expected = True
    start, last = 0, ""
    for found in _JSON_MARK.finditer(text):
        mark = found[0]
        first = mark[0]
        if first == ":":
            continue
        if first in "}]":
            if opened:
                opened.pop()
            expected = not opened
        elif first == ",":
            expected = True
        else:
            if expected:
                start, last = found.start(), ""
                in_object = bool(opened) and opened[-1] == "{"
                if in_object and first == '"':
                    last = mark[1:].removesuffix('"')
                yield len(opened), start, last
                expected = False
            if first in "{[":
                opened.append(first)
                expected = True
