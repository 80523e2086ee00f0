import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.answering.personas import find_persona, known_personas, read_persona
from rag_assets.config import Settings, load_settings
from rag_assets.errors import ConfigError, QuestionError

# Every part says something that no other says.
KEEPER: dict[str, Any] = {
    "id": "keeper",
    "name": "The keeper",
    "phase": "operation",
    "category": "harbour",
    "role": "You keep the lighthouse.",
    "inputs": ["A ship's question.", "The log."],
    "style": "Calm and short.",
    "constraints": ["Never shout."],
    "expected_output": "One sentence.",
    "archetype": "The guardian",
    "responsibilities": ["Keep the light burning."],
    "role_skills": ["Reading the weather."],
    "role_collaborators": ["The pilots."],
    "adoption_checklist": ["Is the light on?"],
}
SHIPPED = ["fact-checker", "on-call-engineer", "onboarding-guide", "support-agent", "technical-writer"]


def write_persona(folder: Path, file: str = "keeper.yaml", /, **keys: Any) -> Path:
    """A file with the keeper, but for `keys`; a key that is None is left out."""
    folder.mkdir(exist_ok=True)
    path = folder / file
    path.write_text(yaml.safe_dump({key: value for key, value in {**KEEPER, **keys}.items() if value is not None}))
    return path


def settings_with(folder: Path, **keys: Any) -> Settings:
    path = folder / "corpora.yaml"
    path.write_text(yaml.safe_dump({"corpora": {"docs": {"source": "docs/"}}, **keys}))
    return load_settings(path)


def test_the_personas_of_the_package_are_whole(tmp_path: Path):
    known = known_personas(settings_with(tmp_path))
    assert list(known) == SHIPPED
    assert all(file.stem == name and persona.where is None for name, (persona, file) in known.items())
    assert len({persona.instructions for persona, _ in known.values()}) == len(SHIPPED)


def test_a_model_is_told_all_ten_parts(tmp_path: Path):
    instructions = read_persona(write_persona(tmp_path)).instructions
    for part in KEEPER:
        if part in ("id", "phase", "category"):
            continue
        told = [KEEPER[part]] if isinstance(KEEPER[part], str) else [f"- {text}" for text in KEEPER[part]]
        assert all(text in instructions for text in told), part
    assert "$" not in instructions


def test_the_example_of_the_manual_is_a_persona(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "asking.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yaml\n(id: .*?)^```$", page, re.MULTILINE | re.DOTALL)
    path = tmp_path / "example.yaml"
    path.write_text(example)
    assert read_persona(path).where == "document LIKE 'harbour/%'"


def test_a_persona_cannot_fill_in_the_prompt_again(tmp_path: Path):
    assert "Costs $role" in read_persona(write_persona(tmp_path, style="Costs $role")).instructions


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"role": None}, "role: is required"),
        ({"role": " "}, "role: ' ' is not allowed; string should have at least 1 character"),
        ({"name": 7}, "name: 7 is not allowed; input should be a valid string"),
        ({"inputs": "A question."}, "inputs: 'A question.' is not allowed; it is a list, such as: ['A question.']"),
        ({"constraints": []}, "constraints: [] is not allowed; "),
        ({"constraints": ["Never shout.", 3]}, "constraints.1: 3 is not allowed; input should be a valid string"),
        ({"role_skils": ["x"]}, "role_skils: unknown key; did you mean 'role_skills'? Allowed: adoption_checklist, "),
        ({"id": "The Keeper"}, "id: 'The Keeper' is not allowed; allowed: up to 63 lower-case letters, "),
        (
            {"where": "document = 'a'; DROP"},
            "where: \"document = 'a'; DROP\" is not one SQL condition",
        ),
    ],
)
def test_a_bad_file_is_told_with_file_key_value_and_what_is_allowed(tmp_path: Path, keys: dict[str, Any], said: str):
    path = write_persona(tmp_path, **keys)
    with pytest.raises(ConfigError) as caught:
        read_persona(path)
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("- a list", "is not a mapping of keys; a persona has: id, name, phase, "),
        ("", "is not a mapping of keys"),
        ("id: [", "is not valid YAML: "),
        ("id: a\nid: b", "is not valid YAML: the key 'id' is written twice"),
        (b"id: \xff", "cannot be read: "),
    ],
)
def test_a_file_that_holds_no_persona_is_told(tmp_path: Path, content: str | bytes, said: str):
    path = tmp_path / "keeper.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError) as caught:
        read_persona(path)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_every_problem_of_a_file_has_a_line(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        read_persona(write_persona(tmp_path, role=None, style=None))
    assert [line.rpartition(": ")[0].rpartition(": ")[2] for line in str(caught.value).splitlines()] == [
        "role",
        "style",
    ]


def test_ones_own_folder_is_beside_the_file_and_comes_first(tmp_path: Path):
    write_persona(tmp_path / "ours")
    write_persona(tmp_path / "ours", "support.yml", id="support-agent", name="Ours")
    (tmp_path / "ours" / "README.md").write_text("no persona")
    settings = settings_with(tmp_path, personas="ours/")
    assert list(known_personas(settings)) == sorted([*SHIPPED, "keeper"])
    assert find_persona(settings, "support-agent").name == "Ours"
    assert find_persona(settings, "fact-checker").name == "Fact checker"


def test_two_files_of_a_folder_cannot_have_one_id(tmp_path: Path):
    first, second = write_persona(tmp_path / "ours"), write_persona(tmp_path / "ours", "other.yaml")
    with pytest.raises(ConfigError, match=f"{second}: id: 'keeper' is the id of {first}, too; give it another"):
        known_personas(settings_with(tmp_path, personas="ours"))


@pytest.mark.parametrize("folder", ["missing", "corpora.yaml"])
def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, folder: str):
    with pytest.raises(ConfigError, match=rf"corpora\.yaml: personas: .*{folder} cannot be listed"):
        known_personas(settings_with(tmp_path, personas=folder))


@pytest.mark.parametrize("folder", [7, "", ["ours"]])
def test_a_key_that_names_no_folder_is_told(tmp_path: Path, folder: object):
    with pytest.raises(ConfigError, match=r"corpora\.yaml: personas: .* is not allowed; it is a folder, such as"):
        settings_with(tmp_path, personas=folder)


def test_an_unknown_persona_is_answered_with_those_there_are(tmp_path: Path):
    with pytest.raises(QuestionError) as caught:
        find_persona(settings_with(tmp_path), "pirate")
    assert str(caught.value) == f"there is no persona 'pirate'; there are: {', '.join(SHIPPED)}"
