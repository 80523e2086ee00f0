"""How many of a question's words a piece of text holds, weighted by how rare they are among the pieces at hand.

Here belongs the comparison of words. The comparison of meanings is the embedding model's; `extractive.py` adds the two.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")
# Scripts that are written without blanks: compared by pairs of characters.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+")
# English words that a question is made with, not what it is about.
_ENGLISH = """
a an the this that these those it its is are was were be been being am do does did has have had can could will would
should shall may might must i me my we us our you your he she they them their of in on at to for by with from and or as
than into about there what which who whom whose when where why how
"""
FUNCTION_WORDS = frozenset(_ENGLISH.split())
_ENDINGS = ("ing", "ed", "es", "ly", "s")


def words_of(text: str) -> frozenset[str]:
    """What `text` is about: lower-case words without English endings, the parts of identifiers, pairs of characters of
    scripts without blanks. Function words count only where there is nothing else."""
    words: set[str] = set()
    for match in _WORD.finditer(text.lower()):
        word = match.group()
        for run in _UNSPACED.findall(word):
            words.update(run[start : start + 2] for start in range(max(1, len(run) - 1)))
        for part in {word, *word.split("_")}:
            words.add(_stem(_UNSPACED.sub("", part)))
    words.discard("")
    return frozenset(words - FUNCTION_WORDS or words)


def overlaps(question: frozenset[str], pieces: Sequence[frozenset[str]]) -> NDArray[np.float64]:
    """For each piece, the share (0 to 1) of the question's word weights that it holds.

    The weight of a word is its inverse frequency among `pieces`, log(1 + n / (1 + pieces that hold it)).
    """
    counts = Counter(word for piece in pieces for word in piece)
    weights = {word: math.log(1 + len(pieces) / (1 + counts[word])) for word in question}
    total = sum(weights.values()) or 1.0
    return np.array([sum(weights[word] for word in question & piece) / total for piece in pieces])


def _stem(word: str) -> str:
    if word in FUNCTION_WORDS:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word[: -len(ending)]
    return word
