"""The first configuration of a folder: `rag-assets init`."""

import re
from pathlib import Path

import yaml

from rag_assets.config import load_settings
from rag_assets.errors import ConfigError


def write_first_config(path: Path, folder: Path, *, overwrite: bool) -> str:
    """Write a configuration with one corpus, `folder`, to `path`, and return the corpus name, made of the folder's.

    Raises `ConfigError` when `folder` is none, or `path` exists and must not be overwritten.
    """
    folder = folder.expanduser().absolute()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise ConfigError(f"{folder} {what}; name the folder that holds the documents")
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists; add the folder to it, or overwrite it with --force")
    name = corpus_name(folder.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"corpora": {name: {"source": str(folder)}}}, allow_unicode=True), encoding="utf-8")
    load_settings(path)
    return name


def corpus_name(folder: str) -> str:
    """A corpus name that resembles a folder's: letters, digits and underscores, not beginning with a digit."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", folder).strip("_") or "corpus"
    return f"_{name}"[:60] if name[0].isdigit() else name[:60]
