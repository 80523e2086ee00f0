"""The prompts, which are files: changing one changes its version, as with code.

Those of the package are beside this module; a folder of a person's own may replace some. Here belongs finding, checking,
filling and versioning them. What is filled in is decided by whoever asks.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Literal, get_args

from rag_assets.answering.replies import NOT_IN_SOURCES
from rag_assets.errors import ConfigError
from rag_assets.fingerprints import fingerprint

PromptName = Literal["system", "persona", "question", "rewrite"]

_PLACES: Mapping[str, frozenset[str]] = {
    "system": frozenset(),
    "question": frozenset({"boundary", "sources", "question"}),
    "rewrite": frozenset({"boundary", "conversation", "question"}),
}
"""Those that a folder may replace, and the places that each must have, and no others."""


@dataclass(frozen=True)
class Prompts:
    """The wording in force, by name."""

    texts: Mapping[str, str]

    def fill(self, name: PromptName, /, **values: str) -> str:
        """The prompt called `name` with its `$places` filled in. What is filled in is never filled in again."""
        return Template(self.texts[name]).substitute(values)

    @property
    def version(self) -> str:
        """Twelve hexadecimal digits over the text of every prompt."""
        return fingerprint(dict(self.texts))[:12]


def read_prompts(folder: str | None = None) -> Prompts:
    """The prompts of the package, those in place of which `folder` holds a file of the same name being its.

    Raises `ConfigError` that names the file where the folder or a file in it cannot be used.
    """
    ours = {name: _read(name) for name in get_args(PromptName)}
    return Prompts(ours if folder is None else ours | _read_folder(Path(folder)))


def _read_folder(folder: Path) -> dict[str, str]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == ".md")
        texts = {path: path.read_text(encoding="utf-8-sig").strip() for path in files}
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            f"{folder}: prompts cannot be read from it ({why}); generation.prompts names a folder with {_allowed()}"
        ) from None
    if not files:
        raise ConfigError(f"{folder}: holds no prompt; generation.prompts names a folder with {_allowed()}")
    for path, text in texts.items():
        if path.stem not in _PLACES:
            raise ConfigError(f"{path}: is no prompt that can be replaced; allowed: {_allowed()}")
        problem = _problem(path.stem, text)
        if problem:
            raise ConfigError(f"{path}: {problem}")
    return {path.stem: text for path, text in texts.items()}


def _problem(name: str, text: str) -> str | None:
    """What is wrong with a prompt, and what to write instead."""
    needed = _PLACES[name]
    places = ", ".join(f"${place}" for place in sorted(needed)) or "none"
    template = Template(text)
    if not template.is_valid():
        return f"holds a $ that begins no place; places are {places}, and a dollar sign is written $$"
    found = set(template.get_identifiers())
    if unknown := sorted(found - needed):
        return f"${unknown[0]} is no place of this prompt; places are {places}, and a dollar sign is written $$"
    if missing := sorted(needed - found):
        return f"${missing[0]} is missing; its places are {places}"
    if name == "system" and NOT_IN_SOURCES not in text:
        return f"must tell the model to reply with {NOT_IN_SOURCES} where the sources do not hold the answer"
    return None


def _allowed() -> str:
    return ", ".join(f"{name}.md" for name in _PLACES)


@functools.cache
def _read(name: str) -> str:
    return (resources.files("rag_assets.answering") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()
