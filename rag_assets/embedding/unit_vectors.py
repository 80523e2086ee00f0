"""What a model gives becomes what the index keeps: vectors of unit length, shortened where that is asked for."""

import numpy as np
from numpy.typing import NDArray

from rag_assets.embedding.provider import Vectors
from rag_assets.errors import ProviderError


def unit_vectors(rows: NDArray[np.floating], *, dimensions: int | None, model: str) -> Vectors:
    """The first `dimensions` numbers of each row (all for None), of unit length; shape (rows, dimensions).

    Models trained for it keep most of their meaning in the first numbers (Matryoshka representation learning, Kusupati
    et al., 2022). Raises `ProviderError`, which names `model`, when there are fewer numbers, or one is not finite, or
    all are 0.
    """
    if dimensions is not None and rows.shape[1] < dimensions:
        raise ProviderError(
            f"{model} makes vectors of {rows.shape[1]} numbers, but embedding.dimensions is {dimensions}; set"
            f" embedding.dimensions to {rows.shape[1]} or less, or remove it."
        )
    kept = rows[:, :dimensions].astype(np.float64)
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ProviderError(
            f"{model} made a vector that is all zeros or not finite; nothing of it was kept. Check that it is whole, and"
            " that it is a model for sentence embeddings."
        )
    return np.asarray(kept / lengths, dtype=np.float32)
