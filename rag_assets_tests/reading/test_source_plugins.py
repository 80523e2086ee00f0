"""Sources that other packages bring. The plugin is the one of docs/extending.md, word for word."""

import json
import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import pytest

from rag_assets.config import CorpusSettings
from rag_assets.errors import DocumentError, SourceError
from rag_assets.reading.source import open_source
from rag_assets.reading.sources.plugins import GROUP
from rag_assets_tests.workbench import Workbench, make_workbench

MANUAL = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")


def install(monkeypatch: pytest.MonkeyPatch, *plugins: EntryPoint) -> None:
    """Make `plugins` look installed."""
    monkeypatch.setattr(
        "rag_assets.reading.sources.plugins.entry_points",
        lambda **wanted: EntryPoints(plugins).select(**wanted),
    )


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """The file that the CMS writes."""
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"a.md": {"version": 1, "text": "text a"}, "b.md": {"version": 1, "text": "text b"}}))
    return path


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, export: Path) -> Workbench:
    """A corpus that the plugin of the manual reads."""
    [code] = [code for code in re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL) if "class CmsSource" in code]
    module = ModuleType("notes_cms")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "notes_cms", module)
    [(scheme, value)] = re.findall(r'^(\w+) = "(notes_cms:\w+)"$', MANUAL, re.MULTILINE)
    assert f'"{GROUP}"' in MANUAL
    install(monkeypatch, EntryPoint(scheme, value, GROUP))
    bench = make_workbench(tmp_path)
    bench.configure(source=f"{scheme}://{export}")
    return bench


def test_the_plugin_of_the_manual_is_followed_through_add_change_rename_and_delete(bench: Workbench, export: Path):
    bench.ingest()
    assert bench.texts("text") == ["text a", "text b"]
    assert bench.scan().unchanged == 2
    export.write_text(
        json.dumps({"a.md": {"version": 2, "text": "text A2"}, "moved.md": {"version": 1, "text": "text b"}})
    )
    found = bench.update()
    bench.publish()
    assert (found.changed, found.added, found.removed) == (["a.md"], ["moved.md"], ["b.md"])
    assert bench.known["moved.md"].texts_embedded == 0
    assert bench.texts("text") == ["text A2", "text b"]
    assert [passage.source_uri for passage in bench.search("A2", top_k=1)] == [f"cms://{export}#a.md"]


def test_a_new_version_of_the_same_text_makes_nothing_again(bench: Workbench, export: Path):
    bench.ingest()
    export.write_text(export.read_text().replace('"version": 1', '"version": 2'))
    assert bench.scan().pending == []
    assert bench.known["a.md"].revision == "2"


def test_an_export_that_is_broken_deletes_nothing(bench: Workbench, export: Path):
    bench.ingest()
    export.write_text("{")
    with pytest.raises(SourceError, match=r"corpus notes: the export .* cannot be read: .*corpora\.notes\.source"):
        bench.update()
    export.unlink()
    with pytest.raises(SourceError, match="cannot be read"):
        bench.read("a.md")
    assert len(bench.known) == 2


def test_a_page_that_is_gone_is_set_aside(bench: Workbench):
    with pytest.raises(DocumentError, match="gone from the export"):
        open_source(bench.corpus).read("none.md")


def test_a_plugin_goes_before_our_own_source(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "theirs", ModuleType("theirs"))
    monkeypatch.setattr("theirs.make", lambda corpus: f"their source of {corpus.name}", raising=False)
    install(monkeypatch, EntryPoint("s3", "theirs:make", GROUP))
    opened: object = open_source(CorpusSettings(name="notes", source="s3://bucket/docs"))
    assert opened == "their source of notes"


def test_a_plugin_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("cms", "no_such_package:make", GROUP))
    with pytest.raises(SourceError, match=r"plugin no_such_package:make, which cannot be loaded: No module named"):
        open_source(CorpusSettings(name="notes", source="cms://x"))


def test_two_plugins_for_one_scheme_are_refused(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("cms", "one:make", GROUP), EntryPoint("cms", "two:make", GROUP))
    with pytest.raises(SourceError, match=r"'cms' is read by more than one package: one:make, two:make; uninstall"):
        open_source(CorpusSettings(name="notes", source="cms://x"))


def test_an_unknown_scheme_is_told_with_those_that_plugins_bring(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, EntryPoint("cms", "one:make", GROUP))
    with pytest.raises(SourceError, match=r"scheme 'wiki'; allowed: .*\bcms\b"):
        open_source(CorpusSettings(name="notes", source="wiki://x"))
