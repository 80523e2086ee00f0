"""The prompts, which are files beside this module: changing one changes its version, as with code.

Here belongs finding, filling and versioning them. What is filled in is decided by the generator.
"""

import functools
from importlib import resources
from string import Template
from typing import Literal

from rag_assets.fingerprints import fingerprint

PromptName = Literal["system", "persona", "question"]
_NAMES: tuple[PromptName, ...] = ("system", "persona", "question")


def prompt(name: PromptName, /, **values: str) -> str:
    """The prompt called `name` with its `$placeholders` filled in. What is filled in is never filled in again."""
    return Template(_read(name)).substitute(values)


def prompt_version() -> str:
    """Twelve hexadecimal digits over the text of every prompt file."""
    return fingerprint({name: _read(name) for name in _NAMES})[:12]


@functools.cache
def _read(name: PromptName) -> str:
    return (resources.files("rag_assets.answering") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()
