"""Who answers: personas, which are YAML files with the ten parts of R.I.S.C.E.A.R.

Here belongs what a persona is and where it is found; the folder `personas` beside this module holds those that come
with the package. What a persona says to a model is worded in `prompts/persona.md`.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from rag_assets.answering.prompts import read_prompts
from rag_assets.config import Settings, explain, read_yaml
from rag_assets.errors import ConfigError, QuestionError
from rag_assets.retrieving.conditions import NOT_ONE_CONDITION, is_one_condition

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Texts = Annotated[Sequence[Text], Field(min_length=1)]

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Persona(BaseModel):
    """Who answers, how, and what is checked before the answer is sent.

    The parts from `role` to `adoption_checklist` go to the model. `where`, a SQL condition on the columns of the index,
    is the only one that retrieval knows: it holds for questions that bring no condition of their own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Text
    name: Text
    phase: Text
    category: Text
    role: Text
    inputs: Texts
    style: Text
    constraints: Texts
    expected_output: Text
    archetype: Text
    responsibilities: Texts
    role_skills: Texts
    role_collaborators: Texts
    adoption_checklist: Texts
    where: Text | None = None

    @field_validator("id")
    @classmethod
    def _id_is_easy_to_type(cls, value: str) -> str:
        if not _ID.fullmatch(value):
            raise ValueError(
                f"{value!r} is not allowed; allowed: up to 63 lower-case letters, digits, hyphens and underscores, the"
                " first a letter or digit"
            )
        return value

    @field_validator("where")
    @classmethod
    def _where_is_one_condition(cls, value: str | None) -> str | None:
        if value is not None and not is_one_condition(value):
            raise ValueError(f"{value!r} {NOT_ONE_CONDITION}")
        return value

    @property
    def instructions(self) -> str:
        """What a model is told of the persona, after the rules that hold for all."""
        texts = {name: value for name, value in self if isinstance(value, str)}
        lists = {name: _listed(value) for name, value in self if value is not None and name not in texts}
        return read_prompts().fill("persona", **texts, **lists)


def known_personas(settings: Settings) -> Mapping[str, tuple[Persona, Path]]:
    """Every persona and its file, by id in alphabetical order: those of the package, and those of `settings.personas`,
    which come before them.

    Raises `ConfigError` when the folder or a file in it cannot be used.
    """
    found = _read_folder(Path(str(resources.files("rag_assets.answering") / "personas")))
    if settings.personas is not None:
        try:
            found |= _read_folder(settings.personas)
        except OSError as error:
            raise ConfigError(
                f"{settings.path}: personas: {settings.personas} cannot be listed ({error.strerror}); name a folder of"
                " persona files that can be read, or leave the key out"
            ) from None
    return dict(sorted(found.items()))


def find_persona(settings: Settings, persona_id: str) -> Persona:
    """The persona with this id. Raises `QuestionError` that lists those there are."""
    known = known_personas(settings)
    if persona_id not in known:
        raise QuestionError(f"there is no persona {persona_id!r}; there are: {', '.join(known)}")
    return known[persona_id][0]


def read_persona(path: Path) -> Persona:
    """The persona in the file at `path`. Raises `ConfigError` with one line a problem."""
    try:
        raw = read_yaml(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{path}: is not a mapping of keys; a persona has: {', '.join(Persona.model_fields)}")
    try:
        return Persona.model_validate(raw)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(path, "", error, Persona))) from None


def _read_folder(folder: Path) -> dict[str, tuple[Persona, Path]]:
    found: dict[str, tuple[Persona, Path]] = {}
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml")):
        persona = read_persona(path)
        if persona.id in found:
            raise ConfigError(f"{path}: id: {persona.id!r} is the id of {found[persona.id][1]}, too; give it another")
        found[persona.id] = (persona, path)
    return found


def _listed(values: Sequence[str]) -> str:
    return "\n".join(f"- {value}" for value in values)
