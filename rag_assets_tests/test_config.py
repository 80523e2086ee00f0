import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_assets.config import (
    CorpusSettings,
    ExtractiveGeneration,
    HashingEmbedding,
    LocalEmbedding,
    OpenAIEmbedding,
    config_path,
    load_settings,
)
from rag_assets.errors import ConfigError, QuestionError
from rag_assets.starting import corpus_name, write_first_config


def write(folder: Path, content: object) -> Path:
    path = folder / "corpora.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def corpus_with(folder: Path, **keys: Any) -> CorpusSettings:
    return load_settings(write(folder, {"corpora": {"docs": {"source": "docs/", **keys}}})).corpora["docs"]


def problem_with(folder: Path, **keys: Any) -> str:
    """What is said of a corpus with these keys, without the file's name in front."""
    with pytest.raises(ConfigError) as caught:
        corpus_with(folder, **keys)
    said = str(caught.value)
    assert said.startswith(f"{folder / 'corpora.yaml'}: ")
    return said.removeprefix(f"{folder / 'corpora.yaml'}: ")


def test_one_line_is_a_corpus_with_every_default(tmp_path: Path):
    corpus = corpus_with(tmp_path)
    assert corpus.source == str(tmp_path / "docs")
    assert corpus.embedding == LocalEmbedding()
    assert corpus.generation == ExtractiveGeneration()
    assert (corpus.chunking.strategy, corpus.chunking.max_tokens, corpus.chunking.overlap_tokens) == (
        "auto",
        180,
        20,
    )
    assert (corpus.max_documents_per_run, corpus.settle_seconds, corpus.max_share_deleted) == (500, 2.0, 0.5)


def test_the_provider_chooses_which_keys_there_are(tmp_path: Path):
    hashing = corpus_with(tmp_path, embedding={"provider": "hashing", "dimensions": 64})
    assert hashing.embedding == HashingEmbedding(provider="hashing", dimensions=64)
    openai = corpus_with(tmp_path, embedding={"provider": "openai", "model": "m", "base_url": "http://x/v1"})
    assert openai.embedding == OpenAIEmbedding(provider="openai", model="m", base_url="http://x/v1")


@pytest.mark.parametrize("provider", ["onnx", "sentence_transformers"])
def test_the_folder_of_a_model_is_relative_to_the_file(tmp_path: Path, provider: str):
    def folder_of(written: str) -> object:
        corpus = corpus_with(tmp_path, embedding={"provider": provider, "folder": written})
        return getattr(corpus.embedding, "folder", None)

    assert folder_of("../models/m/") == str(tmp_path.parent / "models/m")
    assert folder_of("/models/m") == "/models/m"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("docs/", "{folder}/docs"),
        ("./docs/../notes", "{folder}/notes"),
        ("/absolute/docs", "/absolute/docs"),
        ("s3://bucket/docs", "s3://bucket/docs"),
    ],
)
def test_relative_sources_are_relative_to_the_file(tmp_path: Path, source: str, expected: str):
    assert corpus_with(tmp_path, source=source).source == expected.format(folder=tmp_path)


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/someone")
    assert corpus_with(tmp_path, source="~/notes").source == "/home/someone/notes"


# Every kind of error names the file, the key, the value and what is allowed.


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"chunkin": {}},
            r"corpora\.docs\.chunkin: unknown key; did you mean 'chunking'\? Allowed: budget_per_month, chunking, .*",
        ),
        ({"zzz": 1}, r"corpora\.docs\.zzz: unknown key; allowed: budget_per_month, chunking, .*"),
        (
            {"chunking": {"max_tokens": 5000}},
            r"corpora\.docs: chunking\.max_tokens is 5000, and the model of embedding\.provider local reads 512 tokens .*",
        ),
        (
            {"chunking": {"strategy": "parent_child", "max_tokens": 5000, "child_tokens": 600}},
            r"corpora\.docs: chunking\.child_tokens is 600, .* reads 512 tokens at once; lower it.*",
        ),
        (
            {"chunking": {"by_glob": [{"glob": "*.py", "unit": "characters", "max_tokens": 9000}]}},
            r"corpora\.docs: chunking\.max_tokens of by_glob \*\.py is 9000.*",
        ),
        (
            {"embedding": {"provider": "openai", "max_tokens_per_input": 100}},
            r"corpora\.docs: chunking\.max_tokens is 180, and the model of embedding\.provider openai reads 100 tokens .*",
        ),
        ({"name": "other"}, r"corpora\.docs\.name: unknown key; the name of a corpus is the key 'docs' itself"),
        ({"include": []}, r"corpora\.docs\.include: \[\] is not allowed; .* at least 1 item.*"),
        ({"exclude": ["docs**.md"]}, r"corpora\.docs\.exclude: 'docs\*\*\.md' is no glob; \*\* stands alone .*"),
        (
            {"owners": ["bob"]},
            r"corpora\.docs\.owners\.0: 'bob' is not allowed; allowed: an e-mail address, or team:NAME",
        ),
        (
            {"embedding": {"provider": "openai", "base_url": "localhost:11434"}},
            r"corpora\.docs\.embedding\.base_url: 'localhost:11434' is not allowed; allowed: an address such as http:.*",
        ),
        (
            {"embedding": {"provider": "openai", "api_key_env": "sk-secret 123"}},
            r"corpora\.docs\.embedding\.api_key_env: must be the name of an environment variable that holds the key, not .*",
        ),
        ({"settle_seconds": float("inf")}, r"corpora\.docs\.settle_seconds: inf is not allowed; .*finite.*"),
        (
            {"chunking": {"max_token": 9}},
            r"corpora\.docs\.chunking\.max_token: unknown key; did you mean 'max_tokens'\? .*",
        ),
        (
            {"embedding": {"provider": "hashing", "dimension": 9}},
            r"corpora\.docs\.embedding\.dimension: unknown key; .*",
        ),
        ({"chunking": {"max_tokens": 4}}, r"corpora\.docs\.chunking\.max_tokens: 4 is not allowed; .* 8"),
        (
            {"chunking": {"max_tokens": "many"}},
            r"corpora\.docs\.chunking\.max_tokens: 'many' is not allowed; .*integer.*",
        ),
        (
            {"chunking": {"strategy": "sentences"}},
            r"corpora\.docs\.chunking\.strategy: 'sentences' is not allowed; .*'auto', 'markdown', 'paragraph', .*",
        ),
        (
            {"chunking": {"max_tokens": 20, "overlap_tokens": 11}},
            r"corpora\.docs\.chunking: overlap_tokens 11 must be at most half of max_tokens 20",
        ),
        (
            {"embedding": {"provider": "cohere"}},
            r"corpora\.docs\.embedding\.provider: 'cohere' is not allowed; allowed: 'local', 'hashing', 'openai', 'onnx',"
            r" 'multilingual', 'sentence_transformers'; of plugins: none is installed",
        ),
        (
            {"embedding": {"dimensions": 3}},
            r"corpora\.docs\.embedding\.provider: is required; allowed: 'local', 'hashing', .*",
        ),
        (
            {"embedding": {"provider": "sentence-transformers"}},
            r"corpora\.docs\.embedding\.provider: .* is not allowed; did you mean 'sentence_transformers'\? Allowed: .*",
        ),
        (
            {"generation": {"provider": ["openai"]}},
            r"corpora\.docs\.generation\.provider: \['openai'\] is not allowed; .* 'extractive', 'openai'; of plugins: .*",
        ),
        (
            {"embedding": {"provider": "openai", "truncate_dimensions": True}},
            r"corpora\.docs\.embedding: truncate_dimensions needs dimensions, the numbers of a vector to keep",
        ),
        (
            {"generation": {"provider": "openai", "api_key_header": "api key"}},
            r"corpora\.docs\.generation\.api_key_header: 'api key' is not allowed; allowed: the name of an HTTP header, .*",
        ),
        ({"embedding": {"provider": "onnx"}}, r"corpora\.docs\.embedding\.folder: is required"),
        (
            {"embedding": {"provider": "onnx", "folder": "m", "pooling": "max"}},
            r"corpora\.docs\.embedding\.pooling: 'max' is not allowed; .*'mean', 'cls' or 'last'",
        ),
        (
            {"embedding": {"provider": "sentence_transformers"}},
            r"corpora\.docs\.embedding: needs one of model, a name on the hub, and folder, a model of this machine",
        ),
        (
            {"embedding": {"provider": "openai", "dimensions": 0}},
            r"corpora\.docs\.embedding\.dimensions: 0 is not allowed; .* 1",
        ),
        (
            {"embedding": "local"},
            r"corpora\.docs\.embedding: 'local' is not allowed; it is a mapping of keys, such as: .*",
        ),
        ({"chunking": "markdown"}, r"corpora\.docs\.chunking: 'markdown' is not allowed; it is a mapping of keys.*"),
        (
            {"include": "**/*.md"},
            r"corpora\.docs\.include: '\*\*/\*\.md' is not allowed; it is a list, such as: \['\*\*/\*\.md'\]",
        ),
        (
            {"include": ["a.md", " "]},
            r'corpora\.docs\.include: a blank glob matches nothing; write "\*\*/\*" for every file',
        ),
        ({"max_share_deleted": 1.5}, r"corpora\.docs\.max_share_deleted: 1\.5 is not allowed; .* 1"),
        ({"settle_seconds": -1}, r"corpora\.docs\.settle_seconds: -1 is not allowed; .* 0"),
        ({"source": None}, r"corpora\.docs\.source: None is not allowed; .*string.*"),
        ({"source": "  "}, r"corpora\.docs\.source: .* is not a folder"),
        ({"retrieval": {"mode": "semantic"}}, r"corpora\.docs\.retrieval\.mode: 'semantic' is not allowed; .*"),
        ({"rerank": {"provider": "magic"}}, r"corpora\.docs\.rerank\.provider: 'magic' is not allowed; .*'none', .*"),
        (
            {"rerank": {"provider": "cross_encoder", "folder": "m", "model": "m"}},
            r"corpora\.docs\.rerank: needs one of folder, a model of this machine, and model, a name on the hub",
        ),
        (
            {"rerank": {"provider": "http", "base_url": "http://127.0.0.1:8000/v1"}},
            r"corpora\.docs\.rerank: needs model, the model's name at the server; .*",
        ),
        ({"rerank": {"provider": "http", "model": "m"}}, r"corpora\.docs\.rerank\.base_url: is required"),
        (
            {"rerank": {"provider": "llm", "candidates": 0}},
            r"corpora\.docs\.rerank\.candidates: 0 is not allowed; .* 1",
        ),
        (
            {"rerank": {"provider": "llm", "timout_seconds": 1}},
            r"corpora\.docs\.rerank\.timout_seconds: unknown key; did you mean 'timeout_seconds'\? .*",
        ),
    ],
)
def test_a_bad_value_is_told_with_its_key_and_what_is_allowed(tmp_path: Path, keys: dict[str, Any], said: str):
    problem = problem_with(tmp_path, **keys)
    assert re.fullmatch(said, problem), problem


def test_every_problem_of_a_corpus_is_told_at_once(tmp_path: Path):
    problem = problem_with(tmp_path, settle_seconds=-1, chunking={"max_tokens": 1})
    assert "corpora.docs.settle_seconds: -1" in problem
    assert "corpora.docs.chunking.max_tokens: 1" in problem


def test_a_missing_source_is_told(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"corpora\.yaml: corpora\.docs\.source: is required"):
        load_settings(write(tmp_path, {"corpora": {"docs": {}}}))


@pytest.mark.parametrize(
    "keys",
    [
        {"chunking": {"max_tokens": 512}},
        {"chunking": {"strategy": "parent_child", "max_tokens": 1500}},
        {"chunking": {"max_tokens": 2000, "unit": "characters"}},
        {"chunking": {"max_tokens": 100_000}, "embedding": {"provider": "hashing"}},
    ],
)
def test_a_limit_that_the_model_can_read_is_taken(tmp_path: Path, keys: dict[str, object]):
    assert corpus_with(tmp_path, **keys).chunking.max_tokens


@pytest.mark.parametrize("name", ["my-docs", "9lives", "a.b", "", "a" * 64, "dö", "a b"])
def test_a_name_that_dagster_would_refuse_is_told(tmp_path: Path, name: str):
    with pytest.raises(
        ConfigError, match=r"is not a corpus name; allowed: a letter or underscore, then up to 62 letters"
    ):
        load_settings(write(tmp_path, {"corpora": {name: {"source": "docs"}}}))


def test_names_that_a_file_system_may_hold_for_one_are_told(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"corpora\.Docs: differs from corpora\.docs in case only.*rename one"):
        load_settings(write(tmp_path, "corpora: {docs: {source: a}, Docs: {source: b}}"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "must hold a mapping 'corpora' with at least one corpus, such as: corpora: "),
        ("corpora:", "must hold a mapping 'corpora' with at least one corpus"),
        ("corpora: []", "must hold a mapping 'corpora' with at least one corpus"),
        ("corpora: {}", "must hold a mapping 'corpora' with at least one corpus"),
        ("just text", "must hold a mapping 'corpora' with at least one corpus"),
        ("corpora: {docs: folder}", r"corpora\.docs: 'folder' is not a mapping; it needs at least: source: FOLDER"),
        ("corpora: {docs: }", r"corpora\.docs: None is not a mapping"),
        ("corpora: {docs: {source: a}}\nextra: 1", "extra: unknown key; allowed: corpora"),
        ("corpora: {docs: {source: a}, docs: {source: b}}", "is not valid YAML: the key 'docs' is written twice"),
        ("corpora: {docs: {source: a, source: b}}", "the key 'source' is written twice"),
        ("corpora: {docs: {source: a}", "is not valid YAML: .*line 1"),
        ("corpora: {docs: {source: \t}}", "is not valid YAML|is required|is not allowed"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_told(tmp_path: Path, content: str, said: str):
    path = write(tmp_path, content)
    with pytest.raises(ConfigError, match=f"^{re.escape(str(path))}: .*(?:{said})") as caught:
        load_settings(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_told_with_what_to_do(tmp_path: Path):
    with pytest.raises(
        ConfigError, match=r"corpora\.yaml: no such file; write one with: rag-assets init FOLDER, .* RAG_ASSETS_CONFIG"
    ):
        load_settings(tmp_path / "corpora.yaml")


def test_a_file_that_is_not_utf_8_is_told(tmp_path: Path):
    (tmp_path / "corpora.yaml").write_bytes(b"corpora: {docs: {source: caf\xe9}}")
    with pytest.raises(ConfigError, match=r"corpora\.yaml: cannot be read: .*utf-8"):
        load_settings(tmp_path / "corpora.yaml")


def test_a_folder_in_place_of_the_file_is_told(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot be read: .*directory"):
        load_settings(tmp_path)


# Where things are.


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path, {"corpora": {"docs": {"source": "docs"}}})
    monkeypatch.setenv("RAG_ASSETS_CONFIG", str(path))
    assert config_path() == path
    assert load_settings().path == path


def test_the_nearest_file_above_the_working_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path, {"corpora": {"docs": {"source": "docs"}}})
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    assert config_path() == path


def test_the_file_of_the_checkout_is_taken_last_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Outside any project it was used without a word, and a person wondered whose documents these were."""
    (tmp_path / "checkout").mkdir()
    (tmp_path / "here").mkdir()
    path = write(tmp_path / "checkout", {"corpora": {"docs": {"source": "docs"}}})
    monkeypatch.setattr("rag_assets.config._PACKAGE_PARENT", tmp_path / "checkout")
    monkeypatch.chdir(tmp_path / "here")
    assert config_path() == config_path() == path
    assert caplog.messages == [f"there is no corpora.yaml in {tmp_path / 'here'} or above it; {path} is used"]


def test_where_there_is_no_file_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rag_assets.config._PACKAGE_PARENT", tmp_path / "installed")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError, match="there is no corpora.yaml in .* or above it; write one with: rag-assets init"
    ):
        load_settings()


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, "{folder}/.rag_assets"),
        ("", "{folder}/.rag_assets"),
        ("state", "{folder}/state"),
        ("/var/state/", "/var/state"),
        ("s3://bucket/state", "s3://bucket/state"),
        ("S3://bucket//state/ ", "s3://bucket/state"),
        ("gs://bucket/", "gs://bucket"),
        ("C:/state", "{folder}/C:/state"),
    ],
)
def test_state_lives_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None, expected: str
):
    if named is not None:
        monkeypatch.setenv("RAG_ASSETS_HOME", named)
    settings = load_settings(write(tmp_path, {"corpora": {"docs": {"source": "docs"}}}))
    assert settings.home == expected.format(folder=tmp_path)


@pytest.mark.parametrize("named", ["s3:/bucket/state", "s3a://bucket", "s3:///", "http://host/state", "file:///srv"])
def test_what_looks_like_an_address_and_is_none_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
):
    """Everything was embedded once more, into a folder of that name."""
    monkeypatch.setenv("RAG_ASSETS_HOME", named)
    with pytest.raises(ConfigError, match=r"is no address of an object store; allowed: a folder, s3://bucket/path"):
        load_settings(write(tmp_path, {"corpora": {"docs": {"source": "docs"}}}))


def test_the_first_corpus_is_the_default_and_an_unknown_one_is_told(tmp_path: Path):
    settings = load_settings(write(tmp_path, "corpora: {zebra: {source: a}, ape: {source: b}}"))
    assert settings.corpus(None).name == "zebra"
    assert settings.corpus("ape").name == "ape"
    with pytest.raises(QuestionError, match=r"there is no corpus 'cat' in .*corpora\.yaml; it has: zebra, ape"):
        settings.corpus("cat")


# The first configuration of a folder.


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("docs", "docs"),
        ("My Notes!", "My_Notes"),
        ("2024", "_2024"),
        ("日本", "corpus"),
        ("", "corpus"),
        ("a" * 80, "a" * 60),
    ],
)
def test_a_corpus_is_called_like_its_folder(folder: str, name: str):
    assert corpus_name(folder) == name


@pytest.mark.parametrize("folder", ["my notes: [1] #x", "it's", "日本", "new\nline", "- list"])
def test_the_first_configuration_of_any_folder_loads(tmp_path: Path, folder: str):
    (tmp_path / folder).mkdir()
    name = write_first_config(tmp_path / "conf/corpora.yaml", tmp_path / folder, overwrite=False)
    assert load_settings(tmp_path / "conf/corpora.yaml").corpora[name].source == str(tmp_path / folder)


def test_an_existing_configuration_is_not_overwritten_unless_asked(tmp_path: Path):
    path = write(tmp_path, "mine: 1")
    with pytest.raises(ConfigError, match=r"exists; add the folder to it, or overwrite it with --force"):
        write_first_config(path, tmp_path, overwrite=False)
    assert path.read_text() == "mine: 1"
    write_first_config(path, tmp_path, overwrite=True)
    assert list(load_settings(path).corpora) == [corpus_name(tmp_path.name)]


def test_what_is_no_folder_gets_no_configuration(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"gone does not exist; name the folder"):
        write_first_config(tmp_path / "corpora.yaml", tmp_path / "gone", overwrite=False)
    assert not (tmp_path / "corpora.yaml").exists()


class TestNotify:
    """Who is told of failures: the address is a secret, so that the file names a variable."""

    def load(self, folder: Path, notify: object) -> Any:
        return load_settings(write(folder, {"corpora": {"docs": {"source": "docs/"}}, "notify": notify})).notify

    def test_the_variable_is_named(self, tmp_path: Path):
        told = self.load(tmp_path, {"webhook_env": "SLACK_WEBHOOK_URL"})
        assert (told.webhook_env, told.timeout_seconds, told.max_retries) == ("SLACK_WEBHOOK_URL", 10.0, 2)
        assert self.load(tmp_path, None) is None

    @pytest.mark.parametrize(
        ("notify", "said"),
        [
            ({}, "notify.webhook_env: is required"),
            ({"webhook": "X"}, "notify.webhook: unknown key; did you mean 'webhook_env'?"),
            ("SLACK_WEBHOOK_URL", "notify: must be a mapping that names the variable with the address"),
            (
                {"webhook_env": "https://hooks.example/secret"},
                "notify.webhook_env: must be the name of an environment variable that holds the address, not the address",
            ),
        ],
    )
    def test_anything_else_is_refused_and_never_repeated(self, tmp_path: Path, notify: object, said: str):
        with pytest.raises(ConfigError) as caught:
            self.load(tmp_path, notify)
        assert said in str(caught.value)
        assert "hooks.example" not in str(caught.value)
