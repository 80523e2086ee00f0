"""How long a piece of text may be, and where it may be cut.

Every strategy asks here and nowhere else: tokens of a range (estimated in constant time, or counted exactly), the offset
that so many tokens reach, and offsets that do not fall inside a grapheme cluster. Where the settings count characters, a
token is a code point.
"""

import copy
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Self

import regex

from rag_assets.config import CuttingSettings
from rag_assets.tokenizing import count_tokens, token_ends

_CLUSTER = regex.compile(r"\X")
_SLICE = 64  # matching on slices: on the whole text, regex 2026.11 takes quadratic time for a row of flags
_TINY = 4
_BLANK = re.compile(r"\s*")


class Limits:
    """A text, its tokens, and the limits a chunk of it must keep: `max_tokens` with an overlap of `overlap_tokens`.

    The text is tokenized once. A piece tokenized alone may differ from its share of the whole by a token or two at its
    ends, so `estimate` plans and `count` decides.
    """

    def __init__(self, text: str, settings: CuttingSettings) -> None:
        self.text = text
        self.settings = settings
        self.max_tokens = settings.max_tokens
        self.overlap_tokens = settings.overlap_tokens
        self._ends: Sequence[int] = (
            token_ends(text, settings.tokenizer) if settings.unit == "tokens" else range(1, len(text) + 1)
        )
        self._counts: dict[tuple[int, int], int] = {}

    def narrowed(self, *, max_tokens: int, overlap_tokens: int) -> Self:
        """Other limits for the same text, which is not tokenized again."""
        other = copy.copy(self)
        other.max_tokens, other.overlap_tokens = max_tokens, overlap_tokens
        return other

    def count(self, start: int, end: int) -> int:
        """Tokens of `text[start:end]` on its own, in the unit of the settings."""
        return end - start if self.settings.unit == "characters" else self.tokens(start, end)

    def tokens(self, start: int, end: int) -> int:
        """Tokens of `text[start:end]` on its own, whatever the unit of the settings."""
        key = (start, end)
        if key not in self._counts:
            self._counts[key] = count_tokens(self.text[start:end], self.settings.tokenizer)
        return self._counts[key]

    def estimate(self, start: int, end: int) -> int:
        """Tokens of the whole text that end in `start:end`."""
        return bisect_right(self._ends, end) - bisect_right(self._ends, start)

    def fits(self, start: int, end: int) -> bool:
        """Whether `text[start:end]` is likely to be within `max_tokens`."""
        return self.estimate(start, end) <= self.max_tokens

    def is_tiny(self, start: int, end: int) -> bool:
        """Whether `text[start:end]` is so short, a quarter of the limit, that it may share a chunk with its neighbours."""
        return self.estimate(start, end) <= self.max_tokens // _TINY

    def reach(self, start: int, tokens: int) -> int:
        """The farthest end of a token of the text such that `estimate(start, reach)` is at most `tokens`."""
        beyond = bisect_right(self._ends, start) + tokens
        if beyond >= len(self._ends):
            return len(self.text)
        return self._end_before(self._ends[beyond])

    def reach_back(self, end: int, tokens: int) -> int:
        """The earliest end of a token of the text such that `estimate(reach_back, end)` is at most `tokens`."""
        before = bisect_right(self._ends, end) - tokens
        return self._ends[before - 1] if before > 0 else 0

    def _end_before(self, end: int) -> int:
        index = bisect_left(self._ends, end)
        return self._ends[index - 1] if index else 0

    def breaks(self, position: int) -> bool:
        """Whether a grapheme cluster ends at `position`, given that none is open before the character before it."""
        if position <= 0 or position >= len(self.text):
            return True
        if self.text[position] < "\u0300" and self.text[position - 1] < "\u0300" and self.text[position - 1] != "\r":
            return True
        return self.cluster_end(position - 1) == position

    def cluster_end(self, start: int) -> int:
        """Where the grapheme cluster that starts at `start` ends."""
        size = _SLICE
        while True:
            found = _CLUSTER.match(self.text[start : start + size])
            length = found.end() if found else 0
            if length < size:
                return start + length
            size *= 8

    def cluster_ends(self, start: int, end: int) -> Sequence[int]:
        """The ends, at most `end`, of the grapheme clusters from `start` on, which must be the start of one."""
        part = self.text[start : end + _SLICE]
        if part.isascii() and "\r" not in part:
            return range(start + 1, end + 1)
        return [start + found.end() for found in _CLUSTER.finditer(part) if start + found.end() <= end]

    def token_cuts(self, start: int, low: int, end: int) -> Sequence[int]:
        """The places in `low:end` (both included) where a token and a grapheme cluster end, seen from `start`."""
        tokens = self._ends[bisect_left(self._ends, low) : bisect_right(self._ends, end)]
        if self.text[start : end + 1].isascii():
            return tokens
        return sorted(set(tokens).intersection(self.cluster_ends(start, end)))

    def skip_blank(self, start: int, end: int) -> int:
        """The start of the first cluster at or after `start` that is not white space; `end` if there is none."""
        found = _BLANK.match(self.text, start, end)
        stop = found.end() if found else start
        return stop - 1 if start < stop < end and not self.breaks(stop) else stop

    def trim_end(self, start: int, end: int) -> int:
        """The end of the last cluster in `start:end` that is not white space."""
        stop = start + len(self.text[start:end].rstrip())
        return stop if self.breaks(stop) or stop == end else self.cluster_end(stop - 1)
