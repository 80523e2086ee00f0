from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_assets.config import HashingEmbedding
from rag_assets.generations import generation_of
from rag_assets.status import CorpusStatus, status_of
from rag_assets_tests.workbench import Workbench, make_workbench

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return make_workbench(tmp_path)


def status(bench: Workbench) -> CorpusStatus:
    return status_of(bench.store, bench.corpus)


def test_an_empty_folder_has_nothing_and_lacks_nothing(bench: Workbench):
    found = status(bench)
    assert found.documents == {"indexed": 0, "empty": 0, "failed": 0, "pending": 0}
    assert (found.chunks, found.vectors, found.index_version, found.published_at) == (0, 0, None, None)
    assert (found.coverage, found.lag_seconds, found.fragments) == (1.0, 0.0, 0)
    assert (found.problem, found.withheld) == (None, None)


def test_looking_makes_no_table(bench: Workbench):
    bench.write("a.md", "one")
    status(bench)
    assert not Path(bench.store.home).exists()


def test_every_document_is_counted_once_by_what_became_of_it(bench: Workbench):
    bench.write("good.md", "one\n\ntwo")
    bench.write("changed.md", "old")
    bench.write("empty.md", "")
    bench.write("bad.md", PNG)
    bench.ingest()
    bench.write("changed.md", "new text")
    bench.write("new.md", "new")
    found = status(bench)
    assert found.documents == {"indexed": 1, "empty": 1, "failed": 1, "pending": 2}
    assert [document.document for document in found.set_aside] == ["bad.md"]
    assert set(found.known) == {"good.md", "changed.md", "empty.md", "bad.md"}


def test_what_readers_see_is_what_is_published(bench: Workbench):
    bench.write("a.md", "one\n\ntwo")
    bench.ingest()
    found = status(bench)
    assert (found.chunks, found.vectors, found.index_version, found.coverage) == (2, 2, 1, 1.0)
    assert found.generation == found.published_generation == generation_of(bench.corpus).id
    assert found.published_at is not None
    assert (datetime.now(UTC) - found.published_at).total_seconds() < 60
    assert found.fragments == 1


def test_coverage_is_the_share_of_chunks_that_readers_find(bench: Workbench):
    bench.write("a.md", "one")
    bench.ingest()
    bench.write("b.md", "two\n\nthree\n\nfour")
    bench.update()
    assert status(bench).coverage == 0.25
    bench.publish()
    assert status(bench).coverage == 1.0


def test_the_lag_is_the_age_of_the_oldest_change_that_waits(bench: Workbench):
    bench.write("a.md", "one", seconds_ago=5_000)
    bench.ingest()
    assert status(bench).lag_seconds == 0.0
    bench.write("b.md", "two", seconds_ago=1_000)
    bench.write("c.md", "three", seconds_ago=2_000)
    assert 2_000 <= status(bench).lag_seconds < 2_100


def test_a_new_generation_is_told_beside_the_published_one(bench: Workbench):
    bench.write("a.md", "one")
    bench.ingest()
    published = bench.published.generation
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    found = status(bench)
    assert found.published_generation == published
    assert found.generation == generation_of(bench.corpus).id != published
    assert (found.documents["pending"], found.chunks, found.vectors) == (1, 1, 0)
    assert found.lag_seconds == 0.0  # the text did not change, and readers find it


def test_a_source_that_is_gone_is_told_and_the_figures_stay(bench: Workbench):
    bench.write("a.md", "one")
    bench.ingest()
    (bench.folder / "a.md").unlink()
    assert status(bench).withheld == "the source lists no document, and 1 are known"
    bench.folder.rmdir()
    found = status(bench)
    assert "does not exist" in (found.problem or "")
    assert (found.documents["indexed"], found.chunks) == (1, 1)
