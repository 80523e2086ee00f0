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


def write_dagster_settings(folder: Path) -> bool:
    """Write our `dagster.yaml` into `folder` unless one is there, and return whether it did.

    Without it Dagster keeps its slow event log, and reports usage statistics.
    """
    path = folder / "dagster.yaml"
    if path.exists():
        return False
    path.write_text(_dagster_settings(), encoding="utf-8")
    return True


def _dagster_settings() -> str:
    """The `dagster.yaml` of this project: inside the installed package, or beside the package in a checkout."""
    package = Path(__file__).parent
    places = (package / "dagster.yaml", package.parent / "dagster.yaml")
    return next(place for place in places if place.is_file()).read_text(encoding="utf-8")


def corpus_name(folder: str) -> str:
    """A corpus name that resembles a folder's: letters, digits and underscores, not beginning with a digit."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", folder).strip("_") or "corpus"
    return f"_{name}"[:60] if name[0].isdigit() else name[:60]
