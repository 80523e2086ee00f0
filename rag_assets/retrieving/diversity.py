"""Passages that are relevant and unlike each other: maximal marginal relevance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.provider import Vectors
from rag_assets.records import Passage

# Others choose from 4 times as many as they keep, or from 20.
_POOL_FACTOR = 4
_SMALLEST_POOL = 20


@dataclass(frozen=True)
class Embedded:
    """A passage's vector, of shape (dimensions,), and the fingerprint of the model that made it."""

    model: str
    vector: Vectors


def pool_size(top_k: int) -> int:
    """How many passages are needed to choose `top_k` unlike ones from."""
    return max(_SMALLEST_POOL, _POOL_FACTOR * top_k)


def diversify(
    passages: Sequence[Passage], embedded: Mapping[tuple[str, str], Embedded], *, diversity: float, top_k: int
) -> list[Passage]:
    """The `top_k` of `passages` (best first) that maximal marginal relevance chooses one by one, of Carbonell and Goldstein
    (SIGIR 1998): each is the one with the highest (1 - `diversity`) · relevance - `diversity` · similarity.

    Relevance is the score on a scale from 0 (the worst) to 1 (the best), similarity the highest cosine to those that were
    chosen before. Passages whose vectors are of different models, or unknown, count as unlike. Scores stay as they are.
    """
    if diversity == 0 or not passages:
        return list(passages[:top_k])
    relevance = _scaled(np.array([passage.score for passage in passages], np.float64))
    likeness = _likeness([embedded.get(passage.place) for passage in passages])
    nearest = np.full(len(passages), -np.inf)
    left = np.ones(len(passages), np.bool_)
    chosen: list[int] = []
    while len(chosen) < min(top_k, len(passages)):
        penalty = nearest if chosen else np.zeros(len(passages))
        value = np.where(left, (1 - diversity) * relevance - diversity * penalty, -np.inf)
        best = int(np.argmax(value))
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, likeness[best])
    return [passages[number] for number in chosen]


def _scaled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = float(np.ptp(scores))
    return (scores - scores.min()) / spread if spread else np.ones_like(scores)


def _likeness(embedded: Sequence[Embedded | None]) -> NDArray[np.float64]:
    """The cosine of every pair, 0 where it means nothing."""
    likeness = np.zeros((len(embedded), len(embedded)))
    for model in {one.model for one in embedded if one}:
        numbers = [number for number, one in enumerate(embedded) if one and one.model == model]
        vectors = np.array([one.vector for one in embedded if one and one.model == model], np.float64)
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        likeness[np.ix_(numbers, numbers)] = unit @ unit.T
    return likeness
