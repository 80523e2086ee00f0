"""Late interaction over the embedded model's word pieces: no further weights, no key, no download.

Three views of the passages are each brought to mean 0 and deviation 1, and added up: how near a passage is to the question
and to the passages that were found first (pseudo-relevance feedback, after Rocchio); how well its words match (BM25, as full
text scored it); and how well each piece of the question is met by some piece of the passage (MaxSim, as in ColBERT). One
alone makes some collections better and others worse; together they help on every one that was tried: docs/quality.md.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from rag_assets.config import LateInteractionRerank, LocalEmbedding
from rag_assets.embedding.local import LocalProvider, PieceVectors
from rag_assets.embedding.provider import Vectors
from rag_assets.headings import with_headings
from rag_assets.records import Passage
from rag_assets.reranking.reranker import Reranked

_CODE_VERSION = "1"
_FEEDBACK = 3
"""So many of the passages that were found first count together as much as the question. Two to five are alike."""


class LateInteractionReranker:
    """Compares word pieces in the embedded model, whatever model the index uses."""

    def __init__(self, settings: LateInteractionRerank) -> None:
        self._provider = LocalProvider(LocalEmbedding(threads=settings.threads))

    @property
    def name(self) -> str:
        """`late_interaction`."""
        return "late_interaction"

    @property
    def identity(self) -> Mapping[str, object]:
        """The embedded model's, and the version of this code."""
        return {"reranker": self.name, "code_version": _CODE_VERSION, "model": dict(self._provider.identity)}

    def load(self) -> None:
        """Load the embedded model."""
        self._provider.embed(["loaded"], "query")

    def rerank(self, question: str, passages: Sequence[Passage]) -> Reranked:
        """The mean of the three views, each in standard deviations of these passages."""
        asked, *read = self._provider.embed_pieces(
            [question, *(with_headings(one.text, title=one.title, heading_path=one.heading_path) for one in passages)]
        )
        views = [_near(asked, read), _words(passages), _met(asked, read)]
        return Reranked(scores=[float(score) for score in np.mean([_standardized(view) for view in views], axis=0)])


def _near(asked: PieceVectors, read: Sequence[PieceVectors]) -> Vectors:
    vectors = np.stack([one.whole for one in read])
    near: Vectors = vectors @ (asked.whole + vectors[:_FEEDBACK].mean(axis=0))
    return near


def _words(passages: Sequence[Passage]) -> Vectors:
    return np.array([passage.text_score or 0.0 for passage in passages], dtype=np.float32)


def _met(asked: PieceVectors, read: Sequence[PieceVectors]) -> Vectors:
    if not len(asked.pieces):
        return np.zeros(len(read), dtype=np.float32)
    met = [float((one.pieces @ asked.pieces.T).max(axis=0).mean()) for one in read if len(one.pieces)]
    least = min(met, default=0.0)
    found = iter(met)
    return np.array([next(found) if len(one.pieces) else least for one in read], dtype=np.float32)


def _standardized(view: Vectors) -> Vectors:
    """In standard deviations from the mean; zeros where all are alike."""
    deviation = view.std()
    if deviation < np.finfo(np.float32).eps:
        return np.zeros_like(view)
    standardized: Vectors = (view - view.mean()) / deviation
    return standardized
