from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_assets.config import ChunkingSettings, HashingEmbedding
from rag_assets.errors import QuestionError
from rag_assets.retrieving.search import Mode
from rag_assets_tests.workbench import Workbench, make_workbench

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    """Three documents about fruit and 120 about trees, published once."""
    bench = make_workbench(tmp_path_factory.mktemp("library"))
    bench.write("fruit/apples.md", "# Apples\n\nred apples and green apples\n\npears are no apples")
    bench.write("fruit/it's.md", "quinces and medlars")
    bench.write("stones.md", "granite basalt marble")
    for number in range(120):
        bench.write(f"trees/{number:03}.md", f"the red oak tree number {number}")
    bench.ingest()
    return bench


# What is found.


def test_a_hybrid_search_scores_what_both_rankings_hold_by_both_ranks(library: Workbench):
    by_vector = [passage.chunk_id for passage in library.search("green apples", mode="vector", top_k=100)]
    by_text = [passage.chunk_id for passage in library.search("green apples", mode="text", top_k=100)]
    best = library.search("green apples")[0]
    assert best.document == "fruit/apples.md"
    assert best.score == pytest.approx(
        1 / (61 + by_vector.index(best.chunk_id)) + 1 / (61 + by_text.index(best.chunk_id))
    )


def test_a_passage_has_what_a_citation_needs(library: Workbench):
    passage = library.search("red apples green", mode="text", top_k=1)[0]
    path = library.folder / "fruit/apples.md"
    assert (passage.document, passage.title, passage.source_uri) == ("fruit/apples.md", "Apples", path.as_uri())
    assert path.read_text()[passage.start_char : passage.end_char] == passage.text
    assert passage.heading_path == ("Apples",)
    assert passage.similarity is None


def test_a_vector_search_scores_by_cosine(library: Workbench):
    same = library.search("granite basalt marble", mode="vector", top_k=2)
    assert same[0].document == "stones.md"
    assert same[0].score == pytest.approx(1.0, abs=1e-6)
    assert same[0].similarity == same[0].score
    assert same[1].score < 0.9


def test_a_hybrid_passage_that_vectors_found_knows_its_similarity(library: Workbench):
    assert library.search("granite basalt marble")[0].similarity == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_results_come_best_first_and_no_more_than_asked(library: Workbench, mode: Mode):
    scores = [passage.score for passage in library.search("the red oak", mode=mode, top_k=7)]
    assert len(scores) == 7
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("mode", MODES)
def test_equal_scores_come_in_one_order_always(library: Workbench, mode: Mode):
    first = [passage.chunk_id for passage in library.search("red oak", mode=mode, top_k=20)]
    assert [passage.chunk_id for passage in library.search("red oak", mode=mode, top_k=20)] == first


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_more_than_there_are_is_all_there_are(library: Workbench, mode: Mode):
    found = library.search("apples", mode=mode, top_k=1_000)
    assert len(found) == library.published.chunks
    assert len({passage.chunk_id for passage in found}) == len(found)


def test_full_text_holds_only_what_matches(library: Workbench):
    assert {passage.document for passage in library.search("apples", mode="text", top_k=1_000)} == {"fruit/apples.md"}


@pytest.mark.parametrize(
    "query",
    ["(", ")", '"', '"apples', "AND OR", "NOT", "apples AND", "+apples -pears", "text:apples", "apples~2", "appl*", "*",
     "?", "^", "\\", "😀", "'", ";", "--", "%", "\n", "a" * 10_000, "apples " * 1_428, "日本語",
     "\u200b", "\x00", "[1 TO 5]", "{}"],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("mode", MODES)
def test_no_query_is_syntax(library: Workbench, query: str, mode: Mode):
    found = library.search(query, mode=mode, top_k=5)
    assert len(found) <= 5
    if "apples" in query:
        assert "fruit/apples.md" in {passage.document for passage in found}


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_any_text_can_be_looked_for(library: Workbench, query: str):
    assert len(library.search(query, top_k=3)) <= 3


# Conditions.


@pytest.mark.parametrize("mode", MODES)
def test_a_condition_holds_before_anything_is_ranked(library: Workbench, mode: Mode):
    """Every one of the hundred best for this question is about trees: a filter behind the ranking finds nothing."""
    best = library.search("the red oak tree number", mode=mode, top_k=100)
    assert {passage.document.split("/")[0] for passage in best} == {"trees"}
    found = library.search("the red oak tree number", mode=mode, where="document LIKE 'fruit/%'")
    assert found
    assert {passage.document for passage in found} <= {"fruit/apples.md", "fruit/it's.md"}


def test_a_condition_with_a_quote_is_written_as_in_sql(library: Workbench):
    found = library.search("anything", where="document = 'fruit/it''s.md'")
    assert [passage.document for passage in found] == ["fruit/it's.md"]


def test_a_condition_that_nothing_meets_finds_nothing(library: Workbench):
    assert library.search("apples", where="document = 'nowhere'") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "where",
    ["", "   ", "document LIKE", "colour = 'red'", "document = 1", "document IN (", "1", "ordinal / 0 = 1", "'", "--",
     "document = (SELECT 1)", "x\x00", "regexp_like(text, '(')"],
)  # fmt: skip
def test_a_condition_that_is_none_is_told_with_the_columns(library: Workbench, where: str, mode: Mode):
    with pytest.raises(QuestionError) as caught:
        library.search("apples", mode=mode, where=where)
    said = str(caught.value)
    assert said.startswith(f"the condition {where!r} cannot be applied: ")
    assert "It is SQL on the columns chunk_id, document, ordinal, text, " in said
    assert "vector" not in said.split("on the columns")[1]
    assert ".rs:" not in said
    assert "\n" not in said


def test_a_condition_reaches_rows_that_are_not_in_the_text_index_yet(tmp_path: Path):
    bench = make_workbench(tmp_path)
    bench.write("old.md", "red apples")
    bench.ingest()
    bench.write("new.md", "red apples too")
    bench.ingest()
    for mode in MODES:
        found = bench.search("red apples", mode=mode, where="document = 'new.md'")
        assert [passage.document for passage in found] == ["new.md"]


# Versions.


def test_a_published_version_is_searched_though_newer_rows_are_there(bench: Workbench):
    bench.write("a.md", "red apples")
    bench.write("b.md", "red pears")
    bench.ingest()
    bench.write("a.md", "blue plums")
    (bench.folder / "b.md").unlink()
    bench.update()
    for mode in MODES:
        assert {passage.text for passage in bench.search("red apples", mode=mode)} >= {"red apples"}
        assert "blue plums" not in {passage.text for passage in bench.search("blue plums", mode=mode)}
    bench.publish()
    assert [passage.text for passage in bench.search("red apples")] == ["blue plums"]


def test_a_publication_is_searched_with_the_model_that_made_it(bench: Workbench):
    bench.write("a.md", "red apples")
    bench.ingest()
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    bench.materialize("a.md")
    assert bench.search("red apples", mode="vector")[0].score == pytest.approx(1.0, abs=1e-6)


# Words of many languages, and of code.


@pytest.fixture(scope="module")
def languages(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    """One sentence a document."""
    bench = make_workbench(tmp_path_factory.mktemp("languages"))
    for name, text in {
        "ja": "東京都新宿区の新宿駅は世界一乗降客数が多い。",
        "zh": "我们在北京天安门广场参观",
        "ru": "Поезд Москва — Новосибирск",
        "de": "Die Häuser in Zürich",
        "python": "call get_user_by_id with snake_case_names from path/to/file.py",
        "cpp": "C++ is a language",
        "en": "Marmots were running over the meadows",
    }.items():
        bench.write(f"{name}.md", text)
    bench.ingest()
    return bench


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("新宿", "ja.md"),
        ("天安门", "zh.md"),
        ("новосибирск", "ru.md"),
        ("НОВОСИБИРСК", "ru.md"),
        ("Zurich", "de.md"),
        ("häuser", "de.md"),
        ("snake_case_names", "python.md"),
        ("user", "python.md"),
        ("file.py", "python.md"),
        ("C++", "cpp.md"),
        ("runs", "en.md"),
        ("run", "en.md"),
        ("meadow", "en.md"),
    ],
)
def test_full_text_finds_words_of_many_languages_and_of_code(languages: Workbench, query: str, document: str):
    found = languages.search(query, mode="text", top_k=1)
    assert [passage.document for passage in found] == [document]


def test_words_that_are_everywhere_are_not_looked_for(languages: Workbench):
    assert languages.search("the is a", mode="text") == []


def test_full_text_finds_a_passage_by_its_title_and_its_headings(bench: Workbench):
    bench.configure(chunking=ChunkingSettings())
    bench.write("pass.md", "# Grimsel\n\n## Opening\n\n" + "From June to October. " * 40 + "\n\n## Height\n\n2,164 m.")
    bench.write("lake.md", "# Oeschinen\n\n## Height\n\n" + "1,578 m. " * 60)
    bench.ingest()
    found = bench.search("Grimsel opening", mode="text", top_k=9)
    assert len(found) > 2
    assert all("October" in passage.text for passage in found[:2])
    assert "1,578" in bench.search("Oeschinen", mode="text", top_k=9)[-1].text
