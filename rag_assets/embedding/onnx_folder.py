"""Any sentence-embedding model in ONNX format, from a folder of this machine, on its CPU.

The folder holds the network (`model.onnx`) and its tokenizer (`tokenizer.json`). Nothing is downloaded. Importing this
module loads neither model nor runtime.
"""

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_assets.config import OnnxEmbedding
from rag_assets.embedding.model_files import hash_files
from rag_assets.embedding.provider import (
    Embedded,
    Kind,
    RequestLimits,
    TextTooLong,
    without_lone_surrogates,
)
from rag_assets.embedding.unit_vectors import unit_vectors
from rag_assets.errors import ProviderError

CODE_VERSION = "1"
_TOKENIZER = "tokenizer.json"
_INPUTS = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_INPUTS_PER_REQUEST = 32  # what a kill may lose, as for the embedded model


class OnnxProvider:
    """One model from a folder. Texts are read one by one over all threads, so a vector does not depend on its company."""

    def __init__(self, settings: OnnxEmbedding) -> None:
        self._settings = settings
        self._folder = Path(settings.folder)

    @property
    def name(self) -> str:
        """`onnx/<name of the folder>`."""
        return f"onnx/{self._folder.name}"

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a vector: what is in the files, not where they lie."""
        settings = self._settings
        return {
            "provider": "onnx",
            "files": hash_files(self._folder, self._files()),
            "pooling": settings.pooling,
            "dimensions": settings.dimensions,
            "query_prefix": settings.query_prefix,
            "document_prefix": settings.document_prefix,
            "max_tokens": settings.max_tokens,
            "code_version": CODE_VERSION,
        }

    @property
    def limits(self) -> RequestLimits:
        """`max_tokens` a text."""
        limit = self._settings.max_tokens
        return RequestLimits(inputs=_INPUTS_PER_REQUEST, tokens=_INPUTS_PER_REQUEST * limit, tokens_per_input=limit)

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as the model reads it: with the longer prefix, and the marks of its tokenizer."""
        settings = self._settings
        return len(self._encode(max(settings.document_prefix, settings.query_prefix, key=len) + text))

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:
        """Embed `texts`, the longest first, one a thread. Raises `TextTooLong` for one over `max_tokens`."""
        settings = self._settings
        prefix = settings.query_prefix if kind == "query" else settings.document_prefix
        encoded = [self._encode(prefix + text) for text in texts]
        longest = max(map(len, encoded), default=0)
        if longest > settings.max_tokens:
            raise TextTooLong(f"{longest} tokens are more than embedding.max_tokens {settings.max_tokens}")
        if not texts:
            return Embedded(vectors=np.empty((0, settings.dimensions or 0), dtype=np.float32), tokens=0)
        model = self._model
        order = sorted(range(len(texts)), key=lambda number: -len(encoded[number]))
        rows: list[NDArray[Any]] = [np.empty(0)] * len(texts)
        with ThreadPoolExecutor(min(self._threads, len(texts)), thread_name_prefix="onnx") as pool:
            for number, row in zip(order, pool.map(model.embed, (encoded[at] for at in order)), strict=True):
                rows[number] = row
        vectors = unit_vectors(np.stack(rows), dimensions=settings.dimensions, model=str(model))
        return Embedded(vectors=vectors, tokens=sum(map(len, encoded)))

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(without_lone_surrogates(text)).ids
        return ids

    def _files(self) -> Iterator[str]:
        """The files that make the model, with the weights that a large one keeps beside it."""
        file = self._settings.file
        if not (self._folder / file).is_file():
            there = ", ".join(
                path.relative_to(self._folder).as_posix() for path in sorted(self._folder.rglob("*.onnx"))
            )
            raise ProviderError(
                f"{self._folder / file} is no file; check embedding.folder and embedding.file. The folder holds"
                f" {there or 'no .onnx file'}."
            )
        yield _TOKENIZER
        yield file
        yield from (name for name in (f"{file}_data", f"{file}.data") if (self._folder / name).is_file())

    @property
    def _threads(self) -> int:
        return self._settings.threads or usable_cpus()

    @functools.cached_property
    def _tokenizer(self) -> Any:
        return _load_tokenizer(self._folder / _TOKENIZER, self._version)

    @property
    def _version(self) -> tuple[str, ...]:
        """What the files are now: a model that was replaced is loaded anew."""
        return tuple(hash_files(self._folder, self._files()).values())

    @functools.cached_property
    def _model(self) -> "_Model":
        return _load_model(self._folder / self._settings.file, self._settings.pooling, self._version)


class _Model:
    """The loaded network. Running it is safe from several threads, each of which uses one core."""

    def __init__(self, path: Path, pooling: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._path, self._pooling = path, pooling
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime's own exceptions have no common class
            raise self._problem("cannot be loaded", error) from error
        self._inputs = {wanted.name: _TYPES.get(wanted.type, np.int64) for wanted in self._session.get_inputs()}
        unknown = sorted(set(self._inputs) - _INPUTS)
        if unknown:
            raise ProviderError(
                f"{self} wants {', '.join(unknown)} as input, and is given {', '.join(sorted(_INPUTS))} at most; export"
                " it as a model for sentence embeddings."
            )
        self._output = self._session.get_outputs()[0].name

    def __str__(self) -> str:
        return f"The model {self._path}"

    def embed(self, ids: Sequence[int]) -> NDArray[Any]:
        """The vector of one text of these tokens, of any length and of shape (dimensions,)."""
        length = len(ids)
        given = {
            "input_ids": np.array([ids]),
            "attention_mask": np.ones((1, length)),
            "token_type_ids": np.zeros((1, length)),
            "position_ids": np.arange(length)[np.newaxis],
        }
        inputs = {name: given[name].astype(dtype) for name, dtype in self._inputs.items()}
        try:
            [states] = self._session.run([self._output], inputs)
        except Exception as error:  # as above
            raise self._problem(
                f"fails on {length} tokens; lower embedding.max_tokens if it reads fewer", error
            ) from error
        if states.ndim == 2:  # pooled by the model itself
            return np.asarray(states[0])
        if self._pooling == "mean":
            return np.asarray(states[0].mean(axis=0, dtype=np.float64))
        return np.asarray(states[0][0 if self._pooling == "cls" else -1])

    def _problem(self, what: str, error: Exception) -> ProviderError:
        return ProviderError(f"{self} {what}: {' '.join(str(error).split())[:300]}")


@functools.cache
def _load_model(path: Path, pooling: str, version: tuple[str, ...]) -> _Model:  # noqa: ARG001 - part of the key
    return _Model(path, pooling)


@functools.cache
def _load_tokenizer(path: Path, version: tuple[str, ...]) -> Any:  # noqa: ARG001 - part of the key
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare ones
        raise ProviderError(f"The tokenizer {path} cannot be read: {error}; check embedding.folder.") from None
    tokenizer.no_truncation()  # what is cut is cut by us, and told
    tokenizer.no_padding()
    return tokenizer


def usable_cpus() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
