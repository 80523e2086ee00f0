"""The files of a model on this machine: what they are is told by their hashes, wherever they lie."""

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from rag_assets.errors import ProviderError


def hash_files(folder: Path, names: Iterable[str], *, section: str = "embedding") -> dict[str, str]:
    """The SHA-256 of each file of `folder` by its name, in the order of the names.

    A file is read again only when its size, its time or its inode has changed; about one second a gigabyte. Raises
    `ProviderError` that names the section's `folder` when one cannot be read.
    """
    return {name: _sha256(folder / name, section) for name in sorted(names)}


def all_files(folder: Path) -> list[str]:
    """Every file under `folder` but hidden ones and prose, by its path with slashes.

    Raises `ProviderError` when there is none.
    """
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".md"]
    names = [path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts)]
    if not names:
        raise ProviderError(f"{folder} holds no model; check embedding.folder.")
    return names


def _sha256(path: Path, section: str) -> str:
    try:
        found = path.stat()
        return _sha256_of_version(path, (found.st_size, found.st_mtime_ns, found.st_ino))
    except OSError as error:
        raise ProviderError(
            f"The model file {path} cannot be read: {error.strerror}; check {section}.folder."
        ) from None


@functools.cache
def _sha256_of_version(path: Path, version: tuple[int, int, int]) -> str:  # noqa: ARG001 - part of the key
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
