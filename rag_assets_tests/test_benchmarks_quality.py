"""What the quality benchmarks count as an answer, on a few made-up pages. The real figures are for `make bench`."""

import json
from pathlib import Path

import pytest

from rag_assets.config import HashingEmbedding
from rag_assets.records import Passage
from rag_assets_tests.benchmarks import chunking_quality, retrieval_quality
from rag_assets_tests.benchmarks.answers import (
    NDCG,
    RECALL,
    RECIPROCAL_RANK,
    answer_rank,
    difference,
    mean,
    scores_of,
    scores_of_ranks,
)
from rag_assets_tests.benchmarks.kept_vectors import VECTORS
from rag_assets_tests.questions import Question

HASHING = HashingEmbedding(provider="hashing", dimensions=64)
QUESTION = Question("a", "When is the pass closed?", "passes.md", ("from November", "closed to cars"))


def passage(text: str, document: str = "passes.md") -> Passage:
    return Passage(
        chunk_id=text,
        document=document,
        ordinal=0,
        text=text,
        title="",
        source_uri="",
        heading_path=(),
        start_char=0,
        end_char=len(text),
        start_line=1,
        end_line=1,
        score=1.0,
    )


@pytest.mark.parametrize(
    ("texts", "rank"),
    [
        (["It is closed to cars from November on."], 1),
        (["Nothing.", "It is closed to\n  cars from\nNovember on."], 2),
        (["It is closed to cars.", "Nothing.", "Namely from November on."], 3),
        (["It is closed to cars.", "It is closed to cars."], None),
        ([], None),
    ],
)
def test_an_answer_is_found_where_its_last_phrase_was_read(texts: list[str], rank: int | None) -> None:
    assert answer_rank(QUESTION, [passage(text) for text in texts]) == rank


def test_another_page_does_not_answer() -> None:
    assert answer_rank(QUESTION, [passage("It is closed to cars from November on.", "lakes.md")]) is None


def test_ranks_become_measures() -> None:
    scores = scores_of_ranks({"first": 1, "third": 3, "eleventh": 11, "never": None})

    assert scores[NDCG] == {"first": 1.0, "third": 0.5, "eleventh": 0.0, "never": 0.0}
    assert scores[RECALL] == {"first": 1.0, "third": 1.0, "eleventh": 0.0, "never": 0.0}
    assert scores[RECIPROCAL_RANK] == pytest.approx({"first": 1.0, "third": 1 / 3, "eleventh": 0.0, "never": 0.0})
    assert mean(scores, NDCG) == 0.375


def test_grades_count_in_a_collection() -> None:
    scores = scores_of({"q": ["x", "good"]}, {"q": {"good": 1, "better": 2}, "unanswered": {"good": 1}})

    # 1/log2(3) of 2 + 1/log2(3)
    assert scores[NDCG] == pytest.approx({"q": 0.2398, "unanswered": 0.0}, abs=1e-4)


def test_a_difference_comes_with_its_error() -> None:
    assert difference({"a": 1.0, "b": 0.5}, {"a": 0.0, "b": 0.5}) == pytest.approx((0.5, 0.5))


def test_every_strategy_is_measured_on_the_questions_that_the_pages_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    monkeypatch.setenv(VECTORS, str(kept))
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "passes.md").write_text("# Passes\n\nThe pass is closed to cars from November on.\n")
    questions = [QUESTION, Question("b", "How deep is the lake?", "lakes.md", ("ninety metres",))]

    found = chunking_quality.measure(
        tmp_path / "run",
        pages=pages,
        names=["passes.md"],
        questions=questions,
        embedding=HASHING,
        strategies=["markdown", "parent_child"],
    )

    assert [list(quality.scores[NDCG].items()) for quality in found.values()] == [[("a", 1.0)], [("a", 1.0)]]
    assert [quality.whole for quality in found.values()] == [1.0, 1.0]
    assert list(kept.glob("vectors/*.lance"))
    assert not list((tmp_path / "run").rglob("vectors"))


def test_the_table_compares_each_strategy_with_the_first(tmp_path: Path) -> None:
    quality = chunking_quality.Quality(
        chunks=1200, mean_tokens=99.6, whole=1.0, tokens_read=512.2, scores=scores_of_ranks({"a": 1, "b": 3})
    )
    worse = chunking_quality.Quality(
        chunks=80, mean_tokens=10.0, whole=0.5, tokens_read=50.0, scores=scores_of_ranks({"a": 1, "b": None})
    )

    lines = chunking_quality.as_table({"markdown": quality, "sentence": worse}).splitlines()

    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        *("markdown", "0.750", "–", "1.000", "0.667", "1.000", "1,200", "100", "512")
    ]
    assert lines[3].split("|")[3].strip() == "-0.250 ± 0.250"


def write_collection(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    records = [
        {"_id": "7", "title": "Grimsel", "text": "closed in winter"},
        {"_id": "8", "title": "", "text": "boats for hire"},
    ]
    queries = [{"_id": "a", "text": "boats"}, {"_id": "b", "text": "winter"}, {"_id": "c", "text": "unjudged"}]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\t8\t1\nb\t7\t2\n")


def test_a_collection_is_read_in_the_layout_of_beir(tmp_path: Path) -> None:
    write_collection(tmp_path / "alps")

    collection = retrieval_quality.load_collection(tmp_path / "alps")

    assert collection.texts == {"7": "Grimsel\nclosed in winter", "8": "boats for hire"}
    assert collection.queries == {"a": "boats", "b": "winter"}
    assert collection.relevant == {"a": {"8": 1}, "b": {"7": 2}}
    assert list(retrieval_quality.load_collection(tmp_path / "alps", queries=1).queries) == ["a"]


def test_records_are_found_by_every_mode(tmp_path: Path) -> None:
    write_collection(tmp_path / "alps")
    collection = retrieval_quality.load_collection(tmp_path / "alps")

    found = retrieval_quality.measure(tmp_path / "run", collection, HASHING)

    assert {mode: mean(scores, NDCG) for mode, scores in found.items() if mode != "bm25s"} == {
        "hybrid": 1.0,
        "vector": 1.0,
        "text": 1.0,
        "hybrid, late_interaction": 1.0,
    }
    assert retrieval_quality.as_table({"alps": found}).splitlines()[0].split() == ["|", "nDCG@10", "|", "alps", "|"]
