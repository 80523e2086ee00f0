"""A deterministic embedder that costs nothing: a hashed bag of words.

Every lower-cased word, and every trigram of characters of it, adds +1 or -1 at one place of the vector; place and sign
come from a stable hash (the hashing trick of Weinberger et al., 2009). Texts that share words are near, and nothing is
understood. For tests and benchmarks of everything *around* the embedding.
"""

import functools
import hashlib
import re
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from rag_assets.config import HashingEmbedding
from rag_assets.embedding.provider import Embedded, Kind, RequestLimits, Vectors

CODE_VERSION = "1"
_WORD = re.compile(r"\w+")
_HASH_BYTES = 8


def hashed_bags(texts: Sequence[str], dimensions: int) -> Vectors:
    """Vectors of shape (texts, dimensions) and unit length; the same bits in every process and in any company.

    A text without a word, or whose signs cancel out, is placed by the hash of the whole text.
    """
    words = [_words(text) for text in texts]
    features = [b"".join(map(_features, of_text)) for of_text in words]
    hashes = np.frombuffer(b"".join(features), dtype="<u8")
    rows = np.repeat(np.arange(len(texts)), [len(of_text) // _HASH_BYTES for of_text in features])
    places = rows * dimensions + ((hashes >> np.uint64(1)) % np.uint64(dimensions)).astype(np.int64)
    signs = 1.0 - 2.0 * (hashes & np.uint64(1))
    sums = np.bincount(places, weights=signs, minlength=len(texts) * dimensions).reshape(len(texts), dimensions)
    for row in np.flatnonzero(~sums.any(axis=1)):
        sums[row, int.from_bytes(_hash(texts[int(row)]), "little") % dimensions] = 1.0
    return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True), dtype=np.float32)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@functools.lru_cache(maxsize=65_536)
def _features(word: str) -> bytes:
    framed = f"<{word}>"
    trigrams = [framed[start : start + 3] for start in range(len(framed) - 2)]
    return b"".join(map(_hash, [word, *trigrams]))


def _hash(feature: str) -> bytes:
    return hashlib.blake2b(feature.encode(errors="replace"), digest_size=_HASH_BYTES).digest()


class HashingProvider:
    """`hashed_bags` behind the interface of a provider."""

    def __init__(self, settings: HashingEmbedding) -> None:
        self._dimensions = settings.dimensions

    @property
    def name(self) -> str:
        """`hashing/<dimensions>`."""
        return f"hashing/{self._dimensions}"

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a vector."""
        return {"provider": "hashing", "dimensions": self._dimensions, "code_version": CODE_VERSION}

    @property
    def limits(self) -> RequestLimits:
        """Any text of any length, 1,024 at a time."""
        return RequestLimits(inputs=1024, tokens=sys.maxsize, tokens_per_input=sys.maxsize)

    def count_tokens(self, text: str) -> int:
        """The number of words, at least 1."""
        return max(1, len(_words(text)))

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:  # noqa: ARG002 - questions and documents are alike
        """Embed `texts`; never refuses one."""
        return Embedded(vectors=hashed_bags(texts, self._dimensions), tokens=sum(map(self.count_tokens, texts)))
