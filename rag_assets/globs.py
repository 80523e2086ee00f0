"""Globs over the paths of documents, as settings write them: `docs/**/*.md`.

Our own, because questions read the settings and must not wait for fsspec; the meaning is that of fsspec's globs.
"""

import re
from collections.abc import Sequence

_ENDING = re.compile(r"\*\*/\*(\.[\w+-]+)")
# A run of stars, a question mark, a set such as [a-c] or [!x], plain characters, or a bracket that opens no set.
_PIECE = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|[^*?\[]+|\[")


def translate(glob: str) -> str:
    """The regular expression that a whole path must match: `**` spans folders, `*` and `?` do not, `[ab]` is a set.

    Raises `ValueError` for what is no glob: `**` beside other characters, or a range that runs backwards.
    """
    parts = glob.split("/")
    last = len(parts) - 1
    pattern = ""
    for place, part in enumerate(parts):
        if part == "**":
            pattern += ".*" if place == last else "(?:.+/)?"
        elif "**" in part:
            raise ValueError("'**' can only be an entire path component")
        else:
            pattern += "[^/]+" if part == "*" else "".join(map(_expression, _PIECE.findall(part)))
            pattern += "" if place == last else "/"
    pattern = rf"(?s:{pattern})\Z"
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(str(error)) from None
    return pattern


def matcher(globs: Sequence[str]) -> re.Pattern[str]:
    """One pattern for all of `globs`, none of which match nothing; case is ignored, as in `.MD`.

    Globs that name an ending share a pattern: tried one by one, the 75 of the default take 0.7 s for 40,000 paths.
    """
    endings = [found[1] for glob in globs if (found := _ENDING.fullmatch(glob))]
    patterns = [f"(?:{translate(glob)})" for glob in globs if not _ENDING.fullmatch(glob)]
    if endings:
        patterns.append(rf"(?s:.*(?:{'|'.join(map(re.escape, endings))}))\Z")
    return re.compile("|".join(patterns) or "(?!)", re.IGNORECASE)


def _expression(piece: str) -> str:
    if piece[0] == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if piece[0] != "[" or piece == "[":
        return re.escape(piece)
    negated = piece[1] == "!"
    members = re.sub(r"([\\\[\]^&~|])", r"\\\1", piece[2 if negated else 1 : -1])
    return f"(?!/)[{'^' if negated else ''}{members}]" if members else re.escape(piece)
