from typing import Any

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.errors import DocumentError
from rag_assets.generations import generation_of
from rag_assets.materializing.chunks import chunk_documents
from rag_assets_tests.workbench import CORPUS, Workbench


def texts_of(bench: Workbench, document: str) -> list[str]:
    rows = bench.store.chunks(CORPUS).read_where_in("document", [document]).sort_by("ordinal")
    texts: list[str] = rows["text"].to_pylist()
    return texts


def test_a_document_is_cut_and_its_chunks_know_what_they_were_cut_from(bench: Workbench):
    bench.write("a.md", "one\n\ntwo")
    bench.read("a.md")
    report = bench.chunk("a.md")
    assert texts_of(bench, "a.md") == ["one", "two"]
    rows = bench.store.chunks(CORPUS).read().to_pylist()
    assert {row["document_hash"] for row in rows} == {bench.known["a.md"].text_hash}
    assert {row["chunking"] for row in rows} == {generation_of(bench.corpus).chunking}
    assert report.documents == {"a.md": {"title": "a", "chunks": 2, "tokens": 2}}


def test_a_document_that_shrinks_or_empties_leaves_no_chunk(bench: Workbench):
    for content, expected in (("one\n\ntwo\n\nthree", ["one", "two", "three"]), ("two", ["two"]), (" \n\t\n", [])):
        bench.write("a.md", content)
        bench.read("a.md")
        bench.chunk("a.md")
        assert texts_of(bench, "a.md") == expected


def test_chunks_of_a_batch_are_replaced_in_one_commit(bench: Workbench):
    for name in ("a.md", "b.md"):
        bench.write(name, f"one {name}\n\ntwo {name}")
    bench.read("a.md", "b.md")
    bench.chunk("a.md", "b.md")
    version = bench.store.chunks(CORPUS).open().version
    bench.chunk("a.md", "b.md")
    assert bench.store.chunks(CORPUS).open().version == version + 1
    assert texts_of(bench, "b.md") == ["one b.md", "two b.md"]


def test_a_document_that_cannot_be_cut_keeps_its_chunks_and_fails_alone(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
):
    bench.write("a.md", "old a")
    bench.write("b.md", "old b")
    bench.materialize("a.md", "b.md")
    bench.write("a.md", "new a")
    bench.write("b.md", "new b")
    bench.read("a.md", "b.md")

    def trip_over_a(document: Any, settings: Any) -> Any:
        if document.document == "a.md":
            raise DocumentError("it is longer than any model reads")
        return chunk_document(document, settings)

    monkeypatch.setattr("rag_assets.materializing.chunks.chunk_document", trip_over_a)
    report = bench.chunk("a.md", "b.md")
    assert list(report.documents) == ["b.md"]
    assert (texts_of(bench, "a.md"), texts_of(bench, "b.md")) == (["old a"], ["new b"])
    known = bench.known["a.md"]
    assert (known.status, known.stage, known.reason) == ("failed", "chunk", "it is longer than any model reads")


def test_progress_ends_at_the_number_of_documents(bench: Workbench):
    bench.write("a.md", "one")
    bench.read("a.md")
    seen: list[tuple[str, int, int]] = []
    chunk_documents(bench.store, bench.corpus, ["a.md"], progress=lambda *at: seen.append(at))
    assert seen == [("chunks", 0, 1), ("chunks", 1, 1)]
