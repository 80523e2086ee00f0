"""Lines, where nothing more is known of a text: code in a language without a grammar, settings, logs."""

import re
from collections.abc import Iterator
from itertools import pairwise

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Seam, line_starts, seams
from rag_assets.chunking.units import Unit

_AFTER_BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+(?P<start>)(?P<indentation>[^\S\n]*)(?=\S)")
_OUTERMOST, _INDENTED, _LINE = range(3)


def line_units(limits: Limits) -> Iterator[Unit]:
    """The text as one unit that is best cut after blank lines, before a line that is not indented."""
    ranks = {0: _OUTERMOST}
    # Blank lines that no text follows would be tried from each of them to the end.
    for found in _AFTER_BLANK_LINES.finditer(limits.text, 0, len(limits.text.rstrip())):
        ranks[found.start("start")] = _INDENTED if found["indentation"] else _OUTERMOST
    at: list[Seam] = []
    for start, end in pairwise([*ranks, len(limits.text)]):
        at += seams(limits, start, end, rank=ranks[start], splitters=((_LINE, line_starts),))
    yield Unit(0, seams=at)
