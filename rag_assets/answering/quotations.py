"""What an answer puts in quotation marks, and whether the sources say it.

Here belongs finding quotations in a text that a model wrote and comparing them with texts; what is then said of the
answer is decided by the generator.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from rag_assets.answering.citations import code_spans, read_markers

MIN_CHARACTERS = 20
"""Shorter quotations are names and single words, which are often put in quotation marks without quoting anybody."""

_STRAIGHT = r'(?<![\w"])"(?=\S)(?P<straight>[^"]+?)(?<=\S)"(?!\w)'
_PAIRS = (("“", "”"), ("„", "“"), ("„", "”"), ("«", "»"), ("»", "«"), ("「", "」"), ("『", "』"))
_PAIRED = "|".join(rf"{first}([^{first}{last}]+){last}" for first, last in _PAIRS)
_QUOTATION = re.compile(rf"{_STRAIGHT}|{_PAIRED}")
_MARKS = re.compile(r'["“”„«»「」『』]')
_LEFT_OUT = re.compile(r"\[\s*(?:…|\.{3})\s*\]|…|\.{3}")
_EMPHASIS = re.compile(r"[*_`]")
_SPELLINGS = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "–": "-", "—": "-"})


def quotations(text: str) -> list[str]:
    """What `text` holds between quotation marks, in order, from `MIN_CHARACTERS` on. Marks inside code are code."""
    prose = list(text)
    for start, end in code_spans(text):
        prose[start:end] = _MARKS.sub(" ", text[start:end])
    found: list[str] = []
    for match in _QUOTATION.finditer("".join(prose)):
        start, end = match.span(match.lastindex or 0)
        quoted = text[start:end].strip()
        if "\n\n" not in quoted and len(" ".join(quoted.split())) >= MIN_CHARACTERS:
            found.append(quoted)
    return found


def unfounded(quoted: Sequence[str], sources: Sequence[str]) -> list[str]:
    """The quotations that none of `sources` holds.

    White space, case, emphasis, markers and the spelling of quotation marks and dashes are not compared, nor is the last
    mark of punctuation. What stands around an ellipsis must be in one source, in any place.
    """
    texts = [_compared(source) for source in sources]
    return [one for one in quoted if not any(all(part in text for part in _parts(one)) for text in texts)]


def _parts(quotation: str) -> Iterator[str]:
    for part in _LEFT_OUT.split(quotation):
        compared = _compared(part).strip(" .,;:!?")
        if compared:
            yield compared


def _compared(text: str) -> str:
    without_markers = read_markers(text, ()).text
    plain = unicodedata.normalize("NFKC", _EMPHASIS.sub("", without_markers).translate(_SPELLINGS))
    return " ".join(plain.split()).casefold()
