"""Which tables lie in a folder of the store, and how many bytes they take; on this machine, or in an object store."""

import os
from pathlib import Path

from rag_assets.storing.objects import objects_at

_TABLE = ".lance"


def folders_in(uri: str) -> list[str]:
    """The names of the folders in the folder at `uri`, sorted; none where there is no such folder."""
    if "://" in uri:
        return objects_at(uri).folders()
    folder = Path(uri)
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def tables_in(uri: str) -> list[str]:
    """The names of the Lance tables in the folder at `uri`, sorted."""
    return [name.removesuffix(_TABLE) for name in folders_in(uri) if name.endswith(_TABLE)]


def bytes_in(uri: str) -> int:
    """How many bytes the files below `uri` take. Files that go meanwhile are not counted."""
    if "://" in uri:
        return objects_at(uri).size()
    taken = 0
    for folder, _, names in os.walk(uri):
        for name in names:
            try:
                taken += (Path(folder) / name).stat().st_size
            except FileNotFoundError:
                continue
    return taken
