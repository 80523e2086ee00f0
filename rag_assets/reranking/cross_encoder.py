"""A cross-encoder in ONNX format: question and passage are read together, so that each word sees the other text.

The model comes from a folder of this machine, or from the hub through huggingface_hub, the extra `rerank`. Importing this
module loads neither model nor runtime.
"""

import contextlib
import functools
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from rag_assets.config import CrossEncoderRerank
from rag_assets.embedding.model_files import hash_files
from rag_assets.embedding.onnx_folder import usable_cpus
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.errors import ProviderError
from rag_assets.records import Passage
from rag_assets.reranking.reranker import Reranked

CODE_VERSION = "1"
_TOKENIZER = "tokenizer.json"
_FILES = ("model.onnx", "onnx/model.onnx")
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_LOADING = threading.Lock()


class CrossEncoderReranker:
    """One model. A passage too long for it is read in windows and scores as its best one (MaxP: Dai and Callan, SIGIR
    2019). A pair is read alone, never in a padded batch: that is quicker on a CPU, and a score does not depend on the
    passage's company."""

    def __init__(self, settings: CrossEncoderRerank) -> None:
        self._settings = settings

    @property
    def name(self) -> str:
        """`cross_encoder/<model>`, or the name of the folder."""
        settings = self._settings
        return f"cross_encoder/{settings.model or Path(settings.folder or '').name}"

    @property
    def identity(self) -> Mapping[str, object]:
        """What is in the files, not where they lie, and what decides how they are read."""
        folder, file = self._found
        return {
            "provider": "cross_encoder",
            "files": hash_files(folder, _files(folder, file), section="rerank"),
            "max_tokens": self._settings.max_tokens,
            "scores": self._settings.scores,
            "code_version": CODE_VERSION,
        }

    def load(self) -> None:
        """Load the model; from the hub, download it where it is not in the hub's cache."""
        self._model  # noqa: B018 - loading is what it is for

    def rerank(self, question: str, passages: Sequence[Passage]) -> Reranked:
        """Scores between 0 and 1 (`sigmoid`), or the model's own (`logit`). Raises `ProviderError`, and `TimeoutError` when
        `timeout_seconds` are over before the last passage is begun."""
        settings, model = self._settings, self._model
        ends = time.monotonic() + settings.timeout_seconds
        asked = model.shortened(question)

        def score(passage: Passage) -> float:
            best = -math.inf
            for window in model.windows(asked, passage.text):
                if time.monotonic() > ends:
                    raise TimeoutError
                best = max(best, model.logit(window))
            return best

        with ThreadPoolExecutor(settings.threads or usable_cpus(), thread_name_prefix="cross-encoder") as pool:
            logits = list(pool.map(score, passages))
        notes = (
            () if asked == question else [f"{model} read the first {settings.max_tokens // 2} tokens of the question."]
        )
        return Reranked(logits if settings.scores == "logit" else [_sigmoid(one) for one in logits], notes=notes)

    @functools.cached_property
    def _found(self) -> tuple[Path, str]:
        """The folder of the model, and the network's file in it."""
        settings = self._settings
        if settings.model is not None:
            return _download(settings.model, settings.revision, settings.file)
        folder = Path(settings.folder or "")
        names = [settings.file] if settings.file else _FILES
        file = next((name for name in names if (folder / name).is_file()), None)
        if file is None:
            there = ", ".join(path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.onnx")))
            raise ProviderError(
                f"{folder / names[0]} is no file; check rerank.folder and rerank.file. The folder holds"
                f" {there or 'no .onnx file'}."
            )
        return folder, file

    @property
    def _model(self) -> "_Model":
        folder, file = self._found
        with _LOADING:
            version = tuple(hash_files(folder, _files(folder, file), section="rerank").values())
            return _load(folder, file, self._settings.max_tokens, version)


class _Model:
    """The loaded network and its tokenizer. Safe to use from several threads, each of which uses one core."""

    def __init__(self, folder: Path, file: str, max_tokens: int) -> None:
        import onnxruntime
        import tokenizers

        self._path, self._max_tokens = folder / file, max_tokens
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(str(self._path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime's own exceptions have no common class
            raise self._problem("cannot be loaded", error) from error
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
            self._pairs = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
        except Exception as error:  # the library raises bare ones
            raise ProviderError(
                f"The tokenizer {folder / _TOKENIZER} cannot be read: {error}; check the model of rerank."
            ) from None
        for tokenizer in (self._tokenizer, self._pairs):
            tokenizer.no_truncation()
            tokenizer.no_padding()
        self._pairs.enable_truncation(max_tokens, strategy="only_second")
        self._inputs = {wanted.name: _TYPES.get(wanted.type, np.int64) for wanted in self._session.get_inputs()}
        known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
        unknown = sorted(set(self._inputs) - known)
        if unknown:
            raise ProviderError(
                f"{self} wants {', '.join(unknown)} as input, and is given {', '.join(sorted(known))} at most; export it as"
                " a model for sequence classification."
            )

    def __str__(self) -> str:
        return f"The model {self._path}"

    def shortened(self, question: str) -> str:
        """`question`, or as much of it as half of `max_tokens` hold, so that there is room for a passage."""
        encoding = self._tokenizer.encode(without_lone_surrogates(question), add_special_tokens=False)
        if len(encoding.ids) <= self._max_tokens // 2:
            return question
        return question[: encoding.offsets[self._max_tokens // 2 - 1][1]]

    def windows(self, question: str, text: str) -> Iterator[Any]:
        """The pair as the model reads it: once, or with one part of `text` after the other."""
        encoding = self._pairs.encode(without_lone_surrogates(question), without_lone_surrogates(text))
        yield encoding
        yield from encoding.overflowing

    def logit(self, window: Any) -> float:
        """What the model says of one pair. Of two classes, the second is taken to be the relevant one."""
        length = len(window.ids)
        given = {
            "input_ids": window.ids,
            "attention_mask": [1] * length,
            "token_type_ids": window.type_ids,
            "position_ids": range(length),
        }
        inputs = {name: np.array([given[name]], dtype=dtype) for name, dtype in self._inputs.items()}
        try:
            found = np.asarray(self._session.run(None, inputs)[0], dtype=np.float64).ravel()
        except Exception as error:  # as above
            raise self._problem(
                f"fails on {length} tokens; lower rerank.max_tokens if it reads fewer", error
            ) from error
        if len(found) not in (1, 2):
            raise ProviderError(
                f"{self} gives {len(found)} numbers for a pair, and a cross-encoder gives one; name another model."
            )
        return float(found[0] if len(found) == 1 else found[1] - found[0])

    def _problem(self, what: str, error: Exception) -> ProviderError:
        return ProviderError(f"{self} {what}: {' '.join(str(error).split())[:300]}")


@functools.cache
def _load(folder: Path, file: str, max_tokens: int, version: tuple[str, ...]) -> _Model:  # noqa: ARG001 - part of the key
    return _Model(folder, file, max_tokens)


def _files(folder: Path, file: str) -> Iterator[str]:
    """The files that make the model, with the weights that a large one keeps beside it."""
    yield _TOKENIZER
    yield file
    yield from (name for name in _beside(file) if (folder / name).is_file())


def _beside(file: str) -> Sequence[str]:
    return (f"{file}_data", f"{file}.data")


@functools.cache
def _download(model: str, revision: str | None, file: str | None) -> tuple[Path, str]:
    """The files of a model of the hub: those of its cache on this machine, and only where they are not there, those of the
    network. A question does not wait for the hub to say that nothing is new."""
    try:
        import huggingface_hub
        from huggingface_hub.errors import LocalEntryNotFoundError, RemoteEntryNotFoundError
    except ImportError as error:
        raise ProviderError(
            f"rerank.model {model} is a name on the hub, which needs a package that is not here ({error}); install it with:"
            " pip install 'rag-assets[rerank]', or name a folder with rerank.folder."
        ) from error
    fetch = functools.partial(huggingface_hub.hf_hub_download, model, revision=revision)
    files = [file] if file else _FILES
    for name in files:
        with contextlib.suppress(LocalEntryNotFoundError):
            fetch(name, local_files_only=True)
            return Path(fetch(_TOKENIZER, local_files_only=True)).parent, name
    try:
        folder = Path(fetch(_TOKENIZER)).parent
        for name in files:
            for beside in _beside(name):  # first, so that a network that is there is whole
                with contextlib.suppress(RemoteEntryNotFoundError):
                    fetch(beside)
            with contextlib.suppress(RemoteEntryNotFoundError):
                fetch(name)
                return folder, name
    except Exception as error:  # the hub, the network and the disk each fail in their own way
        raise ProviderError(
            f"rerank.model {model} cannot be had from the hub: {type(error).__name__}:"
            f" {' '.join(str(error).split())[:300]}; check its name, rerank.revision and the network, or name a folder with"
            " rerank.folder."
        ) from error
    raise ProviderError(
        f"rerank.model {model} has no {' or '.join(files)} on the hub; name the network's file with rerank.file, or a model"
        " that was exported to ONNX."
    )


def _sigmoid(logit: float) -> float:
    """Between 0 and 1, without overflow."""
    return 1 / (1 + math.exp(-logit)) if logit >= 0 else math.exp(logit) / (1 + math.exp(logit))
