"""Which passages, and how much of each, a prompt has room for: the most value for its tokens.

A passage is worth less the lower its rank, and each part of it more the more words of the question it holds. Parts are
cut at lines, sentences and words, as chunks are; of a passage one range of neighbouring parts is kept, so that what is
cited is still a range of its document.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rag_assets.answering.overlap import overlaps, words_of
from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Piece, line_starts, pack, seams
from rag_assets.chunking.sentences import full_sentence_starts
from rag_assets.config import CuttingSettings
from rag_assets.records import Passage

# Measured in November 2026 with 135 questions to the FastAPI manual, ten passages each: how often all that the answer needs
# is sent. Of chunks, with 300, 600 and 1,200 tokens: 58, 71 and 82 % (whole passages, the best first: 44, 71 and 82 %); of
# passages of 730 tokens: 51, 66 and 81 % (12, 64 and 73 %). Other weights of ranks and parts stay within 3 %.
PART_TOKENS = 40
WORTH_WITHOUT_WORDS = 0.1
"""What a part is worth that shares no word with the question, where one that has all of them is worth 1.1."""
_SLACK = 5
"""A part alone may have a token or two more than its share of the whole text."""
_PARTS = CuttingSettings(max_tokens=PART_TOKENS, overlap_tokens=0, tokenizer="o200k_base")


@dataclass
class _Window:
    """The parts `first` to `last` (both included) of a passage that are kept; none at first."""

    parts: Sequence[Piece]
    values: Sequence[float]
    tokens: Sequence[int]
    frame: int
    first: int = 0
    last: int = -1

    @property
    def is_empty(self) -> bool:
        return self.last < self.first

    @property
    def is_cut(self) -> bool:
        return self.last - self.first + 1 < len(self.parts)

    @property
    def range(self) -> tuple[int, int]:
        """Where the kept parts begin and end in the text."""
        return self.parts[self.first].start, self.parts[self.last].end

    def steps(self) -> Iterator[tuple[float, int, int]]:
        """What can be added: its value for a token, its tokens, and the number of the part."""
        for part in range(len(self.parts)):
            if self.is_empty or part in (self.first - 1, self.last + 1):
                tokens = self.tokens[part] + (self.frame if self.is_empty else 0)
                yield self.values[part] / tokens, tokens, part

    def add(self, part: int) -> None:
        first, last = (part, part) if self.is_empty else (self.first, self.last)
        self.first, self.last = min(first, part), max(last, part)


def choose(
    question: str, passages: Sequence[Passage], *, frames: Sequence[int], max_tokens: int
) -> Mapping[int, Passage]:
    """The passages to send, cut to what is sent, by their numbers from 1; best first, as they came.

    `frames` are the tokens that each passage needs beside its text. Tokens are those of o200k_base. Where not even a part of
    one fits, the best is cut to what does, but to one token at least.
    """
    limits = [Limits(passage.text, _PARTS) for passage in passages]
    windows = _windows(question, limits, frames)
    room = max_tokens
    while True:
        steps = [
            (value, -number, tokens, part)
            for number, window in enumerate(windows)
            for value, tokens, part in window.steps()
            if tokens <= room
        ]
        if not steps:
            break
        _, number, tokens, part = max(steps)
        windows[-number].add(part)
        room -= tokens
    kept = {
        number: excerpt(passage, *window.range) if window.is_cut else passage
        for number, (passage, window) in enumerate(zip(passages, windows, strict=True), start=1)
        if not window.is_empty
    }
    return kept or _beginning(passages, limits, frames, max_tokens)


def excerpt(passage: Passage, start: int, end: int) -> Passage:
    """`passage` cut to `start:end` of its text, with the place of that in the document. Its pages stay those of the
    whole."""
    if (start, end) == (0, len(passage.text)):
        return passage
    text = passage.text[start:end]
    first_line = passage.start_line + passage.text.count("\n", 0, start)
    return replace(
        passage,
        text=text,
        start_char=passage.start_char + start,
        end_char=passage.start_char + end,
        start_line=first_line,
        end_line=first_line + text[:-1].count("\n"),
    )


def _windows(question: str, limits: Sequence[Limits], frames: Sequence[int]) -> Sequence[_Window]:
    parts = [_parts(one) for one in limits]
    texts = [one.text[part.start : part.end] for one, of_one in zip(limits, parts, strict=True) for part in of_one]
    shared = iter(overlaps(words_of(question), [words_of(text) for text in texts]).tolist())
    windows = []
    for rank, (one, of_one, frame) in enumerate(zip(limits, parts, frames, strict=True), start=1):
        values = [(WORTH_WITHOUT_WORDS + next(shared)) / (rank + 1) for _ in of_one]
        borders = [0, *(part.start for part in of_one[1:]), len(one.text)]
        tokens = [max(1, one.estimate(start, end)) for start, end in pairwise(borders)]
        windows.append(_Window(of_one, values, tokens, frame + _SLACK))
    return windows


def _parts(limits: Limits) -> Sequence[Piece]:
    """The text in parts that cover all of it but for the white space around it."""
    end = len(limits.text)
    if not limits.text.strip():
        return []
    at = [*seams(limits, 0, end, rank=0, splitters=((1, line_starts), (2, full_sentence_starts)))]
    return [*pack(limits, end, at=at, overlap_tokens=0)]


def _beginning(
    passages: Sequence[Passage], limits: Sequence[Limits], frames: Sequence[int], max_tokens: int
) -> Mapping[int, Passage]:
    for number, (passage, one, frame) in enumerate(zip(passages, limits, frames, strict=True), start=1):
        if passage.text.strip():
            return {number: excerpt(passage, 0, one.reach(0, max(1, max_tokens - frame)))}
    return {}
