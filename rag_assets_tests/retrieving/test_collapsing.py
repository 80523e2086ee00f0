"""Passages that say nearly the same, and how many are found all the same."""

import pytest

from rag_assets.config import RetrievalSettings
from rag_assets.records import Place
from rag_assets.retrieving.collapsing import collapse, shingles_of
from rag_assets.retrieving.search import Mode
from rag_assets_tests.answering.passages import passage
from rag_assets_tests.workbench import Workbench

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
SIXTEEN = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"


def texts(*given: str, threshold: float = 0.9, at_most: int = 100) -> list[str]:
    passages = [passage(text, f"{number}.md") for number, text in enumerate(given)]
    return [one.text for one in collapse(passages, threshold=threshold, at_most=at_most)]


def test_shingles_are_runs_of_three_words_without_regard_to_case_and_white_space():
    assert shingles_of("The  red\nfox. ") == {("the", "red", "fox"), ("red", "fox", ".")}
    assert shingles_of("Red fox") == {("red", "fox")}
    assert shingles_of("新宿駅は") == {("新", "宿", "駅"), ("宿", "駅", "は")}
    assert shingles_of(" ") == {()}


def test_the_same_text_is_one_passage_at_the_better_rank():
    assert texts("a b c d", "x y z", "A b  c\nd") == ["a b c d", "x y z"]


def test_how_alike_is_measured_by_jaccard():
    """16 words are 14 shingles. One more word adds one: 14 of 15 are shared, 0.933. Another last word shares 13 of 15,
    0.867."""
    longer, other = f"{SIXTEEN} seventeen", SIXTEEN.replace("sixteen", "last")
    assert texts(SIXTEEN, longer, threshold=0.93) == [SIXTEEN]
    assert texts(SIXTEEN, longer, threshold=0.94) == [SIXTEEN, longer]
    assert texts(SIXTEEN, other, threshold=0.86) == [SIXTEEN]
    assert texts(SIXTEEN, other, threshold=0.87) == [SIXTEEN, other]
    assert texts("a b c", "a b d", threshold=1.0) == ["a b c", "a b d"]


def test_a_passage_tells_where_else_it_stands_also_beyond_the_last_that_is_kept():
    given = (("a", "x y"), ("b", "z"), ("c", "x y"), ("d", "w"), ("e", "x y"))
    kept = collapse([passage(text, name) for name, text in given], threshold=0.9, at_most=2)
    assert [one.document for one in kept] == ["a", "b"]
    assert kept[0].also_in == (Place("c", "c:0", 1, 1), Place("e", "e:0", 1, 1))


def test_a_passage_that_was_collapsed_already_keeps_its_places():
    once = collapse([passage("x y", name) for name in ("a", "b")], threshold=0.9, at_most=9)
    again = collapse([passage("x y", "c"), *once], threshold=0.9, at_most=9)
    assert [place.document for place in again[0].also_in] == ["a", "b"]


@pytest.mark.parametrize("mode", MODES)
def test_copies_do_not_take_the_places_of_others(bench: Workbench, mode: Mode):
    """150 copies are more than the 100 candidates of a search: it looks deeper until it has as many as were asked for."""
    for number in range(150):
        bench.write(f"copies/{number:03}.md", "granite basalt")
    for name in ("marble", "slate", "chalk"):
        bench.write(f"{name}.md", f"granite and {name} in one sentence")
    bench.ingest()
    assert {one.text for one in bench.search("granite basalt", mode=mode, top_k=4)} == {"granite basalt"}
    bench.configure(retrieval=RetrievalSettings(collapse=0.9))
    passages = bench.search("granite basalt", mode=mode, top_k=4)
    assert passages[0].text == "granite basalt"
    assert {one.document for one in passages[1:]} == {"marble.md", "slate.md", "chalk.md"}
    assert len(passages[0].also_in) == 149


def test_nothing_is_collapsed_unless_the_corpus_says_so(bench: Workbench):
    for name in ("a.md", "b.md"):
        bench.write(name, "granite basalt")
    bench.ingest()
    assert [one.also_in for one in bench.search("granite")] == [(), ()]
