"""What an answer reads around a passage: always exactly a range of the document."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assets.config import ChunkingSettings
from rag_assets.errors import StoreError
from rag_assets.records import Passage
from rag_assets.retrieving.neighbours import read_neighbours
from rag_assets_tests.workbench import CORPUS, Workbench

TEN = "\n\n".join(f"paragraph {number}" for number in range(10))


def around(bench: Workbench, passages: list[Passage], *, count: int) -> list[Passage]:
    return read_neighbours(bench.store, {CORPUS: bench.published}, passages, count=count)


def at(bench: Workbench, *ordinals: int, document: str = "a.md") -> list[Passage]:
    """The passages with these ordinals, in this order."""
    rows = bench.search("anything", mode="vector", top_k=1_000)
    by_ordinal = {one.ordinal: one for one in rows if one.document == document}
    return [by_ordinal[ordinal] for ordinal in ordinals]


def text_of(bench: Workbench, document: str) -> str:
    row = bench.store.documents(CORPUS).read_where_in("document", [document], ["text"])
    text: str = row["text"][0].as_py()
    return text


def spans(passages: list[Passage]) -> list[str]:
    """The numbers of the paragraphs in each."""
    return ["".join(word for word in one.text.split() if word.isdigit()) for one in passages]


@pytest.fixture
def ten(bench: Workbench) -> Workbench:
    bench.write("a.md", TEN)
    bench.write("b.md", TEN.replace("paragraph", "section"))
    bench.ingest()
    return bench


def test_chunks_before_and_after_are_read_and_not_beyond_the_document(ten: Workbench):
    assert spans(around(ten, at(ten, 5), count=2)) == ["34567"]
    assert spans(around(ten, at(ten, 0), count=1)) == ["01"]
    assert spans(around(ten, at(ten, 9), count=3)) == ["6789"]
    assert spans(around(ten, at(ten, 4), count=20)) == ["0123456789"]


def test_the_place_is_that_of_the_text_and_the_rest_that_of_the_passage(ten: Workbench):
    [passage] = at(ten, 5)
    [wide] = around(ten, [passage], count=1)
    assert TEN[wide.start_char : wide.end_char] == wide.text == "paragraph 4\n\nparagraph 5\n\nparagraph 6"
    assert (wide.start_line, wide.end_line) == (9, 13)
    assert (wide.chunk_id, wide.ordinal, wide.score) == (passage.chunk_id, 5, passage.score)


def test_passages_that_touch_become_one_at_the_rank_of_the_best(ten: Workbench):
    first, second, third = at(ten, 2, 8, 4)
    wider = around(ten, [first, second, third], count=1)
    assert spans(wider) == ["12345", "789"]
    assert wider[0].chunk_id == first.chunk_id


def test_passages_that_do_not_touch_stay_apart(ten: Workbench):
    assert spans(around(ten, at(ten, 7, 2), count=1)) == ["678", "123"]


def test_documents_are_not_mixed(ten: Workbench):
    wider = around(ten, [*at(ten, 3), *at(ten, 4, document="b.md")], count=1)
    assert [(one.document, one.text.split()[0]) for one in wider] == [("a.md", "paragraph"), ("b.md", "section")]
    assert spans(wider) == ["234", "345"]


def test_they_are_those_of_the_version_that_was_searched(ten: Workbench):
    publication, passages = ten.published, at(ten, 5)
    ten.write("a.md", "something else")
    ten.ingest()
    assert spans(read_neighbours(ten.store, {CORPUS: publication}, passages, count=1)) == ["456"]


def test_a_version_that_is_gone_is_told(ten: Workbench):
    passages = at(ten, 5)
    ten.store.index(CORPUS, ten.published.generation, dimensions=1).drop()
    with pytest.raises(StoreError, match="lost or damaged"):
        around(ten, passages, count=1)


def test_parents_are_read_in_place_of_children(bench: Workbench):
    bench.configure(chunking=ChunkingSettings(strategy="parent_child", max_tokens=24, child_tokens=8))
    bench.write("a.md", "\n\n".join(f"{word} one two three four. {word} five six seven." for word in "abcdefgh"))
    bench.ingest()
    text = text_of(bench, "a.md")
    [child] = at(bench, 5)
    assert child.parent is not None
    [alone] = around(bench, [child], count=0)
    assert alone.text == child.parent.text
    [wide] = around(bench, [child], count=2)
    assert text[wide.start_char : wide.end_char] == wide.text != alone.text
    assert alone.text in wide.text


STRATEGIES: list[dict[str, Any]] = [
    {"strategy": "markdown", "max_tokens": 16, "overlap_tokens": 6},
    {"strategy": "fixed_size", "max_tokens": 12, "overlap_tokens": 5},
    {"strategy": "sentence", "max_tokens": 14, "overlap_tokens": 4},
    {"strategy": "parent_child", "max_tokens": 30, "child_tokens": 9},
    {"strategy": "paragraph", "max_tokens": 20, "overlap_tokens": 0},
]
PARTS = ["# Head\n", "one two three. ", "Four five six seven!\n", "\n\n", "\n \t\n", " ", "    code\n", "é ü "]


@pytest.mark.parametrize("keys", STRATEGIES, ids=lambda keys: keys["strategy"])
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.sampled_from(PARTS), min_size=5, max_size=40),
    count=st.integers(1, 3),
    picked=st.sets(st.integers(0, 30), min_size=1, max_size=4),
)
def test_a_range_is_always_exactly_that_of_the_document(
    bench: Workbench, keys: dict[str, Any], parts: list[str], count: int, picked: set[int]
):
    bench.configure(chunking=ChunkingSettings(**keys))
    bench.write("a.md", "---\ntitle: x\n---\n" + "".join(parts) + "end")
    bench.ingest()
    text = text_of(bench, "a.md")
    passages = [one for one in bench.search("anything", mode="vector", top_k=1_000) if one.ordinal in picked]
    wider = around(bench, passages, count=count)
    for one in wider:
        assert one.text == text[one.start_char : one.end_char]
        assert one.start_line == 4 + text[: one.start_char].count("\n")
        assert one.end_line == 4 + text[: one.end_char].count("\n")
    for one in passages:
        assert any(wide.start_char <= one.start_char and one.end_char <= wide.end_char for wide in wider)
    ranges = sorted((one.start_char, one.end_char) for one in wider)
    assert all(before[1] < after[0] for before, after in pairwise(ranges))
