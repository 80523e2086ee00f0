"""What one look at a corpus finds to do."""

from pathlib import Path

import pytest

from rag_assets.ingesting import Look, look
from rag_assets.reindexing import choose
from rag_assets_tests.workbench import Workbench, make_workbench


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return make_workbench(tmp_path)


def see(bench: Workbench) -> Look:
    return look(bench.store, bench.corpus)


def test_what_was_indexed_is_published_though_a_pending_document_is_out_of_reach(bench: Workbench):
    """Two runs died: one after it had read p, one before it published a. Then the share with the files was not mounted."""
    for name in ("a", "p"):
        bench.write(f"{name}.md", f"old {name}")
    bench.ingest()
    bench.write("p.md", "new p")
    bench.read("p.md")
    bench.write("a.md", "new a")
    bench.materialize("a.md")
    assert see(bench).documents == ["p.md"]
    for path in bench.folder.iterdir():
        path.unlink()
    seen = see(bench)
    assert (seen.documents, seen.found.removed) == ([], [])
    assert (seen.publication_is_due, seen.idle) == (True, False)
    assert not choose(bench.store, bench.corpus).idle
    bench.publish()
    assert bench.texts("new old") == ["new a", "old p"]
    assert see(bench).idle, "it is published once"


def test_a_generation_that_a_pending_document_is_missing_from_is_not_due(bench: Workbench):
    for name in ("a", "p"):
        bench.write(f"{name}.md", f"text {name}")
    bench.ingest()
    bench.configure(chunking=bench.corpus.chunking.model_copy(update={"max_tokens": 50}))
    bench.materialize("a.md")
    bench.read("p.md")
    for path in bench.folder.iterdir():
        path.unlink()
    assert see(bench).idle
