"""Passages that say nearly the same become one, which tells where else it stands.

Compared are runs of three words (shingles), as Broder did for pages of the web ("On the resemblance and containment of
documents", 1997): no model is needed, and passages of different corpora can be compared.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from rag_assets.records import Passage, Place

_SHINGLE = 3
# Words; in scripts that are written without blanks, characters.
_TOKEN = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W_]+|[^\w\s]")


def collapse(passages: Sequence[Passage], *, threshold: float, at_most: int) -> list[Passage]:
    """The first `at_most` of `passages`, best first, without those whose shingles are to a share of `threshold` (0 to 1,
    Jaccard) those of a better one. Their places, also of those that come after, are added to its `also_in`."""
    kept: list[Passage] = []
    shingles: list[frozenset[tuple[str, ...]]] = []
    for passage in passages:
        found = shingles_of(passage.text)
        twin = next((number for number, other in enumerate(shingles) if _alike(found, other, threshold)), None)
        if twin is None:
            if len(kept) < at_most:
                kept.append(passage)
                shingles.append(found)
        else:
            also_in = (*kept[twin].also_in, _place_of(passage), *passage.also_in)
            kept[twin] = replace(kept[twin], also_in=also_in)
    return kept


def shingles_of(text: str) -> frozenset[tuple[str, ...]]:
    """The runs of three words of `text`, without regard to case and white space; all of it where it has fewer."""
    words = _TOKEN.findall(text.casefold())
    return frozenset(tuple(words[start : start + _SHINGLE]) for start in range(max(1, len(words) - _SHINGLE + 1)))


def _alike(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]], threshold: float) -> bool:
    smaller, larger = sorted((len(one), len(other)))
    if smaller < threshold * larger:  # then they cannot be, and most pairs are told apart by this
        return False
    shared = len(one & other)
    return shared >= threshold * (len(one) + len(other) - shared)


def _place_of(passage: Passage) -> Place:
    return Place(
        document=passage.document,
        chunk_id=passage.chunk_id,
        start_line=passage.start_line,
        end_line=passage.end_line,
        corpus=passage.corpus,
    )
