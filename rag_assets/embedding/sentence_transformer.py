"""Models that the package sentence-transformers loads, on a GPU where there is one: the extra `sentence-transformers`.

The package brings torch, which the default install does without. Importing this module loads neither.
"""

import functools
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.config import SentenceTransformersEmbedding
from rag_assets.embedding.model_files import all_files, hash_files
from rag_assets.embedding.provider import (
    BatchRefused,
    Embedded,
    Kind,
    RequestLimits,
    TextTooLong,
    without_lone_surrogates,
)
from rag_assets.embedding.unit_vectors import unit_vectors
from rag_assets.errors import ProviderError

CODE_VERSION = "1"


class SentenceTransformersProvider:
    """One model of the hub, or of a folder. Code that comes with a model is never run."""

    def __init__(self, settings: SentenceTransformersEmbedding) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        """`sentence_transformers/<model>`, or the name of the folder."""
        settings = self._settings
        return f"sentence_transformers/{settings.model or Path(settings.folder or '').name}"

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a vector: what is in a folder, not where it lies. For a model of the hub its name is
        the statement of what it is, and `revision` where it must not move. The device is not part of it."""
        settings = self._settings
        return {
            "provider": "sentence_transformers",
            "model": settings.model,
            "revision": settings.revision,
            "files": _hashes(Path(settings.folder)) if settings.folder else None,
            "dimensions": settings.dimensions,
            "query_prefix": settings.query_prefix,
            "document_prefix": settings.document_prefix,
            "max_tokens": settings.max_tokens,
            "code_version": CODE_VERSION,
        }

    @property
    def limits(self) -> RequestLimits:
        """`max_tokens` a text, else what the model says that it reads."""
        settings = self._settings
        reads = settings.max_tokens or self._model.max_seq_length
        limit = sys.maxsize if reads is None or math.isinf(reads) else int(reads)
        return RequestLimits(inputs=settings.max_inputs_per_request, tokens=sys.maxsize, tokens_per_input=limit)

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as the model reads it: with the longer prefix, and the marks of its tokenizer."""
        return self._count(max(self._prefix("query"), self._prefix("document"), key=len) + text)

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        """Embed `texts`, `batch_size` at a time.

        Raises `TextTooLong` for one over the limit, and `BatchRefused` when they do not fit into the device's memory.
        """
        settings, limit = self._settings, self.limits.tokens_per_input
        if not texts:
            return Embedded(vectors=np.empty((0, settings.dimensions or 0), dtype=np.float32), tokens=0)
        clean = [without_lone_surrogates(text) for text in texts]
        lengths = [self._count(self._prefix(kind) + text) for text in clean]
        if max(lengths) > limit:
            raise TextTooLong(f"{max(lengths)} tokens are more than the {limit} that {self.name} reads")
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        try:
            rows = encode(
                clean,
                prompt=settings.query_prefix if kind == "query" else settings.document_prefix,
                batch_size=settings.batch_size,
                show_progress_bar=False,
            )
        except RuntimeError as error:
            if len(texts) > 1 and "out of memory" in str(error):
                raise BatchRefused(str(error)) from error
            raise ProviderError(
                f"{self.name} fails on this device: {' '.join(str(error).split())[:300]}; lower embedding.batch_size, or"
                " name another embedding.device"
            ) from error
        vectors = unit_vectors(np.asarray(rows), dimensions=settings.dimensions, model=self.name)
        return Embedded(vectors=vectors, tokens=sum(lengths))

    def _prefix(self, kind: Kind) -> str:
        """What is written before a text: what the settings say, else what the model was saved with."""
        settings = self._settings
        told = settings.query_prefix if kind == "query" else settings.document_prefix
        return told if told is not None else self._model.prompts.get(kind) or ""

    def _count(self, text: str) -> int:
        encoded = self._model.tokenizer.encode(without_lone_surrogates(text))
        return len(getattr(encoded, "ids", encoded))

    @functools.cached_property
    def _model(self) -> Any:
        settings = self._settings
        return _load(settings.model or settings.folder or "", settings.revision, settings.device, settings.max_tokens)


@functools.cache
def _load(model: str, revision: str | None, device: str | None, max_tokens: int | None) -> Any:
    try:
        import sentence_transformers
    except ImportError as error:
        raise ProviderError(
            f"embedding.provider sentence_transformers needs a package that is not here ({error}); install it with:"
            " pip install 'rag-assets[sentence-transformers]'"
        ) from error
    try:
        loaded = sentence_transformers.SentenceTransformer(
            model, revision=revision, device=device, trust_remote_code=False
        )
    except Exception as error:  # the hub, the files and the device each fail in their own way
        raise ProviderError(
            f"sentence-transformers cannot load {model}: {type(error).__name__}: {' '.join(str(error).split())[:300]};"
            " check embedding.model or embedding.folder, embedding.revision and embedding.device"
        ) from error
    if max_tokens is not None:
        loaded.max_seq_length = max_tokens
    return loaded


def _hashes(folder: Path) -> Mapping[str, str]:
    return hash_files(folder, all_files(folder))
