"""What a reader of a format hands back: text, and what else it found. `documents.py` makes a `Document` of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# C0 and C1 controls but tab and line feed, lone surrogates, marks of byte order, and what is no character at all.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_LINE_END = re.compile("\r\n?|\x0b|\x0c|\x85|\u2028|\u2029")
_EITHER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_CONTROLS = bytes({*range(32), 127} - set(b"\t\n"))


@dataclass(frozen=True)
class Content:
    """The text of a file and what is known of it. Without a `title` the document is called by its file's name.

    `text`, `first_line`, `lossy` and `page_starts` are as in `Document`; `metadata` can be written as JSON.
    """

    text: str
    title: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)
    first_line: int = 1
    lossy: bool = False
    page_starts: Sequence[int] = ()


def clean(text: str) -> str:
    """`text` from a parser with LF line ends and without characters that are no text."""
    return text if is_clean(text) else _UNFIT.sub("", _LINE_END.sub("\n", text))


def is_clean(text: str) -> bool:
    """Whether `clean` would leave `text` as it is."""
    if text.isascii():  # a tenth of the time
        return len(text.encode().translate(None, _CONTROLS)) == len(text)
    return not _EITHER.search(text)


def one_line(text: str) -> str:
    """`text` clean and on one line, as titles and headings are."""
    return " ".join(clean(text).split())


def names(text: str) -> frozenset[str]:
    """The names in `text`, which stand between blanks."""
    return frozenset(text.split())
