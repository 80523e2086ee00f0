from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rag_assets.config import ChunkingSettings, HashingEmbedding
from rag_assets.errors import StoreError
from rag_assets.generations import generation_of
from rag_assets.materializing.index import remove_documents
from rag_assets.storing.ledger import change
from rag_assets.storing.publishing import publish_lock
from rag_assets.storing.tables import Table
from rag_assets_tests.workbench import CORPUS, Workbench


def index_of(bench: Workbench) -> Table:
    return bench.store.index(CORPUS, generation_of(bench.corpus).id, dimensions=64)


def rows_of(bench: Workbench, document: str) -> list[str]:
    rows = index_of(bench).read_where_in("document", [document]).sort_by("ordinal")
    texts: list[str] = rows["text"].to_pylist()
    return texts


def test_a_row_has_its_chunk_its_vector_and_what_a_citation_needs(bench: Workbench):
    path = bench.write("a.md", "# Fruit\n\napples")
    bench.write("b.md", "# Trees\n\noaks")
    bench.materialize("a.md", "b.md")
    row = next(
        row for row in index_of(bench).read().to_pylist() if row["document"] == "a.md" and "apples" in row["text"]
    )
    assert (row["title"], row["source_uri"], row["mime"]) == ("Fruit", path.as_uri(), "text/markdown")
    assert len(row["vector"]) == 64
    assert sum(value**2 for value in row["vector"]) == pytest.approx(1.0)


def test_a_row_has_what_a_filter_and_a_neighbour_need(bench: Workbench):
    path = bench.write("a.md", "---\nauthor: Ann\n---\none\n\n\ntwo\n")
    bench.write("b.md", "three")
    bench.materialize("a.md", "b.md")
    rows = {row["text"]: row for row in index_of(bench).read().to_pylist()}
    written = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=path.stat().st_mtime_ns // 1_000)
    assert rows["one"]["modified"] == written
    assert {text: row["metadata"] for text, row in rows.items()} == {
        "one": ["author=ann"],
        "two": ["author=ann"],
        "three": [],
    }
    assert {text: row["space_after"] for text, row in rows.items()} == {"one": "\n\n\n", "two": "", "three": ""}


def test_rows_and_documents_agree_after_indexing(bench: Workbench):
    bench.write("a.md", "one\n\ntwo\n\none")
    bench.write("empty.md", "")
    bench.materialize("a.md", "empty.md")
    known = bench.known
    assert (known["a.md"].status, known["a.md"].chunks, known["a.md"].tokens) == ("indexed", 3, 3)
    assert (known["empty.md"].status, known["empty.md"].chunks) == ("empty", 0)
    assert rows_of(bench, "a.md") == ["one", "two", "one"]
    assert known["a.md"].generation == generation_of(bench.corpus).id


def test_all_rows_of_a_batch_are_replaced_in_one_commit(bench: Workbench):
    for name in ("a.md", "b.md"):
        bench.write(name, name)
    bench.materialize("a.md", "b.md")
    version = index_of(bench).open().version
    bench.index("a.md", "b.md")
    assert index_of(bench).open().version == version + 1


def test_indexing_again_changes_no_row(bench: Workbench):
    bench.write("a.md", "one\n\ntwo")
    bench.materialize("a.md")
    before = index_of(bench).read().sort_by("ordinal")
    bench.materialize("a.md")
    assert index_of(bench).read().sort_by("ordinal") == before


def test_a_document_that_shrinks_or_empties_leaves_no_row(bench: Workbench):
    for content, expected in (("one\n\ntwo", ["one", "two"]), ("two", ["two"]), ("", []), (" \n", [])):
        bench.write("a.md", content)
        bench.materialize("a.md")
        assert rows_of(bench, "a.md") == expected


def test_only_empty_documents_make_no_table(bench: Workbench):
    bench.write("a.md", "")
    bench.materialize("a.md")
    assert bench.known["a.md"].status == "empty"
    assert index_of(bench).exists() is False


def test_chunks_of_an_earlier_text_are_refused(bench: Workbench):
    bench.write("a.md", "old")
    bench.materialize("a.md")
    bench.write("a.md", "new")
    bench.read("a.md")
    with pytest.raises(StoreError, match=r"a\.md were cut from an earlier text; materialize notes/chunks first"):
        bench.index("a.md")
    assert rows_of(bench, "a.md") == ["old"]


def test_chunks_of_another_configuration_are_refused(bench: Workbench):
    bench.write("a.md", "text")
    bench.materialize("a.md")
    bench.configure(chunking=ChunkingSettings(strategy="fixed_size"))
    with pytest.raises(
        StoreError, match=r"a\.md were cut from another chunking configuration; materialize notes/chunks"
    ):
        bench.index("a.md")


def test_a_text_that_was_never_cut_is_refused_and_not_taken_for_empty(bench: Workbench):
    """Materializing `index` right after `documents` called a document with text empty, and published it so."""
    bench.write("a.md", "text")
    bench.write("empty.md", "\n")
    bench.read("a.md", "empty.md")
    with pytest.raises(StoreError, match=r"notes: a\.md has text and no chunks; materialize notes/chunks first"):
        bench.index("a.md", "empty.md")
    assert bench.known["a.md"].status == "pending"


def test_a_missing_vector_is_refused_before_any_row_is_replaced(bench: Workbench):
    bench.write("a.md", "old")
    bench.materialize("a.md")
    bench.write("a.md", "one\n\ntwo")
    bench.read("a.md")
    bench.chunk("a.md")
    with pytest.raises(StoreError, match=r"2 chunks of a\.md have no vector; materialize notes/embeddings first"):
        bench.index("a.md")
    assert rows_of(bench, "a.md") == ["old"]


def test_a_removal_takes_the_rows_and_leaves_the_vectors(bench: Workbench):
    bench.write("a.md", "one")
    bench.write("b.md", "two")
    bench.materialize("a.md", "b.md")
    remove_documents(bench.store, bench.corpus, ["a.md"])
    assert (rows_of(bench, "a.md"), rows_of(bench, "b.md")) == ([], ["two"])
    assert bench.store.chunks(CORPUS).read(["document"])["document"].to_pylist() == ["b.md"]
    assert set(bench.known) == {"b.md"}
    assert bench.store.vectors(generation_of(bench.corpus).embedding).count() == 2


def test_a_removal_takes_the_rows_of_the_published_generation_too(bench: Workbench):
    bench.write("a.md", "one")
    bench.write("b.md", "two")
    bench.ingest()
    published = index_of(bench)
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    remove_documents(bench.store, bench.corpus, ["a.md"])
    assert published.read(["document"])["document"].to_pylist() == ["b.md"]


def test_removing_what_is_not_there_changes_nothing(bench: Workbench):
    bench.write("a.md", "one")
    bench.materialize("a.md")
    remove_documents(bench.store, bench.corpus, ["unknown.md"])
    assert rows_of(bench, "a.md") == ["one"]


def test_a_removal_that_was_cut_short_is_found_again(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    bench.write("a.md", "one")
    bench.write("b.md", "two")
    bench.ingest()
    (bench.folder / "a.md").unlink()
    real = Table.replace

    def die_at_the_chunks(table: Table, *arguments: object) -> int:
        if "chunks" in table.uri:
            raise KeyboardInterrupt
        return real(table, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Table, "replace", die_at_the_chunks)
        with pytest.raises(KeyboardInterrupt):
            bench.update()
    assert bench.scan().removed == ["a.md"]
    bench.ingest()
    assert set(bench.known) == {"b.md"}
    assert bench.store.chunks(CORPUS).read(["document"])["document"].to_pylist() == ["b.md"]


def test_a_document_that_was_read_again_meanwhile_is_left_to_who_read_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
):
    for name in ("a.md", "b.md"):
        bench.write(name, f"Old {name}.")
    bench.ingest()
    for name in ("a.md", "b.md"):
        bench.write(name, f"New {name}.")
    bench.read("a.md", "b.md")
    bench.chunk("a.md", "b.md")
    bench.embed("a.md", "b.md")
    name_of_lock = "rag_assets.materializing.index.publish_lock"

    def somebody_is_faster(corpus: str) -> str:
        monkeypatch.setattr(name_of_lock, publish_lock)
        bench.write("a.md", "Newest a.md.")
        bench.materialize("a.md")
        return publish_lock(corpus)

    monkeypatch.setattr(name_of_lock, somebody_is_faster)
    report = bench.index("a.md", "b.md")
    assert list(report.documents) == ["b.md"]
    bench.publish()
    assert bench.texts("new newest a b md") == ["New b.md.", "Newest a.md."]


def test_rows_that_waited_for_a_publication_are_younger_than_it(bench: Workbench, monkeypatch: pytest.MonkeyPatch):
    """Checks took them for published, and missed them there."""
    bench.write("a.md", "apples")
    bench.ingest()
    bench.write("b.md", "pears")
    bench.materialize("b.md")
    bench.write("c.md", "figs")
    for step in (bench.read, bench.chunk, bench.embed):
        step("c.md")
    name_of_lock = "rag_assets.materializing.index.publish_lock"

    def somebody_publishes_first(corpus: str) -> str:
        monkeypatch.setattr(name_of_lock, publish_lock)
        assert bench.publish().moved
        return publish_lock(corpus)

    monkeypatch.setattr(name_of_lock, somebody_publishes_first)
    bench.index("c.md")
    indexed_at = bench.known["c.md"].indexed_at
    assert indexed_at is not None
    assert indexed_at > bench.published.published_at


def test_a_document_that_was_read_again_after_its_rows_were_written_is_not_taken_for_indexed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
):
    bench.write("a.md", "Old.")
    bench.ingest()
    bench.write("a.md", "New.")
    bench.read("a.md")
    bench.chunk("a.md")
    bench.embed("a.md")

    def somebody_reads_it_again(*arguments: Any, **keywords: Any) -> None:
        monkeypatch.setattr("rag_assets.materializing.index.change", change)
        bench.write("a.md", "Newest.")
        bench.read("a.md")
        change(*arguments, **keywords)

    monkeypatch.setattr("rag_assets.materializing.index.change", somebody_reads_it_again)
    bench.index("a.md")
    assert bench.known["a.md"].status == "pending"
    assert bench.scan().pending == ["a.md"]
    bench.ingest()
    assert bench.texts("newest new") == ["Newest."]
