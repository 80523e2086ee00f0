"""The manual is true of the code: links, settings, commands, columns and make targets are compared with what is there.

Whether a sentence is right is not tested here; whether it names something that exists is.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.main import get_command

from rag_assets import config, records
from rag_assets.cli import app
from rag_assets.reading.formats import INCLUDE

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
EVERYTHING = [ROOT / "README.md", ROOT / "CHANGELOG.md", *PAGES]

# The sections of configuration.md, and whose keys each explains.
SECTIONS: Mapping[str, type[BaseModel]] = {
    "A corpus": config.CorpusSettings,
    "source, pages of the web": config.WebSettings,
    "chunking": config.ChunkingSettings,
    "chunking, by_glob": config.GlobChunking,
    "embedding, provider local": config.LocalEmbedding,
    "embedding, provider hashing": config.HashingEmbedding,
    "embedding, provider multilingual": config.MultilingualEmbedding,
    "embedding, provider onnx": config.OnnxEmbedding,
    "embedding, provider sentence_transformers": config.SentenceTransformersEmbedding,
    "embedding or generation, a plugin": config.PluginProvider,
    "embedding, a plugin": config.PluginEmbedding,
    "embedding, provider openai": config.OpenAIEmbedding,
    "embedding, ray": config.RayWorkers,
    "generation, provider extractive": config.ExtractiveGeneration,
    "generation, provider openai": config.OpenAIGeneration,
    "rerank, provider none": config.NoRerank,
    "rerank, provider late_interaction": config.LateInteractionRerank,
    "rerank, provider cross_encoder": config.CrossEncoderRerank,
    "rerank, provider http": config.HttpRerank,
    "rerank, provider llm": config.LLMRerank,
    "rerank, a plugin": config.PluginRerank,
    "retrieval": config.RetrievalSettings,
    "retrieval, weights": config.FusionWeights,
    "write": config.WriteSettings,
    "retention": config.RetentionSettings,
    "evaluation": config.EvaluationSettings,
    "health": config.HealthSettings,
}

# Beside the corpora.
EXPLAINED: Mapping[str, type[BaseModel]] = {**SECTIONS, "Notify": config.NotifySettings}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose_of(text: str) -> str:
    return _FENCE.sub("", text)


def sections_of(text: str) -> dict[str, str]:
    """What stands under each heading of the second level."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {heading.strip(): body for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def anchors_of(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose_of(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows_of(section: str) -> dict[str, list[str]]:
    """The rows of every table in a section by the key in their first cell."""
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if re.match(r"\| `\w+` \|", line)]
    return {cells[0].strip("`"): cells for cells in rows}


def models_under(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for option in parts_of(field.annotation):
            if isinstance(option, type) and issubclass(option, BaseModel):
                yield from models_under(option)


def parts_of(annotation: object) -> Iterator[object]:
    yield annotation
    for part in get_args(annotation):
        yield from parts_of(part)


def default_of(field: FieldInfo) -> object:
    """The default as the manual writes it: the provider of a section, `defaults` where it has none."""
    if field.is_required():
        return "required"
    if field.default == INCLUDE:
        return "every format"
    if isinstance(field.default, BaseModel):
        return getattr(field.default, "provider", "defaults")
    return list(field.default) if isinstance(field.default, tuple) else field.default


@pytest.mark.parametrize("page", EVERYTHING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_a_page_and_a_heading_that_exist(page: Path):
    for target in _LINK.findall(prose_of(read(page))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.is_file(), f"{target} does not exist"
        assert not anchor or anchor in anchors_of(read(found)), f"{target} has no such heading"


def test_every_page_is_on_the_map():
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in _LINK.findall(read(DOCS / "index.md"))}
    assert [page for page in PAGES if page.name != "index.md" and page.resolve() not in linked] == []


def test_every_settings_model_has_a_section():
    assert set(models_under(config.CorpusSettings)) == set(SECTIONS.values())


@pytest.mark.parametrize("heading", EXPLAINED)
def test_configuration_explains_every_key_and_no_other(heading: str):
    explained = rows_of(sections_of(read(DOCS / "configuration.md"))[heading])
    inherited = config.CuttingSettings.model_fields if heading == "chunking, by_glob" else {}
    assert set(explained) == set(EXPLAINED[heading].model_fields) - {"name", *inherited}


@pytest.mark.parametrize("heading", EXPLAINED)
def test_configuration_tells_the_defaults_and_the_choices(heading: str):
    explained = rows_of(sections_of(read(DOCS / "configuration.md"))[heading])
    for key, cells in explained.items():
        field = EXPLAINED[heading].model_fields[key]
        assert yaml.safe_load(cells[2].strip("`")) == default_of(field), key
        if get_origin(field.annotation) is Literal:
            assert re.findall(r"`(\w+)`", cells[1]) == list(get_args(field.annotation)), key


def test_configuration_explains_every_environment_variable():
    used = {
        name
        for path in (ROOT / "rag_assets").rglob("*.py")
        for name in re.findall(r"\"(RAG_ASSETS_\w+|DAGSTER_HOME|OPENAI_\w+)\"", read(path))
    }
    explained = set(re.findall(r"`([A-Z_]+)`", sections_of(read(DOCS / "configuration.md"))["Environment variables"]))
    assert used == explained


def test_yaml_examples_parse_and_configurations_are_valid(tmp_path: Path):
    blocks = [body for page in EVERYTHING for language, body in _FENCE.findall(read(page)) if language == "yaml"]
    configurations = 0
    for body in blocks:
        value: Any = yaml.safe_load(body)
        if "corpora" in value:
            path = tmp_path / "corpora.yaml"
            path.write_text(body, encoding="utf-8")
            assert config.load_settings(path).corpora
            configurations += 1
    assert configurations >= 4


def test_command_line_names_every_command_and_option_and_no_other():
    group: Any = get_command(app)
    described = sections_of(read(DOCS / "command-line.md"))
    commands = {f"rag-assets {name}": command for name, command in group.commands.items()}
    assert {heading for heading in described if heading.startswith("rag-assets ")} == set(commands)
    for heading, command in commands.items():
        named = [option for one in command.params for option in (*one.opts, *one.secondary_opts)]
        options = {option for option in named if option.startswith("-")}
        assert options - {"--help"} == set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", described[heading])), heading


def test_make_targets_in_the_manual_exist_and_development_names_them_all():
    targets = set(re.findall(r"^([a-z-]+):.*##", read(ROOT / "Makefile"), re.MULTILINE))
    for page in EVERYTHING:
        text = read(page)
        code = [body for _, body in _FENCE.findall(text)] + re.findall(r"`([^`\n]+)`", prose_of(text))
        named = {name for part in code for name in re.findall(r"^(?:\$ )?make ([a-z-]+)", part, re.MULTILINE)}
        assert named <= targets, page
    development = re.findall(r"`make ([a-z-]+)`", sections_of(read(DOCS / "development.md"))["Make targets"])
    assert set(development) == targets


def test_storage_names_every_column():
    rows = dict(re.findall(r"^\| `([a-z]+)[^`]*` \| (.+) \|$", read(DOCS / "storage.md"), re.MULTILINE))
    for table, schema in {
        "documents": records.DOCUMENTS,
        "chunks": records.CHUNKS,
        "publications": records.PUBLICATIONS,
        "evaluations": records.EVALUATIONS,
        "health": records.HEALTH,
        "vectors": records.vectors_schema(1),
    }.items():
        assert re.findall(r"`(\w+)`", rows[table]) == schema.names, table
    added = [name for name in records.index_schema(1).names if name not in records.CHUNKS.names]
    assert re.findall(r"`(\w+)`", rows["index"]) == ["chunks", *added]


def test_asking_names_every_field_of_answer_and_citation():
    described = sections_of(read(DOCS / "asking.md"))
    answer = set(re.findall(r"`(\w+)`", described["The answer record"]))
    usage = {field.name for field in fields(records.Usage)}
    assert answer == {"num_sources", *usage, *(field.name for field in fields(records.Answer))}
    citation = set(re.findall(r"`(\w+)`", described["Citations"]))
    assert citation == {field.name for field in fields(records.Citation)}
    kept = {"asked_at", "citation_corpora", "citation_also_in", *answer} - usage - {"num_sources"}
    assert kept == set(records.ANSWERS.names)


def test_the_manual_stays_small_enough_for_the_demo():
    manual = [page for page in PAGES if page.parent == DOCS]
    assert len(manual) <= 30
    assert sum(page.stat().st_size for page in manual) <= 190_000


def test_the_question_of_the_demo_is_answered_on_its_page():
    question = re.search(r"^Q \?= (.+)$", read(ROOT / "Makefile"), re.MULTILINE)
    assert question is not None
    assert question[1] == "What happens to the embeddings when a file is renamed?"
    described = sections_of(read(DOCS / "how-it-works.md"))
    assert "no text is sent to the embedding provider" in " ".join(described["When a file is renamed or moved"].split())
