"""The `[n]` markers of an answer, and the passages they point at.

Here belongs reading markers out of what a model wrote, in the spellings that models use, and turning them into
`Citation` records. Markers inside code are code.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from rag_assets.answering.generator import Generated
from rag_assets.records import Citation, Passage

# [1]  [1, 2]  [1; 2]  [1-3]  [Source 1]  【1】  【1†notes.md】
_NUMBERS = r"[ \t]*(?:sources?[ \t]*)?#?\d{1,4}(?:[ \t]*(?:[,;–-]|and)[ \t]*#?\d{1,4})*[ \t]*"
_MARKER = re.compile(
    rf"(?P<blank>[ \t]*)(?:\[(?P<square>{_NUMBERS})\](?!\()|【(?P<wide>{_NUMBERS})(?:†[^】\n]*)?】)", re.I
)
_CODE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?^[ \t]*(?P=fence)[`~]*[ \t]*$|.*\Z)"
    r"|(?P<ticks>`+)(?!`)[^\n]*?(?<!`)(?P=ticks)(?!`)",
    re.DOTALL | re.MULTILINE,
)
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)")


@dataclass(frozen=True)
class Marked:
    """A text whose markers are all of the form `[n]` with a known n. `unknown` are the numbers that were taken out, each as
    often as it stood there."""

    text: str
    markers: Sequence[int]
    unknown: Sequence[int]


def read_markers(text: str, known: Collection[int]) -> Marked:
    """Bring every marker in `text` to the form `[1][2]`. A number that is not `known` is taken out."""
    markers: list[int] = []
    unknown: list[int] = []

    def spelled(match: re.Match[str]) -> str:
        numbers = list(_numbers(match["square"] or match["wide"]))
        markers.extend(number for number in numbers if number in known)
        unknown.extend(number for number in numbers if number not in known)
        kept = "".join(f"[{number}]" for number in numbers if number in known)
        return match["blank"] + kept if kept else ""

    out: list[str] = []
    start = 0
    for begins, ends in code_spans(text):
        out += [_MARKER.sub(spelled, text[start:begins]), text[begins:ends]]
        start = ends
    out.append(_MARKER.sub(spelled, text[start:]))
    return Marked("".join(out), list(dict.fromkeys(markers)), unknown)


def code_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where `text` is code, fenced or inline: half-open ranges of its characters, in order."""
    return (code.span() for code in _CODE.finditer(text))


def settled_length(text: str) -> int:
    """How many characters of a text that is still being written can no longer become part of a marker or of code."""
    line = text.rfind("\n") + 1
    if re.search(r"[`~]", text[line:]):
        return line
    tail = re.search(r"[ \t]*(?:\[[^\]\n]*\]?|【[^】\n]*)?$", text[line:])
    return line + tail.start() if tail else len(text)


def citations_of(generated: Generated, passages: Sequence[Passage]) -> list[Citation]:
    """The passages that `generated` cites as the model read them, in order of first appearance, under the numbers that its
    text shows."""
    return [
        Citation(
            marker=marker,
            document=passage.document,
            source_uri=passage.source_uri,
            heading_path=passage.heading_path,
            start_char=passage.start_char,
            end_char=passage.end_char,
            start_line=passage.start_line,
            end_line=passage.end_line,
            text=passage.text,
            score=passage.score,
            chunk_id=passage.chunk_id,
            start_page=passage.start_page,
            end_page=passage.end_page,
            corpus=passage.corpus,
            also_in=passage.also_in,
        )
        for marker in dict.fromkeys(generated.markers)
        for whole in passages[marker - 1 : marker]
        for passage in [generated.read.get(marker, whole)]
        if marker >= 1
    ]


def _numbers(spelled: str) -> Iterator[int]:
    for part in re.split(r"[,;]|\band\b", spelled):
        span = _RANGE.search(part)
        if span and int(span[1]) <= int(span[2]) <= int(span[1]) + 50:
            yield from range(int(span[1]), int(span[2]) + 1)
        else:
            yield from map(int, re.findall(r"\d+", part))
