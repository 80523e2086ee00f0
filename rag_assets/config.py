"""`corpora.yaml` as typed settings.

Here belongs what a person may write in the file and what it means; no client is made and nothing is opened. Every
problem is a `ConfigError` that names the file, the key, the value and what is allowed. Secrets are never in the file:
settings name the environment variable that holds them.
"""

import difflib
import functools
import logging
import os
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rag_assets.embedding.templates import check_template
from rag_assets.errors import ConfigError, ProviderError, QuestionError
from rag_assets.globs import matcher, translate
from rag_assets.plugins import Section, load_plugin, plugin_names
from rag_assets.reading.formats import INCLUDE
from rag_assets.reading.sources.addresses import canonical_url
from rag_assets.reading.sources.schemes import credentials_of, scheme_of
from rag_assets.retrieving.filters import parse_filters

CONFIG_FILE = "corpora.yaml"
# A single letter before the colon is a drive.
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?P<slashes>/+)(?P<place>.*)")
_STORES = ("s3", "gs", "az", "abfs", "abfss")

_log = logging.getLogger(__name__)
_PACKAGE_PARENT = Path(__file__).resolve().parent.parent
_CORPUS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_SECRET = re.compile(r"secret|passw|token|key|credential|connection_string", re.IGNORECASE)
_PLUGIN_SECRET = re.compile(r"secret|passw|(api|access)_?key$|(access|auth)_?token$|credential", re.IGNORECASE)
_PASSWORD = re.compile(r"[^:/]+://[^/@]*:[^/@]*@")

_FOLDERS = ("folder", "prompts")
_CHARACTERS_PER_TOKEN = 4

MAX_NEIGHBOURS = 20
"""How many chunks before and after a passage an answer may read at most."""

MAX_BYTES = 200_000_000
"""The largest document that is read, unless the corpus says otherwise."""

MAX_SHARDS = 64
"""How many sets the partitions of a corpus may be divided into."""

PositiveInt = Annotated[int, Field(ge=1)]
Candidates = Annotated[int, Field(ge=1, le=1000)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CuttingSettings(_Settings):
    """How a document is cut. Limits count tokens of `tokenizer`, or code points; the overlap is part of the limit, and
    unless it is given at most a quarter of it."""

    strategy: Literal[
        "auto",
        "markdown",
        "paragraph",
        "sentence",
        "semantic",
        "code_function",
        "yaml_block",
        "parent_child",
        "fixed_size",
    ] = "auto"
    max_tokens: Annotated[int, Field(ge=8, le=100_000)] = 180
    overlap_tokens: Annotated[int, Field(ge=0)] = 20
    unit: Literal["tokens", "characters"] = "tokens"
    tokenizer: Literal["cl100k_base", "o200k_base"] = "cl100k_base"
    child_tokens: Annotated[int, Field(ge=8)] | None = None
    break_percentile: Annotated[int, Field(ge=1, le=50)] = 20

    @property
    def child_limit(self) -> int:
        """The most tokens of a child: `child_tokens`, else a third of `max_tokens`."""
        return self.child_tokens or max(8, self.max_tokens // 3)

    @model_validator(mode="before")
    @classmethod
    def _defaults_follow_the_limit(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        scale = _CHARACTERS_PER_TOKEN if values.get("unit") == "characters" else 1
        limit = values.get("max_tokens", 180 * scale)
        if not isinstance(limit, int):
            return values
        return {"max_tokens": limit, "overlap_tokens": min(20 * scale, max(limit, 0) // 4), **values}

    @model_validator(mode="after")
    def _limits_fit(self) -> Self:
        if self.overlap_tokens * 2 > self.max_tokens:
            raise ValueError(
                f"overlap_tokens {self.overlap_tokens} must be at most half of max_tokens {self.max_tokens}"
            )
        if self.child_limit > self.max_tokens:
            raise ValueError(f"child_tokens {self.child_tokens} must be at most max_tokens {self.max_tokens}")
        return self


class GlobChunking(CuttingSettings):
    """How the documents are cut whose path `glob` matches. What is not given is as in the section that holds it."""

    glob: str

    @field_validator("glob")
    @classmethod
    def _glob_is_a_glob(cls, value: str) -> str:
        return _check_glob(value)


class ChunkingSettings(CuttingSettings):
    """How the documents of a corpus are cut: all alike, but for those that a glob of `by_glob` matches."""

    by_glob: Sequence[GlobChunking] = ()

    @model_validator(mode="before")
    @classmethod
    def _globs_inherit(cls, values: object) -> object:
        if not isinstance(values, dict) or not isinstance(values.get("by_glob"), list | tuple):
            return values
        common = {key: value for key, value in values.items() if key in CuttingSettings.model_fields}
        rules = [_inherit(common, rule) if isinstance(rule, dict) else rule for rule in values["by_glob"]]
        return {**values, "by_glob": rules}

    def of(self, document: str) -> CuttingSettings:
        """The settings for the document at this path: those of the first glob that matches. Case is ignored."""
        return next((rule for rule in self.by_glob if _pattern(rule.glob).match(document)), self)


class RayWorkers(_Settings):
    """Documents are embedded by this many workers of a Ray cluster, each with a model and the resources named here."""

    workers: Annotated[int, Field(ge=1, le=1024)]
    cpus: Annotated[float, Field(ge=0)] = 1.0
    gpus: Annotated[float, Field(ge=0)] = 0.0
    address: Annotated[str, Field(min_length=1)] = "auto"
    start_seconds: Annotated[float, Field(gt=0)] = 300.0


class _Embedding(_Settings):
    """What every embedding provider may say. It changes no vector."""

    ray: RayWorkers | None = None


class LocalEmbedding(_Embedding):
    """The embedded model: MiniLM-L6-v2 on this machine's CPU, 384 dimensions, no key, no download."""

    provider: Literal["local"] = "local"
    threads: PositiveInt | None = None


class HashingEmbedding(_Embedding):
    """A deterministic bag-of-words embedder that costs nothing. For tests and benchmarks: it understands nothing."""

    provider: Literal["hashing"]
    dimensions: Annotated[int, Field(ge=2, le=65_536)] = 384


class OnnxEmbedding(_Embedding):
    """Any sentence-embedding model in ONNX format, from a folder of this machine, on its CPU."""

    provider: Literal["onnx"]
    folder: str
    file: str = "model.onnx"
    pooling: Literal["mean", "cls", "last"] = "mean"
    dimensions: PositiveInt | None = None
    query_prefix: str = ""
    document_prefix: str = ""
    max_tokens: Annotated[int, Field(ge=8)] = 512
    threads: PositiveInt | None = None


class MultilingualEmbedding(_Embedding):
    """Multilingual E5 small with 4-bit weights, on this machine's CPU: 384 dimensions, about 100 languages."""

    provider: Literal["multilingual"]
    threads: PositiveInt | None = None


class SentenceTransformersEmbedding(_Embedding):
    """A model that the package sentence-transformers loads, on a GPU where there is one."""

    provider: Literal["sentence_transformers"]
    model: str | None = None
    folder: str | None = None
    revision: str | None = None
    device: str | None = None
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 32
    dimensions: PositiveInt | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    max_tokens: Annotated[int, Field(ge=8)] | None = None
    max_inputs_per_request: Annotated[int, Field(ge=1, le=65_536)] = 256

    @model_validator(mode="after")
    def _names_one_model(self) -> Self:
        if (self.model is None) == (self.folder is None):
            raise ValueError("needs one of model, a name on the hub, and folder, a model of this machine")
        return self


class PluginProvider(_Settings):
    """A provider that another package brings, with the keys that it defines."""

    model_config = ConfigDict(extra="allow")

    provider: Annotated[str, Field(pattern=r"^[\w.-]+$")]

    @property
    def keys(self) -> Mapping[str, object]:
        """Every key of the section but `provider`, as it is written."""
        return self.model_extra or {}

    @model_validator(mode="after")
    def _keys_hold_no_secret(self) -> Self:
        for key in self.keys:
            if _PLUGIN_SECRET.search(key):
                raise ValueError(
                    f"{key} looks like a secret, and secrets are not written into this file; leave it out and set it in"
                    " the environment, as the plugin says"
                )
        return self


class PluginEmbedding(PluginProvider, _Embedding):
    """An embedding provider that another package brings, with the keys that it defines."""

    model_config = ConfigDict(extra="allow")


class ServerSettings(_Settings):
    """How a server that speaks OpenAI's protocol is reached, when a request is tried again, and how much is sent at once.

    The limits count for all processes of this machine that use the same server, key and model.
    """

    base_url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "OPENAI_API_KEY"
    api_key_header: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")] | None = None
    timeout_seconds: Annotated[float, Field(gt=0)] = 60.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 6
    first_wait_seconds: Annotated[float, Field(gt=0)] = 0.5
    longest_wait_seconds: Annotated[float, Field(gt=0)] = 120.0
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None


class OpenAIEmbedding(ServerSettings, _Embedding):
    """Any server that speaks OpenAI's embeddings protocol."""

    provider: Literal["openai"]
    model: str = "text-embedding-3-small"
    dimensions: PositiveInt | None = None
    truncate_dimensions: bool = False
    query_prefix: str = ""
    document_prefix: str = ""
    max_inputs_per_request: Annotated[int, Field(ge=1, le=2048)] = 128
    max_tokens_per_request: Annotated[int, Field(ge=1, le=300_000)] = 100_000
    max_tokens_per_input: PositiveInt = 8192
    usd_per_million_tokens: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _truncates_to_a_size(self) -> Self:
        if self.truncate_dimensions and self.dimensions is None:
            raise ValueError("truncate_dimensions needs dimensions, the numbers of a vector to keep")
        return self


class ExtractiveGeneration(_Settings):
    """The embedded default: the sentences of the passages that answer, each with its citation."""

    provider: Literal["extractive"] = "extractive"
    max_sentences: Annotated[int, Field(ge=1, le=20)] = 3


class ChatSettings(ServerSettings):
    """A model behind a server that speaks OpenAI's chat protocol."""

    model: str = "gpt-4o-mini"
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    max_answer_tokens: PositiveInt = 800
    max_context_tokens: PositiveInt = 6000
    timeout_seconds: Annotated[float, Field(gt=0)] = 120.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 4
    usd_per_million_input_tokens: Annotated[float, Field(ge=0)] | None = None
    usd_per_million_output_tokens: Annotated[float, Field(ge=0)] | None = None


class OpenAIGeneration(ChatSettings):
    """Any server that speaks OpenAI's chat protocol. `prompts` is a folder that replaces some of the package's."""

    provider: Literal["openai"]
    prompts: Annotated[str, Field(min_length=1)] | None = None


class NoRerank(_Settings):
    """The order in which retrieval found the passages."""

    provider: Literal["none"] = "none"


class LateInteractionRerank(_Settings):
    """The embedded default: the embedded model compares word pieces of question and passage."""

    provider: Literal["late_interaction"] = "late_interaction"
    threads: PositiveInt | None = None
    candidates: Candidates = 20
    timeout_seconds: Annotated[float, Field(gt=0)] = 20.0


class CrossEncoderRerank(_Settings):
    """A cross-encoder in ONNX format on this machine's CPU: it reads question and passage together. `file` is by default
    `model.onnx`, or `onnx/model.onnx`."""

    provider: Literal["cross_encoder"]
    folder: str | None = None
    model: str | None = None
    revision: str | None = None
    file: str | None = None
    max_tokens: Annotated[int, Field(ge=16)] = 512
    scores: Literal["sigmoid", "logit"] = "sigmoid"
    threads: PositiveInt | None = None
    candidates: Candidates = 30
    timeout_seconds: Annotated[float, Field(gt=0)] = 20.0

    @model_validator(mode="after")
    def _names_one_model(self) -> Self:
        if (self.model is None) == (self.folder is None):
            raise ValueError("needs one of folder, a model of this machine, and model, a name on the hub")
        return self


class HttpRerank(ServerSettings):
    """A server with a rerank endpoint, `base_url` + `/rerank`. `timeout_seconds` bounds all attempts together."""

    provider: Literal["http"]
    base_url: Annotated[str, Field(pattern=r"^https?://\S+$")]
    api: Literal["cohere", "tei"] = "cohere"
    model: str | None = None
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "RERANK_API_KEY"
    candidates: Candidates = 30
    max_documents_per_request: PositiveInt = 100
    timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    longest_wait_seconds: Annotated[float, Field(gt=0)] = 5.0
    usd_per_million_tokens: Annotated[float, Field(ge=0)] | None = None
    usd_per_thousand_searches: Annotated[float, Field(ge=0)] | None = None

    @field_validator("base_url")
    @classmethod
    def _path_is_added(cls, value: str) -> str:
        return value.rstrip("/").removesuffix("/rerank")

    @model_validator(mode="after")
    def _names_a_model(self) -> Self:
        if self.api == "cohere" and self.model is None:
            raise ValueError(
                "needs model, the model's name at the server; only api tei has one model and takes no name"
            )
        return self


class LLMRerank(ChatSettings):
    """A chat model that is asked for the order. `timeout_seconds` bounds all attempts together."""

    provider: Literal["llm"]
    candidates: Candidates = 20
    timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    longest_wait_seconds: Annotated[float, Field(gt=0)] = 10.0


class PluginRerank(PluginProvider):
    """A reranker that another package brings, with the keys that it defines and those that all rerankers have."""

    candidates: Candidates = 30
    timeout_seconds: Annotated[float, Field(gt=0)] = 20.0


class FusionWeights(_Settings):
    """How much each search counts when their rankings are fused."""

    vector: Annotated[float, Field(ge=0)] = 1.0
    text: Annotated[float, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _one_counts(self) -> Self:
        if not self.vector and not self.text:
            raise ValueError("vector and text are both 0, so that nothing is found; give one of them a weight")
        return self


class RetrievalSettings(_Settings):
    """How passages are found. `candidates` are taken from each of vector and full-text search before fusion.

    `filters` hold for every question, unless it has one on the same field. Passages that share `collapse` of their words
    become one; `diversity` weighs how unlike each other they are against how relevant. An answer reads `neighbours` chunks
    before and after each.
    """

    mode: Literal["hybrid", "vector", "text"] = "hybrid"
    top_k: Annotated[int, Field(ge=1, le=1000)] = 5
    candidates: Annotated[int, Field(ge=1, le=10_000)] = 100
    weights: FusionWeights = FusionWeights()
    rrf_k: Annotated[int, Field(ge=1, le=1000)] = 60
    filters: Sequence[str] = ()
    collapse: Annotated[float, Field(ge=0.5, le=1)] | None = None
    diversity: Annotated[float, Field(ge=0, le=1)] = 0.0
    neighbours: Annotated[int, Field(ge=0, le=MAX_NEIGHBOURS)] = 1

    @field_validator("filters")
    @classmethod
    def _filters_can_be_read(cls, value: Sequence[str]) -> Sequence[str]:
        try:
            parse_filters(value)
        except QuestionError as error:
            raise ValueError(str(error)) from None
        return value


def _whose(section: Section) -> Discriminator:
    """Tells whose settings those of `section` are: a provider of ours, or `plugin`; None where they do not say."""

    def provider_of(value: object) -> str | None:
        provider = value.get("provider") if isinstance(value, Mapping) else getattr(value, "provider", None)
        if not isinstance(provider, str):
            return None
        built_in = provider in _tags(CorpusSettings, section)
        return provider if built_in and not isinstance(value, PluginProvider) else "plugin"

    return Discriminator(provider_of)


_PLUGINS: Mapping[Section, type[PluginProvider]] = {
    "embedding": PluginEmbedding,
    "generation": PluginProvider,
    "rerank": PluginRerank,
}
EmbeddingSettings = Annotated[
    Annotated[LocalEmbedding, Tag("local")]
    | Annotated[HashingEmbedding, Tag("hashing")]
    | Annotated[OpenAIEmbedding, Tag("openai")]
    | Annotated[OnnxEmbedding, Tag("onnx")]
    | Annotated[MultilingualEmbedding, Tag("multilingual")]
    | Annotated[SentenceTransformersEmbedding, Tag("sentence_transformers")]
    | Annotated[PluginEmbedding, Tag("plugin")],
    _whose("embedding"),
]
GenerationSettings = Annotated[
    Annotated[ExtractiveGeneration, Tag("extractive")]
    | Annotated[OpenAIGeneration, Tag("openai")]
    | Annotated[PluginProvider, Tag("plugin")],
    _whose("generation"),
]
RerankSettings = Annotated[
    Annotated[NoRerank, Tag("none")]
    | Annotated[LateInteractionRerank, Tag("late_interaction")]
    | Annotated[CrossEncoderRerank, Tag("cross_encoder")]
    | Annotated[HttpRerank, Tag("http")]
    | Annotated[LLMRerank, Tag("llm")]
    | Annotated[PluginRerank, Tag("plugin")],
    _whose("rerank"),
]


class WebSettings(_Settings):
    """Pages of the web: those of `urls`, and those that `sitemap` lists."""

    urls: Sequence[str] = ()
    sitemap: str | None = None
    user_agent: str = "rag-assets"
    concurrency: Annotated[int, Field(ge=1, le=16)] = 4
    timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2
    first_wait_seconds: Annotated[float, Field(gt=0)] = 0.5
    longest_wait_seconds: Annotated[float, Field(gt=0)] = 20.0

    @field_validator("urls")
    @classmethod
    def _urls_are_addresses(cls, value: Sequence[str]) -> Sequence[str]:
        return [canonical_url(url) for url in value]

    @field_validator("sitemap")
    @classmethod
    def _sitemap_is_an_address(cls, value: str | None) -> str | None:
        return value if value is None else canonical_url(value)

    @model_validator(mode="after")
    def _names_a_page(self) -> Self:
        if not self.urls and self.sitemap is None:
            raise ValueError("names no page; give it urls, a list of addresses, or sitemap, the address of one")
        return self

    def __str__(self) -> str:
        return self.sitemap or (self.urls[0] if len(self.urls) == 1 else f"{len(self.urls)} pages of the web")


class WriteSettings(_Settings):
    """When a step that writes tables is tried again: after a commit that lost its race many times, or a disk that was full
    for a moment. Each wait is twice as long as the one before."""

    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    first_wait_seconds: Annotated[float, Field(gt=0)] = 2.0


class RetentionSettings(_Settings):
    """Which published versions are kept: those that are both among the newest `versions` and younger than `days`, and always
    the one that readers see. A vector that nothing has needed for `vectors_days` is deleted by maintenance; None keeps all.
    """

    versions: PositiveInt = 10
    days: Annotated[float, Field(gt=0)] = 30.0
    vectors_days: Annotated[float, Field(ge=1)] | None = 90.0


class EvaluationSettings(_Settings):
    """Questions with known answers, which judge the published index. A figure that falls by more than `max_drop` against
    the version before is told, and with `block` keeps a new version from being published."""

    questions: Annotated[str, Field(min_length=1)]
    top_k: Annotated[int, Field(ge=1, le=1_000)] = 10
    answers: bool = True
    sample: PositiveInt | None = None
    max_drop: Annotated[float, Field(ge=0, le=1)] = 0.05
    min_answer_rate: Annotated[float, Field(ge=0, le=1)] = 0.5
    block: bool = False


class HealthSettings(_Settings):
    """What the checks of a corpus let pass, and how much they look at.

    `max_lag_seconds` is how long a change may take to become searchable: by default an hour, or four scans where that is
    longer. `sample` is how many documents have their rows compared, all where it is None; `probe_texts` how many texts are
    embedded once more, to see whether the model is still the same.
    """

    max_lag_seconds: Annotated[float, Field(gt=0)] | None = None
    max_error_rate: Annotated[float, Field(ge=0, le=1)] = 0.1
    sample: PositiveInt | None = None
    probe_texts: Annotated[int, Field(ge=0, le=100)] = 3


class NotifySettings(_Settings):
    """Where failures are told: the environment variable that holds the address of a webhook, which is a secret."""

    webhook_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    timeout_seconds: Annotated[float, Field(gt=0)] = 10.0
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2
    first_wait_seconds: Annotated[float, Field(gt=0)] = 0.5


class ChatPrice(_Settings):
    """US dollars for a million tokens that a chat model reads, and writes."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]


class Prices(_Settings):
    """US dollars for a million tokens, by the name of the model. They come before the list of the package, and after what a
    corpus says itself."""

    embedding: Mapping[str, Annotated[float, Field(ge=0)]] = {}
    generation: Mapping[str, ChatPrice] = {}


class CorpusSettings(_Settings):
    """One corpus: where its documents are and what is done with them."""

    name: str
    source: str | WebSettings
    source_options: Mapping[str, Any] = {}
    include: Annotated[Sequence[str], Field(min_length=1)] = INCLUDE
    exclude: Sequence[str] = ()
    settle_seconds: Annotated[float, Field(ge=0)] = 2.0
    scan_seconds: Annotated[int, Field(ge=1)] = 30
    max_documents_per_run: Annotated[int, Field(ge=1, le=10_000)] = 500
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] = 1
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    max_share_deleted: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_bytes: PositiveInt = MAX_BYTES
    chunking: ChunkingSettings = ChunkingSettings()
    embedding: EmbeddingSettings = LocalEmbedding()
    embed_template: str | None = None
    generation: GenerationSettings = ExtractiveGeneration()
    rerank: RerankSettings = NoRerank()
    retrieval: RetrievalSettings = RetrievalSettings()
    write: WriteSettings = WriteSettings()
    retention: RetentionSettings = RetentionSettings()
    evaluation: EvaluationSettings | None = None
    health: HealthSettings = HealthSettings()
    max_cost_per_run: Annotated[float, Field(ge=0)] | None = None
    budget_per_month: Annotated[float, Field(ge=0)] | None = None
    owners: Sequence[Annotated[str, Field(pattern=r"^(team:\S+|[^@\s]+@[^@\s]+\.[^@\s]+)$")]] = ()

    @model_validator(mode="before")
    @classmethod
    def _web_is_looked_at_by_the_hour(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        source = web_settings(values.get("source"))
        if not isinstance(source, WebSettings):
            return values
        return {"scan_seconds": 3600, **values, "source": source}

    @model_validator(mode="after")
    def _reranks_in_the_embedded_model(self) -> Self:
        """Unless it is set: where the index uses the embedded model, there is a reranker that needs nothing else."""
        if "rerank" not in self.model_fields_set and isinstance(self.embedding, LocalEmbedding):
            object.__setattr__(self, "rerank", LateInteractionRerank())
        return self

    @field_validator("source")
    @classmethod
    def _source_holds_no_password(cls, value: str | WebSettings) -> str | WebSettings:
        if isinstance(value, str):
            _refuse_password(value)
        return value

    @field_validator("source_options")
    @classmethod
    def _options_hold_no_secret(cls, value: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        source = info.data.get("source")
        if isinstance(source, WebSettings) and value:
            raise ValueError("is for stores, not for pages of the web; what is said of those stands under source")
        _refuse_secrets(value, scheme_of(source) if isinstance(source, str) else "")
        return value

    @field_validator("include", "exclude")
    @classmethod
    def _globs_are_globs(cls, value: Sequence[str]) -> Sequence[str]:
        return [_check_glob(glob) for glob in value]

    @model_validator(mode="after")
    def _chunks_fit_the_model(self) -> Self:
        reads = _input_tokens(self.embedding)
        rules: Sequence[CuttingSettings] = (self.chunking, *self.chunking.by_glob)
        if reads is None:
            return self
        for rule in rules:
            is_child = rule.strategy == "parent_child"
            limit = rule.child_limit if is_child else rule.max_tokens
            tokens = limit // _CHARACTERS_PER_TOKEN if rule.unit == "characters" else limit
            if tokens > reads:
                where = f" of by_glob {rule.glob}" if isinstance(rule, GlobChunking) else ""
                key = "child_tokens" if is_child else "max_tokens"
                raise ValueError(
                    f"chunking.{key}{where} is {limit}, and the model of embedding.provider {self.embedding.provider} reads"
                    f" {reads} tokens at once; lower it, choose strategy parent_child, whose children are embedded, or"
                    " another model"
                )
        return self

    @field_validator("embed_template")
    @classmethod
    def _template_has_known_places(cls, value: str | None) -> str | None:
        return value if value is None else check_template(value)


def _input_tokens(embedding: object) -> int | None:
    """The most tokens that a model can read at once, None where only the model knows."""
    match embedding:
        case LocalEmbedding() | MultilingualEmbedding():
            return 512
        case OpenAIEmbedding():
            return embedding.max_tokens_per_input
        case OnnxEmbedding() | SentenceTransformersEmbedding():
            return embedding.max_tokens
    return None


def web_settings(source: object) -> object:
    """A `source` as it is written, with addresses of the web as what they mean: a sitemap where they end in `.xml`, one
    page elsewhere."""
    if isinstance(source, str) and scheme_of(source) in ("http", "https") and "::" not in source:
        is_sitemap = source.partition("?")[0].lower().endswith((".xml", ".xml.gz"))
        return WebSettings.model_validate({"sitemap": source} if is_sitemap else {"urls": [source]})
    return WebSettings.model_validate(source) if isinstance(source, dict) else source


def _refuse_password(source: str) -> None:
    if any(_PASSWORD.match(part) for part in source.split("::") if scheme_of(part) != "github"):
        raise ValueError(
            "holds a password, and secrets are not written into this file; leave it out and set it in the"
            f" environment: {credentials_of(scheme_of(source))}"
        )


def _refuse_secrets(options: Mapping[str, Any], scheme: str) -> None:
    for key, value in options.items():
        if _SECRET.search(key):
            raise ValueError(
                f"{key} looks like a secret, and secrets are not written into this file; leave it out and"
                f" set it in the environment: {credentials_of(scheme)}"
            )
        if isinstance(value, Mapping):
            _refuse_secrets(value, scheme)


def _check_glob(glob: str) -> str:
    if not glob.strip():
        raise ValueError('a blank glob matches nothing; write "**/*" for every file')
    try:
        translate(glob)
    except ValueError:
        raise ValueError(f"{glob!r} is no glob; ** stands alone between slashes, as in docs/**/*.md") from None
    return glob


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    return matcher([glob])


def _inherit(common: Mapping[str, object], rule: Mapping[str, object]) -> dict[str, object]:
    """`rule` with what it does not say itself. Limits in another unit mean nothing to it."""
    limits = ("max_tokens", "overlap_tokens", "child_tokens")
    inherited = {key: value for key, value in common.items() if key not in limits or "unit" not in rule}
    return {**inherited, **rule}


class Settings(_Settings):
    """Everything that `corpora.yaml` and the environment say, with absolute paths. `personas` is a folder."""

    path: Path
    home: str
    corpora: dict[str, CorpusSettings]
    personas: Path | None = None
    notify: NotifySettings | None = None

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
    else the one beside the package, that of a checkout, and a log line names it. Raises `ConfigError` where there is none.
    """
    named = os.environ.get("RAG_ASSETS_CONFIG")
    if named:
        return _expanded(named).absolute()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / CONFIG_FILE).is_file():
            return folder / CONFIG_FILE
    beside = _PACKAGE_PARENT / CONFIG_FILE
    if not beside.is_file():
        raise ConfigError(
            f"there is no {CONFIG_FILE} in {here} or above it; write one with: rag-assets init FOLDER, or name one with"
            " RAG_ASSETS_CONFIG"
        )
    _tell_of(beside, here)
    return beside


@functools.cache
def _tell_of(path: Path, here: Path) -> None:
    """Say once that a file is in force that whoever stands in `here` may not think of."""
    _log.warning("there is no %s in %s or above it; %s is used", CONFIG_FILE, here, path)


def load_settings(path: Path | None = None) -> Settings:
    """Read and validate the configuration at `path`, by default the one in force."""
    path = (path or config_path()).absolute()
    try:
        raw = read_yaml(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; write one with: rag-assets init FOLDER, or name another with RAG_ASSETS_CONFIG"
        ) from None
    if not isinstance(raw, dict) or not isinstance(raw.get("corpora"), dict) or not raw["corpora"]:
        raise ConfigError(
            f"{path}: must hold a mapping 'corpora' with at least one corpus, such as: corpora: {{docs: {{source: docs/}}}}"
        )
    unknown = sorted(str(key) for key in raw if key not in ("corpora", "notify", "personas", "prices"))
    if unknown:
        raise ConfigError(f"{path}: {unknown[0]}: unknown key; allowed: corpora, notify, personas, prices")
    prices = _load_prices(path, raw.get("prices", {}))
    corpora = {str(name): _priced(_load_corpus(path, str(name), body), prices) for name, body in raw["corpora"].items()}
    _refuse_equal_up_to_case(path, corpora)
    return Settings(
        path=path,
        home=_home(path),
        corpora=corpora,
        personas=_load_personas(path, raw.get("personas")),
        notify=_load_notify(path, raw.get("notify")),
    )


def read_yaml(path: Path) -> object:
    """What the file at `path` says. Raises `FileNotFoundError`, and `ConfigError` where it cannot be read otherwise."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - it is a SafeLoader
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None


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
    if "source" in body:
        body = {**body, "source": _load_source(path, f"corpora.{name}.source", body["source"])}
    evaluation = body.get("evaluation")
    if isinstance(evaluation, dict) and "questions" in evaluation:
        questions = _absolute(path, evaluation["questions"])
        body = {**body, "evaluation": {**evaluation, "questions": questions}}
    for section in get_args(Section):
        if section in body:
            body = {**body, section: _load_provider(path, f"corpora.{name}.{section}", section, body[section])}
    try:
        return CorpusSettings.model_validate({"name": name, **body})
    except ValidationError as error:
        raise ConfigError("\n".join(explain(path, f"corpora.{name}", error))) from None


def _load_prices(path: Path, body: object) -> Prices:
    if not isinstance(body, dict):
        raise ConfigError(
            f"{path}: prices: {body!r} is not a mapping; such as: prices: {{embedding: {{my-model: 0.02}}}}"
        )
    try:
        return Prices.model_validate(body)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(path, "prices", error, Prices))) from None


def _load_notify(path: Path, body: object) -> NotifySettings | None:
    if body is None:
        return None
    if not isinstance(body, dict):
        raise ConfigError(
            f"{path}: notify: must be a mapping that names the variable with the address, such as: notify: {{webhook_env:"
            " SLACK_WEBHOOK_URL}"
        )
    try:
        return NotifySettings.model_validate(body)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(path, "notify", error, NotifySettings))) from None


def _load_personas(path: Path, folder: object) -> Path | None:
    if folder is None:
        return None
    if not isinstance(folder, str) or not folder.strip():
        raise ConfigError(f"{path}: personas: {folder!r} is not allowed; it is a folder, such as: personas: personas/")
    return Path(os.path.normpath(path.parent / _expanded(folder)))


def _priced(corpus: CorpusSettings, prices: Prices) -> CorpusSettings:
    """`corpus` with the prices of its models, where the table has them and the corpus says none itself."""
    embedding = corpus.embedding
    if isinstance(embedding, OpenAIEmbedding) and embedding.usd_per_million_tokens is None:
        price = prices.embedding.get(embedding.model)
        embedding = embedding.model_copy(update={"usd_per_million_tokens": price})
    chats = {
        section: _priced_chat(settings, prices)
        for section, settings in (("generation", corpus.generation), ("rerank", corpus.rerank))
        if isinstance(settings, ChatSettings)
    }
    return corpus.model_copy(update={"embedding": embedding, **chats})


def _priced_chat(chat: ChatSettings, prices: Prices) -> ChatSettings:
    listed = prices.generation.get(chat.model)
    if listed is None:
        return chat
    told = (chat.usd_per_million_input_tokens, chat.usd_per_million_output_tokens)
    return chat.model_copy(
        update={
            "usd_per_million_input_tokens": listed.input if told[0] is None else told[0],
            "usd_per_million_output_tokens": listed.output if told[1] is None else told[1],
        }
    )


def _load_source(path: Path, key: str, source: object) -> str | WebSettings:
    """`source` with an absolute path, that of the last part where it is a chain of addresses."""
    try:
        source = web_settings(source)
    except ValidationError as error:
        raise ConfigError("\n".join(explain(path, key, error, WebSettings))) from None
    if isinstance(source, WebSettings):
        return source
    if not isinstance(source, str):
        raise ConfigError(
            f"{path}: {key}: {source!r} is not allowed; it is a string, a folder or an address, or a mapping with urls or"
            " sitemap"
        )
    if not source.strip():
        raise ConfigError(f"{path}: {key}: '' is not a folder")
    chain, separator, last = source.rpartition("::") if "://" in source else ("", "", source)
    if "://" in last:
        return source
    return f"{chain}{separator}{os.path.normpath(path.parent / _expanded(last))}"


def _load_provider(path: Path, key: str, section: Section, written: object) -> object:
    """A section that names a provider, with an absolute folder; what a plugin brings is checked by the plugin."""
    if not isinstance(written, dict):
        raise ConfigError(
            f"{path}: {key}: {written!r} is not allowed; it is a mapping of keys, such as: {section}: {{...}}"
        )
    provider = written.get("provider")
    built_in = _tags(CorpusSettings, section)
    if provider in built_in:
        return {name: _absolute(path, value) if name in _FOLDERS else value for name, value in written.items()}
    if provider not in plugin_names(section):
        said = "is required" if "provider" not in written else f"{provider!r} is not allowed"
        plugins = plugin_names(section)
        close = difflib.get_close_matches(str(provider), [*built_in, *plugins], n=1)
        hint = f"did you mean {close[0]!r}? Allowed" if close else "allowed"
        brought = ", ".join(map(repr, plugins)) or "none is installed"
        raise ConfigError(
            f"{path}: {key}.provider: {said}; {hint}: {', '.join(map(repr, built_in))}; of plugins: {brought}"
        )
    made = _PLUGINS[section]
    checked_by: type[BaseModel] = made
    try:
        settings = made.model_validate(written)
        plugin = load_plugin(section, provider)
        checked_by = plugin.settings
        plugin.check(settings.keys)
    except ProviderError as error:
        raise ConfigError(f"{path}: {key}.provider: {error}") from error
    except ValidationError as error:
        raise ConfigError("\n".join(explain(path, key, error, checked_by))) from None
    return settings


def _absolute(path: Path, folder: object) -> object:
    return os.path.normpath(path.parent / _expanded(folder)) if isinstance(folder, str) and folder else folder


def _refuse_equal_up_to_case(path: Path, corpora: Mapping[str, CorpusSettings]) -> None:
    seen: dict[str, str] = {}
    for name in corpora:
        if name.lower() in seen:
            raise ConfigError(
                f"{path}: corpora.{name}: differs from corpora.{seen[name.lower()]} in case only, and a file system may"
                " hold them for one; rename one of them"
            )
        seen[name.lower()] = name


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # `~name` of somebody whom this machine does not know: a folder that is not there
        return Path(path)


def store_address() -> str | None:
    """The object store that `RAG_ASSETS_HOME` names, None where the home is a folder.

    Raises `ConfigError` for what looks like an address and is none that tables can be kept at.
    """
    named = os.environ.get("RAG_ASSETS_HOME", "").strip()
    found = _ADDRESS.fullmatch(named)
    if found is None:
        return None
    scheme, slashes, place = found["scheme"].lower(), found["slashes"], found["place"].strip("/")
    if scheme not in _STORES or slashes != "//" or not place:
        raise ConfigError(
            f"RAG_ASSETS_HOME {named!r} is no address of an object store; allowed: a folder, s3://bucket/path,"
            " gs://bucket/path and az://container/path"
        )
    return f"{scheme}://{re.sub('/+', '/', place)}"


def _home(path: Path) -> str:
    named = os.environ.get("RAG_ASSETS_HOME") or ".rag_assets"
    return store_address() or os.path.normpath(path.parent / _expanded(named))


def explain(path: Path, where: str, error: ValidationError, root: type[BaseModel] | None = None) -> Iterator[str]:
    """One line a problem: the file, the key (below `where`), the value and what `root`, by default a corpus, allows."""
    for problem in error.errors():
        model, keys = _follow(problem["loc"], root or CorpusSettings)
        key = ".".join([where, *keys] if where else keys)
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
            case "sequence_str" | "sequence_type" | "list_type" | "is_instance_of":
                yield f"{path}: {key}: {value!r} is not allowed; it is a list, such as: [{value!r}]"
            case "missing":
                yield f"{path}: {key}: is required"
            case "string_pattern_mismatch" if keys[-1] in _SECRETS_BY_NAME:  # one that was pasted here is not repeated
                secret = _SECRETS_BY_NAME[keys[-1]]
                yield f"{path}: {key}: must be the name of an environment variable that holds the {secret}, not the {secret}"
            case "string_pattern_mismatch":
                expected = next((_PATTERNS[name] for name in reversed(keys[-2:]) if name in _PATTERNS), problem["msg"])
                yield f"{path}: {key}: {value!r} is not allowed; allowed: {expected}"
            case "value_error":
                yield f"{path}: {key}: {str(problem['msg']).removeprefix('Value error, ')}"
            case _:
                yield f"{path}: {key}: {value!r} is not allowed; {problem['msg'][0].lower()}{problem['msg'][1:]}"


_SECRETS_BY_NAME = {"api_key_env": "key", "webhook_env": "address"}
_PATTERNS = {
    "api_key_header": "the name of an HTTP header, such as api-key",
    "base_url": "an address such as http://127.0.0.1:11434/v1",
    "owners": "an e-mail address, or team:NAME",
}


def _follow(location: tuple[int | str, ...], root: type[BaseModel]) -> tuple[type[BaseModel], list[str]]:
    """The model that owns the last key of a pydantic error location, and the keys as written in the file."""
    model = root
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
        options = list(_models(annotation))
        if len(options) == 1:
            model, options = options[0], []
    return model, keys


def _literals(model: type[BaseModel], name: str) -> tuple[object, ...]:
    field = model.model_fields.get(name)
    return get_args(field.annotation) if field else ()


def _tags(model: type[BaseModel], name: str) -> list[str]:
    """The providers of ours that the section `name` may have."""
    return [
        str(tag) for option in _models(model.model_fields[name].annotation) for tag in _literals(option, "provider")
    ]


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """Every settings model in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)
