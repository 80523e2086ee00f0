"""`corpora.yaml` as typed settings.

Here belongs what a person may write in the file and what it means; no client is made and nothing is opened. Every
problem is a `ConfigError` that names the file, the key, the value and what is allowed. Secrets are never in the file:
settings name the environment variable that holds them.
"""

import difflib
import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from fsspec.utils import glob_translate
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rag_assets.errors import ConfigError, QuestionError

CONFIG_FILE = "corpora.yaml"
_PACKAGE_PARENT = Path(__file__).resolve().parent.parent
_CORPUS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

PositiveInt = Annotated[int, Field(ge=1)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ChunkingSettings(_Settings):
    """How a document is cut. Limits count tokens of `tokenizer`; the overlap is part of the limit, and unless it is given
    at most a quarter of it."""

    strategy: Literal["markdown", "paragraph", "fixed_size"] = "markdown"
    max_tokens: Annotated[int, Field(ge=8, le=100_000)] = 180
    overlap_tokens: Annotated[int, Field(ge=0)] = 20
    tokenizer: Literal["cl100k_base", "o200k_base"] = "cl100k_base"

    @model_validator(mode="before")
    @classmethod
    def _overlap_is_a_quarter_at_most(cls, values: object) -> object:
        if isinstance(values, dict) and isinstance(values.get("max_tokens"), int):
            return {"overlap_tokens": min(20, max(values["max_tokens"], 0) // 4), **values}
        return values

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.overlap_tokens * 2 > self.max_tokens:
            raise ValueError(
                f"overlap_tokens {self.overlap_tokens} must be at most half of max_tokens {self.max_tokens}"
            )
        return self


class LocalEmbedding(_Settings):
    """The embedded model: MiniLM-L6-v2 on this machine's CPU, 384 dimensions, no key, no download."""

    provider: Literal["local"] = "local"
    threads: PositiveInt | None = None


class HashingEmbedding(_Settings):
    """A deterministic bag-of-words embedder that costs nothing. For tests and benchmarks: it understands nothing."""

    provider: Literal["hashing"]
    dimensions: Annotated[int, Field(ge=2, le=65_536)] = 384


class OpenAIEmbedding(_Settings):
    """Any server that speaks OpenAI's embeddings protocol."""

    provider: Literal["openai"]
    model: str = "text-embedding-3-small"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    dimensions: PositiveInt | None = None
    query_prefix: str = ""
    document_prefix: str = ""
    max_inputs_per_request: Annotated[int, Field(ge=1, le=2048)] = 128
    max_tokens_per_request: Annotated[int, Field(ge=1, le=300_000)] = 100_000
    max_tokens_per_input: PositiveInt = 8192
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 6
    usd_per_million_tokens: Annotated[float, Field(ge=0)] | None = None


class ExtractiveGeneration(_Settings):
    """The embedded default: the sentences of the passages that answer, each with its citation."""

    provider: Literal["extractive"] = "extractive"
    max_sentences: Annotated[int, Field(ge=1, le=20)] = 3


class OpenAIGeneration(_Settings):
    """Any server that speaks OpenAI's chat protocol."""

    provider: Literal["openai"]
    model: str = "gpt-4o-mini"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    max_answer_tokens: PositiveInt = 800
    max_context_tokens: PositiveInt = 6000
    timeout_seconds: Annotated[float, Field(gt=0)] = 120.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 4
    usd_per_million_input_tokens: Annotated[float, Field(ge=0)] | None = None
    usd_per_million_output_tokens: Annotated[float, Field(ge=0)] | None = None


class RerankSettings(_Settings):
    """A second opinion on the order of the passages that retrieval found."""

    provider: Literal["none"] = "none"


class RetrievalSettings(_Settings):
    """How passages are found. `candidates` are taken from each of vector and full-text search before fusion."""

    mode: Literal["hybrid", "vector", "text"] = "hybrid"
    top_k: Annotated[int, Field(ge=1, le=1000)] = 5
    candidates: Annotated[int, Field(ge=1, le=10_000)] = 100


EmbeddingSettings = LocalEmbedding | HashingEmbedding | OpenAIEmbedding
GenerationSettings = ExtractiveGeneration | OpenAIGeneration


class CorpusSettings(_Settings):
    """One corpus: where its documents are and what is done with them."""

    name: str
    source: str
    include: Annotated[Sequence[str], Field(min_length=1)] = ("**/*.md", "**/*.markdown", "**/*.txt")
    exclude: Sequence[str] = ()
    settle_seconds: Annotated[float, Field(ge=0)] = 2.0
    scan_seconds: Annotated[int, Field(ge=1)] = 30
    max_documents_per_run: Annotated[int, Field(ge=1, le=10_000)] = 500
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    max_share_deleted: Annotated[float, Field(ge=0, le=1)] = 0.5
    chunking: ChunkingSettings = ChunkingSettings()
    embedding: Annotated[EmbeddingSettings, Field(discriminator="provider")] = LocalEmbedding()
    generation: Annotated[GenerationSettings, Field(discriminator="provider")] = ExtractiveGeneration()
    rerank: RerankSettings = RerankSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    owners: Sequence[str] = ()

    @field_validator("include", "exclude")
    @classmethod
    def _globs_are_globs(cls, value: Sequence[str]) -> Sequence[str]:
        for glob in value:
            if not glob.strip():
                raise ValueError('a blank glob matches nothing; write "**/*" for every file')
            try:
                glob_translate(glob)
            except ValueError:
                raise ValueError(f"{glob!r} is no glob; ** stands alone between slashes, as in docs/**/*.md") from None
        return value


class Settings(_Settings):
    """Everything that `corpora.yaml` and the environment say, with absolute paths."""

    path: Path
    home: str
    corpora: dict[str, CorpusSettings]

    def corpus(self, name: str | None) -> CorpusSettings:
        """The corpus called `name`; the first one for None. An unknown name is a `QuestionError` that lists the known."""
        if name is None:
            return next(iter(self.corpora.values()))
        try:
            return self.corpora[name]
        except KeyError:
            raise QuestionError(
                f"there is no corpus {name!r} in {self.path}; it has: {', '.join(self.corpora)}"
            ) from None


def config_path() -> Path:
    """The configuration in force: `RAG_ASSETS_CONFIG`, else the nearest `corpora.yaml` at or above the working folder,
    else the one beside the package."""
    named = os.environ.get("RAG_ASSETS_CONFIG")
    if named:
        return Path(named).expanduser().absolute()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / CONFIG_FILE).is_file():
            return folder / CONFIG_FILE
    return _PACKAGE_PARENT / CONFIG_FILE


def load_settings(path: Path | None = None) -> Settings:
    """Read and validate the configuration at `path`, by default the one in force."""
    path = (path or config_path()).absolute()
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - it is a SafeLoader
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; create it (the README shows one) or name another with RAG_ASSETS_CONFIG"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict) or not isinstance(raw.get("corpora"), dict) or not raw["corpora"]:
        raise ConfigError(
            f"{path}: must hold a mapping 'corpora' with at least one corpus, such as: corpora: {{docs: {{source: docs/}}}}"
        )
    unknown = sorted(str(key) for key in raw if key != "corpora")
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]}: unknown key; allowed: corpora")
    corpora = {str(name): _load_corpus(path, str(name), body) for name, body in raw["corpora"].items()}
    _refuse_equal_up_to_case(path, corpora)
    return Settings(path=path, home=_home(path), corpora=corpora)


class _Loader(yaml.SafeLoader):
    """Refuses a key that is written twice: of two corpora with one name, YAML drops the first without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        """See `yaml.SafeLoader`."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is written twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _load_corpus(path: Path, name: str, body: object) -> CorpusSettings:
    if not _CORPUS_NAME.fullmatch(name):
        raise ConfigError(
            f"{path}: corpora.{name}: {name!r} is not a corpus name; allowed: a letter or underscore, then up to 62"
            " letters, digits and underscores"
        )
    if not isinstance(body, dict):
        raise ConfigError(f"{path}: corpora.{name}: {body!r} is not a mapping; it needs at least: source: FOLDER")
    if "name" in body:
        raise ConfigError(f"{path}: corpora.{name}.name: unknown key; the name of a corpus is the key {name!r} itself")
    try:
        settings = CorpusSettings.model_validate({"name": name, **body})
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(path, f"corpora.{name}", error))) from None
    if not settings.source.strip():
        raise ConfigError(f"{path}: corpora.{name}.source: '' is not a folder")
    if "://" not in settings.source:
        folder = Path(settings.source).expanduser()
        settings = settings.model_copy(update={"source": os.path.normpath(path.parent / folder)})
    return settings


def _refuse_equal_up_to_case(path: Path, corpora: Mapping[str, CorpusSettings]) -> None:
    seen: dict[str, str] = {}
    for name in corpora:
        if name.lower() in seen:
            raise ConfigError(
                f"{path}: corpora.{name}: differs from corpora.{seen[name.lower()]} in case only, and a file system may"
                " hold them for one; rename one of them"
            )
        seen[name.lower()] = name


def _home(path: Path) -> str:
    named = os.environ.get("RAG_ASSETS_HOME") or ".rag_assets"
    return named if "://" in named else os.path.normpath(path.parent / Path(named).expanduser())


def _explain(path: Path, where: str, error: ValidationError) -> Iterator[str]:
    for problem in error.errors():
        model, keys = _follow(problem["loc"])
        key = ".".join([where, *keys])
        value = problem["input"]
        match problem["type"]:
            case "extra_forbidden":
                allowed = sorted(
                    name for name in model.model_fields if not (model is CorpusSettings and name == "name")
                )
                close = difflib.get_close_matches(keys[-1], allowed, n=1)
                hint = f"did you mean {close[0]!r}? Allowed" if close else "allowed"
                yield f"{path}: {key}: unknown key; {hint}: {', '.join(allowed)}"
            case "model_type" | "model_attributes_type" | "dict_type":
                yield f"{path}: {key}: {value!r} is not allowed; it is a mapping of keys, such as: {keys[-1]}: {{...}}"
            case "sequence_str" | "sequence_type" | "list_type":
                yield f"{path}: {key}: {value!r} is not allowed; it is a list, such as: [{value!r}]"
            case "missing":
                yield f"{path}: {key}: is required"
            case "union_tag_invalid" | "union_tag_not_found":
                context = problem.get("ctx", {})
                allowed_tags = context.get("expected_tags") or ", ".join(f"'{tag}'" for tag in _tags(model, keys[-1]))
                found = context.get("tag")
                said = f"{found!r} is not allowed" if found else "is required"
                yield f"{path}: {key}.provider: {said}; allowed: {allowed_tags}"
            case "value_error":
                yield f"{path}: {key}: {str(problem['msg']).removeprefix('Value error, ')}"
            case _:
                yield f"{path}: {key}: {value!r} is not allowed; {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _follow(location: tuple[int | str, ...]) -> tuple[type[BaseModel], list[str]]:
    """The model that owns the last key of a pydantic error location, and the keys as written in the file."""
    model: type[BaseModel] = CorpusSettings
    keys: list[str] = []
    options: list[type[BaseModel]] = []
    for part in location:
        tagged = [option for option in options if part in _literals(option, "provider")]
        if tagged:
            model, options = tagged[0], []
            continue
        keys.append(str(part))
        field = model.model_fields.get(str(part))
        annotation = field.annotation if field else None
        options = [
            t for t in (get_args(annotation) or (annotation,)) if isinstance(t, type) and issubclass(t, BaseModel)
        ]
        if len(options) == 1:
            model, options = options[0], []
    return model, keys


def _literals(model: type[BaseModel], name: str) -> tuple[object, ...]:
    field = model.model_fields.get(name)
    return get_args(field.annotation) if field else ()


def _tags(model: type[BaseModel], name: str) -> list[object]:
    field = model.model_fields.get(name)
    return [tag for option in get_args(field.annotation if field else None) for tag in _literals(option, "provider")]
