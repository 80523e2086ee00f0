import threading
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.errors import DocumentError
from rag_assets.records import DOCUMENTS
from rag_assets.storing.ledger import (
    KnownDocument,
    change,
    failure,
    known_documents,
    set_aside_documents,
    set_aside_in,
    standings,
)
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import Table


@pytest.fixture
def ledger(home: str) -> Table:
    return Store(home).documents("notes")


def put(ledger: Table, *documents: dict[str, Any]) -> None:
    ledger.replace([row["document"] for row in documents], pa.Table.from_pylist(list(documents), schema=DOCUMENTS))


def test_nothing_is_known_of_a_table_that_was_never_made(ledger: Table):
    assert known_documents(ledger) == {}
    assert known_documents(ledger, ["a.md"]) == {}


def test_what_is_known_is_what_was_written(ledger: Table):
    put(ledger, {"document": "a.md", "status": "indexed", "bytes": 7, "text": "seven b"}, {"document": "b.md"})
    known = known_documents(ledger)
    assert set(known) == {"a.md", "b.md"}
    assert (known["a.md"].status, known["a.md"].bytes, known["a.md"].reason) == ("indexed", 7, None)
    assert set(known_documents(ledger, ["b.md", "c.md"])) == {"b.md"}


def test_a_change_keeps_the_other_columns_and_the_other_documents(ledger: Table):
    moment = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    put(
        ledger,
        {
            "document": "a.md",
            "text": "Zürich 😀",
            "status": "pending",
            "chunks": 3,
            "read_at": moment,
            "cost_usd": 0.25,
        },
        {"document": "b.md", "text": "other", "status": "pending", "chunks": 1},
    )
    before = ledger.open().version
    change(ledger, {"a.md": {"status": "indexed", "chunks": 4}})
    rows = {row["document"]: row for row in ledger.read().to_pylist()}
    assert ledger.open().version == before + 1
    assert (rows["a.md"]["status"], rows["a.md"]["chunks"]) == ("indexed", 4)
    assert (rows["a.md"]["text"], rows["a.md"]["read_at"], rows["a.md"]["cost_usd"]) == ("Zürich 😀", moment, 0.25)
    assert (rows["b.md"]["text"], rows["b.md"]["status"], rows["b.md"]["chunks"]) == ("other", "pending", 1)


def test_documents_of_one_change_may_set_other_columns_each(ledger: Table):
    put(ledger, {"document": "a.md", "chunks": 1, "tokens": 1}, {"document": "b.md", "chunks": 2, "tokens": 2})
    change(ledger, {"a.md": {"chunks": 10}, "b.md": {"tokens": None}})
    known = known_documents(ledger)
    assert (known["a.md"].chunks, known["a.md"].tokens) == (10, 1)
    assert (known["b.md"].chunks, known["b.md"].tokens) == (2, None)


def test_a_change_of_a_document_that_was_removed_meanwhile_does_not_bring_it_back(ledger: Table):
    put(ledger, {"document": "a.md"})
    change(ledger, {"gone.md": {"status": "indexed"}})
    assert set(known_documents(ledger)) == {"a.md"}


def test_a_scan_and_a_run_that_change_one_document_at_once_both_keep_their_columns(ledger: Table):
    """`rag-assets status` notes times of modification while a run moves documents on; the one used to undo the other."""
    put(ledger, {"document": "a.md", "modified_ns": 0, "chunks": 0})
    turn = threading.Barrier(2)

    def set_each_time(column: str) -> None:
        for number in range(1, 6):
            turn.wait()
            change(ledger, {"a.md": {column: number}})

    threads = [threading.Thread(target=set_each_time, args=(column,)) for column in ("modified_ns", "chunks")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    known = known_documents(ledger)["a.md"]
    assert (known.modified_ns, known.chunks) == (5, 5)


def known_with(**columns: Any) -> KnownDocument:
    return KnownDocument(**{**dict.fromkeys(KnownDocument.__dataclass_fields__), **columns})


def test_failures_are_counted_on_the_same_content_and_start_again_on_another():
    error = DocumentError("the provider refused it", retryable=True)
    before = known_with(document="a.md", attempts=2)
    columns = failure(before, "embed", error, same_content=True)
    assert (columns["attempts"], columns["status"], columns["stage"]) == (3, "failed", "embed")
    assert (columns["reason"], columns["retryable"]) == ("the provider refused it", True)
    assert failure(before, "embed", error, same_content=False)["attempts"] == 1
    assert failure(None, "embed", error, same_content=True)["attempts"] == 1


def test_how_far_documents_are_is_part_of_what_is_known_of_them(ledger: Table):
    assert (standings(ledger), set_aside_in(ledger)) == ({}, [])
    put(
        ledger,
        {"document": "b.md", "status": "failed", "reason": "no"},
        {"document": "a.md", "status": "failed"},
        {"document": "c.md", "status": "indexed", "generation": "g1", "chunks": 7},
    )
    known = known_documents(ledger)
    assert standings(ledger) == {name: (one.status, one.generation, one.chunks) for name, one in known.items()}
    assert standings(ledger)["c.md"] == ("indexed", "g1", 7)
    assert [one.document for one in set_aside_in(ledger)] == ["a.md", "b.md"]
    assert set_aside_in(ledger) == set_aside_documents(known)
