"""Which tables lie in a folder of the store, and how many bytes they take; on this machine, or in an object store."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.errors import StoreError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_TABLE = ".lance"


def folders_in(uri: str) -> list[str]:
    """The names of the folders in the folder at `uri`, sorted; none where there is no such folder."""
    if "://" not in uri:
        folder = Path(uri)
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    files, place = _file_system(uri)
    found = files.ls(place, detail=True) if files.exists(place) else []
    return sorted(one["name"].rstrip("/").rpartition("/")[2] for one in found if one["type"] == "directory")


def tables_in(uri: str) -> list[str]:
    """The names of the Lance tables in the folder at `uri`, sorted."""
    return [name.removesuffix(_TABLE) for name in folders_in(uri) if name.endswith(_TABLE)]


def bytes_in(uri: str) -> int:
    """How many bytes the files below `uri` take. Files that go meanwhile are not counted."""
    if "://" in uri:
        files, place = _file_system(uri)
        return int(files.du(place)) if files.exists(place) else 0
    taken = 0
    for folder, _, names in os.walk(uri):
        for name in names:
            try:
                taken += (Path(folder) / name).stat().st_size
            except FileNotFoundError:
                continue
    return taken


def _file_system(uri: str) -> "tuple[AbstractFileSystem, str]":
    from fsspec.core import url_to_fs

    try:
        files, place = url_to_fs(uri)
    except ImportError as error:
        raise StoreError(f"{uri} cannot be listed: {error}") from error
    return files, place
