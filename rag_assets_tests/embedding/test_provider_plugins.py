"""Providers that other packages bring. The embedding provider is the one of docs/extending.md, word for word."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter

from rag_assets.answering.generator import Generated
from rag_assets.answering.generators import make_generator
from rag_assets.config import ChunkingSettings, CorpusSettings, EmbeddingSettings, PluginEmbedding, load_settings
from rag_assets.embedding.hashing import hashed_bags
from rag_assets.embedding.providers import embedding_identity, make_provider
from rag_assets.errors import ConfigError, ProviderError, QuestionError
from rag_assets.plugins import ProviderPlugin, plugin_names
from rag_assets.records import Passage
from rag_assets_tests.workbench import Workbench, make_workbench

MANUAL = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")
GROUP = "rag_assets.embedding_providers"


def install(monkeypatch: pytest.MonkeyPatch, *plugins: EntryPoint) -> None:
    """Make `plugins` look installed."""
    monkeypatch.setattr("rag_assets.plugins.entry_points", lambda **wanted: EntryPoints(plugins).select(**wanted))


class House(BaseHTTPRequestHandler):
    """The service of the manual's plugin: hashed bags of words; texts of more than 200 words are too long."""

    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = body["texts"]
        if self.headers["Authorization"] != "Bearer sesame":
            self.send_error(401)
        elif any(len(text.split()) > 200 for text in texts):
            self.send_error(413, "Too long")
        else:
            self.asked.append(body)
            reply = {"vectors": hashed_bags(texts, 16).tolist(), "tokens": sum(len(text.split()) for text in texts)}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the service; its plugin is installed and its key is set."""
    [code] = [code for code in re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL) if "class HouseProvider" in code]
    module = ModuleType("house_embedding")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "house_embedding", module)
    [(name, value)] = re.findall(r'^(\w+) = "(house_embedding:\w+)"$', MANUAL, re.MULTILINE)
    assert f'"{GROUP}"' in MANUAL
    install(monkeypatch, EntryPoint(name, value, GROUP))
    monkeypatch.setenv("HOUSE_KEY", "sesame")
    monkeypatch.setattr(House, "asked", [], raising=False)
    with HTTPServer(("127.0.0.1", 0), House) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v2"
        server.shutdown()
        thread.join()


@pytest.fixture
def bench(tmp_path: Path, house: str) -> Workbench:
    """A corpus that is embedded by the service."""
    bench = make_workbench(tmp_path)
    bench.configure(embedding=house_at(house))
    return bench


def house_at(url: str, **keys: object) -> PluginEmbedding:
    return PluginEmbedding.model_validate({"provider": "house", "url": url, **keys})


def load(folder: Path, **keys: Any) -> CorpusSettings:
    path = folder / "corpora.yaml"
    path.write_text(yaml.safe_dump({"corpora": {"docs": {"source": "docs/", **keys}}}))
    return load_settings(path).corpora["docs"]


def test_the_plugin_of_the_manual_embeds_a_corpus_and_a_question(bench: Workbench):
    bench.write("a.md", "The cat sleeps.")
    bench.write("b.md", "The dog barks.")
    bench.ingest()
    assert [passage.document for passage in bench.search("cat", top_k=1, mode="vector")] == ["a.md"]
    assert [(asked["for"], len(asked["texts"])) for asked in House.asked] == [("document", 2), ("query", 1)]


def test_its_identity_is_the_fingerprint(bench: Workbench, house: str):
    bench.write("a.md", "The cat sleeps.")
    bench.ingest()
    bench.configure(embedding=house_at(f"{house}/"))
    assert bench.scan().pending == []
    bench.configure(embedding=house_at(house, model="house-2"))
    assert bench.scan().pending == ["a.md"]


def test_a_text_that_the_service_finds_too_long_is_sent_in_halves(bench: Workbench):
    bench.configure(chunking=ChunkingSettings(strategy="fixed_size", max_tokens=300, overlap_tokens=0))
    bench.write("long.md", "a " * 220)
    bench.ingest()
    assert bench.known["long.md"].status == "indexed"
    assert "".join(text for asked in House.asked for text in asked["texts"]).split() == ["a"] * 220


def test_a_question_that_the_service_refuses_is_told(bench: Workbench):
    bench.write("a.md", "The cat sleeps.")
    bench.ingest()
    with pytest.raises(
        QuestionError, match=r"^house/house-1 refuses the question: .*; ask something shorter, or other$"
    ):
        bench.search("a " * 300, mode="vector")


def test_what_is_no_texts_fault_stops_the_run(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOUSE_KEY", "wrong")
    bench.write("a.md", "The cat sleeps.")
    with pytest.raises(ProviderError, match="The house's embedder said 401: "):
        bench.ingest()
    bench.configure(embedding=house_at("http://127.0.0.1:9/v2"))
    with pytest.raises(ProviderError, match=r"The house's embedder failed: .*; see embedding\.url\."):
        bench.ingest()


def test_settings_survive_a_publication(house: str):
    settings = house_at(house)
    adapter: TypeAdapter[EmbeddingSettings] = TypeAdapter(EmbeddingSettings)
    again = adapter.validate_json(settings.model_dump_json())
    assert again == settings
    assert embedding_identity(again) == {"provider": "house", "model": "house-1", "code_version": "1"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"url": "x", "modle": "m"}, r"embedding\.modle: unknown key; did you mean 'model'\? Allowed: model, url$"),
        ({}, r"embedding\.url: is required$"),
        ({"url": 5}, r"embedding\.url: 5 is not allowed; .*string"),
        ({"url": "x", "api_key": "abc"}, r"embedding: api_key looks like a secret, .* set it in the environment"),
    ],
    ids=str,
)
def test_its_keys_are_checked_like_ours(tmp_path: Path, house: str, keys: dict[str, object], said: str):
    with pytest.raises(ConfigError, match=r"corpora\.yaml: corpora\.docs\." + said) as caught:
        load(tmp_path, embedding={"provider": "house", **keys})
    assert "abc" not in str(caught.value)


def test_an_unknown_provider_is_told_with_ours_and_those_of_plugins(tmp_path: Path, house: str):
    assert plugin_names("embedding") == ["house"]
    with pytest.raises(
        ConfigError,
        match=r"provider: 'hause' is not allowed; did you mean 'house'\? Allowed: 'local', .*; of plugins: 'house'$",
    ):
        load(tmp_path, embedding={"provider": "hause"})
    with pytest.raises(
        ConfigError, match=r"provider: 'house' is not allowed; allowed: 'extractive', .*: none is installed$"
    ):
        load(tmp_path, generation={"provider": "house"})


def broken(code: str) -> Callable[[pytest.MonkeyPatch], None]:
    def put(monkeypatch: pytest.MonkeyPatch) -> None:
        module = ModuleType("broken")
        exec(code, module.__dict__)
        monkeypatch.setitem(sys.modules, "broken", module)

    return put


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (
            broken(""),
            r"'acme' is brought by the plugin broken:PLUGIN, which cannot be loaded: AttributeError: .*PLUGIN",
        ),
        (lambda _: None, r"which cannot be loaded: ModuleNotFoundError: No module named 'broken'; install it again"),
        (broken("PLUGIN = dict"), r"broken:PLUGIN, which is no rag_assets\.plugins\.ProviderPlugin but type; install"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[pytest.MonkeyPatch], None], said: str
):
    put(monkeypatch)
    install(monkeypatch, EntryPoint("acme", "broken:PLUGIN", GROUP))
    with pytest.raises(ConfigError, match=r"corpora\.docs\.embedding\.provider: .*" + said):
        load(tmp_path, embedding={"provider": "acme"})


def test_two_plugins_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("acme", "one:PLUGIN", GROUP), EntryPoint("acme", "two:PLUGIN", GROUP))
    with pytest.raises(ConfigError, match=r"more than one package: one:PLUGIN, two:PLUGIN; uninstall all but one"):
        load(tmp_path, embedding={"provider": "acme"})


def test_a_plugin_cannot_take_a_name_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("hashing", "no_such_package:PLUGIN", GROUP))
    assert make_provider(load(tmp_path, embedding={"provider": "hashing"}).embedding).name == "hashing/384"


def test_an_index_whose_plugin_is_gone_or_has_changed_says_so(monkeypatch: pytest.MonkeyPatch, house: str):
    old = PluginEmbedding.model_validate({"provider": "house", "address": house})
    with pytest.raises(ProviderError, match=r"keys \['address'\] do not fit its version: url: Field required; install"):
        make_provider(old)
    install(monkeypatch)
    with pytest.raises(
        ProviderError, match="'house' is brought by no package that is installed; install the plugin again"
    ):
        make_provider(old)


class Shout(BaseModel):
    """Settings of a generator."""

    mark: str = "!"


class Shouting:
    """Answers with the first passage, louder."""

    name = "shout"

    def __init__(self, settings: Shout) -> None:
        self._mark = settings.mark

    def generate(
        self, question: str, passages: Sequence[Passage], *, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        return Generated(f"{passages[0].text.upper()}{self._mark} [1]", answered=True, markers=[1])


PLUGIN = ProviderPlugin(settings=Shout, make=Shouting)


def test_what_writes_answers_is_a_plugin_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("shout", f"{__name__}:PLUGIN", "rag_assets.generation_providers"))
    settings = load(tmp_path, generation={"provider": "shout", "mark": "?"}).generation
    assert make_generator(settings).name == "shout"
    with pytest.raises(ConfigError, match=r"corpora\.docs\.generation\.mrak: unknown key; did you mean 'mark'"):
        load(tmp_path, generation={"provider": "shout", "mrak": "?"})
