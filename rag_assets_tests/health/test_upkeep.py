"""Search indices, fragments, room and disk."""

import shutil
from collections.abc import Callable

import pytest

from rag_assets.health import upkeep
from rag_assets.health.upkeep import disk, fragments, room, search_index_currency
from rag_assets.health.verdicts import Verdict
from rag_assets.health.view import View
from rag_assets.storing import publishing
from rag_assets.storing.search_indices import health_of
from rag_assets_tests.workbench import Workbench, make_workbench

Look = Callable[..., Verdict]


def test_nothing_is_wrong_with_an_empty_corpus(tmp_path, bench: Workbench):
    empty = make_workbench(tmp_path / "empty") if (tmp_path / "empty").mkdir() is None else bench
    view = View(empty.store, empty.corpus)
    assert [check(view).passed for check in (search_index_currency, fragments, room, disk)] == [True] * 4


def test_rows_outside_the_text_index(bench: Workbench, look: Look, monkeypatch: pytest.MonkeyPatch):
    assert look(search_index_currency).figures["unindexed_share"] == 0.0
    monkeypatch.setattr(publishing, "keep_search_indices", health_of)
    bench.write("c.md", "\n\n".join(f"cherry {number}" for number in range(9)))
    bench.ingest()
    verdict = look(search_index_currency)
    assert (verdict.passed, verdict.figures["unindexed_rows"], verdict.figures["unindexed_share"]) == (True, 9, 0.75)
    monkeypatch.setattr(upkeep, "_UNINDEXED_ROWS", 8)
    verdict = look(search_index_currency)
    assert verdict.summary == "9 of 12 rows are outside an index: rag-assets maintain notes"
    monkeypatch.undo()
    monkeypatch.setattr(upkeep, "_UNINDEXED_ROWS", 0)
    monkeypatch.setattr("rag_assets.storing.search_indices._UNINDEXED_ROWS", 0)
    bench.ingest()
    assert look(search_index_currency).passed


def test_without_a_text_index_all_rows_are_outside(bench: Workbench, look: Look, monkeypatch: pytest.MonkeyPatch):
    index = bench.store.index("notes", bench.published.generation, dimensions=1)
    index.open().drop_index("text_idx")
    monkeypatch.setattr(publishing, "keep_search_indices", health_of)
    bench.publish()
    verdict = look(search_index_currency)
    assert (verdict.passed, verdict.figures["unindexed_share"]) == (False, 1.0)
    assert verdict.summary == "there is no full-text index: rag-assets maintain notes"


def test_a_table_in_many_fragments(bench: Workbench, look: Look, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(upkeep, "_FRAGMENTS", 3)
    assert look(fragments).passed
    for name in ("c.md", "d.md", "e.md"):
        bench.write(name, name)
        bench.materialize(name)
    verdict = look(fragments)
    assert not verdict.passed
    assert verdict.figures["fragments"] == 4
    assert {"table": "chunks", "fragments": 4} in verdict.named


def test_tables_that_take_more_room_than_their_rows(bench: Workbench, look: Look, monkeypatch: pytest.MonkeyPatch):
    """Small stores are not told: what Lance keeps beside the rows is more than they are."""
    (bench.folder / "b.md").unlink()
    bench.write("a.md", "apples")
    bench.ingest()
    assert look(room).passed
    monkeypatch.setattr(upkeep, "_SMALL_BYTES", 0)
    monkeypatch.setattr(upkeep, "_TIMES_LIVE", 1)
    verdict = look(room)
    assert not verdict.passed
    assert verdict.figures["bytes"] > verdict.figures["live_bytes"] > 0


def test_a_disk_that_is_nearly_full(bench: Workbench, look: Look, monkeypatch: pytest.MonkeyPatch):
    usage = shutil.disk_usage(bench.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=300 * 1024 * 1024))
    assert look(disk).passed
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=200 * 1024 * 1024))
    verdict = look(disk)
    assert not verdict.passed
    assert verdict.summary.startswith("200 MiB are free, and 256 may be needed: free space at ")
