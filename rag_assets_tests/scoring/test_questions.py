"""Files of questions are read as they are meant, and a line that cannot be understood is told with its remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from rag_assets.errors import QuestionError
from rag_assets.scoring.questions import KnownQuestion, load_questions
from rag_assets_tests.questions import FASTAPI


def written(folder: Path, *rows: dict[str, Any] | str) -> Path:
    path = folder / "questions.jsonl"
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def test_a_line_names_documents_and_texts(tmp_path: Path):
    path = written(
        tmp_path,
        {"id": "a", "question": "Why?", "documents": ["a.md", "b.md"], "passages": ["because  of\nit"]},
        "",
        {"id": "b", "question": "How?", "document": "a.md", "contains": ["so"]},
        {"id": "c", "question": "Who?", "document": None, "answerable": False},
    )
    assert load_questions(path).questions == [
        KnownQuestion("a", "Why?", {"a.md": 1, "b.md": 1}, ("because of it",)),
        KnownQuestion("b", "How?", {"a.md": 1}, ("so",)),
        KnownQuestion("c", "Who?", {}),
    ]
    assert [one.answerable for one in load_questions(path).questions] == [True, True, False]


def test_the_questions_of_the_benchmarks_are_read_too():
    known = load_questions(FASTAPI)
    assert len(known.questions) == len(FASTAPI.read_text(encoding="utf-8").splitlines())
    assert {one.answerable for one in known.questions} == {True, False}


def test_an_id_is_made_of_the_question_where_none_is_given(tmp_path: Path):
    path = written(tmp_path, {"question": "Why?", "document": "a.md"}, {"question": "How?", "document": "a.md"})
    names = [one.id for one in load_questions(path).questions]
    assert len(set(names)) == 2
    assert names == [one.id for one in load_questions(path).questions]


def test_drafts_are_skipped_and_counted(tmp_path: Path):
    path = written(
        tmp_path,
        {"id": "a", "question": "Why?", "document": "a.md", "draft": True},
        {"id": "b", "question": "How?", "document": "a.md", "draft": False},
    )
    known = load_questions(path)
    assert [one.id for one in known.questions] == ["b"]
    assert known.drafts == 1


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("{", ":2: is no JSON: .*; write one object a line"),
        ("[]", ":2: .* is no object; write"),
        ({"question": " "}, ":2: question is ' '; it must be text"),
        ({"question": 7}, ":2: question is 7; it must be text"),
        ({"question": "x" * 9000}, ":2: question has 9,000 characters; at most 8,000"),
        ({"question": "Why?", "documant": "a.md"}, ":2: documant: unknown key; allowed: id, question"),
        ({"question": "Why?", "document": "a.md", "documents": ["a.md"]}, ":2: document and documents are the same"),
        ({"question": "Why?", "document": ["a.md", 7]}, ":2: document is .*; it must be text, or a list of texts"),
        ({"question": "Why?", "passages": [""]}, ":2: passages is .*; it must be text"),
        ({"question": "Why?", "answerable": True}, ":2: answerable is true, and no document"),
        ({"question": "Why?", "document": "a.md", "answerable": False}, ":2: answerable is false, and an answer"),
        ({"question": "Why?", "answerable": "no"}, ":2: answerable is 'no'; it is true or false"),
        ({"id": "a", "question": "Why?"}, ":2: the id 'a' is taken"),
    ],
)
def test_a_broken_line_is_named_with_its_remedy(tmp_path: Path, row: dict[str, Any] | str, complaint: str):
    path = written(tmp_path, {"id": "a", "question": "How?", "document": "a.md"}, row)
    with pytest.raises(QuestionError, match=complaint) as caught:
        load_questions(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_without_questions_says_what_to_do(tmp_path: Path):
    with pytest.raises(QuestionError, match=r"missing.jsonl: no such file; .* rag-assets draft-questions"):
        load_questions(tmp_path / "missing.jsonl")
    with pytest.raises(QuestionError, match="there is no question; write lines such as"):
        load_questions(written(tmp_path))
    with pytest.raises(QuestionError, match="all 1 questions are drafts; correct them"):
        load_questions(written(tmp_path, {"question": "Why?", "document": "a.md", "draft": True}))
    (tmp_path / "questions.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(QuestionError, match="cannot be read: .* UTF-8"):
        load_questions(tmp_path / "questions.jsonl")


def test_a_sample_is_the_same_when_questions_are_added(tmp_path: Path):
    rows = [{"id": str(number), "question": "Why?", "document": "a.md"} for number in range(50)]
    known = load_questions(written(tmp_path, *rows))
    sample = [one.id for one in known.sampled(5).questions]
    assert len(sample) == 5
    assert sample == sorted(sample, key=int)
    assert sample != ["0", "1", "2", "3", "4"]
    more = load_questions(written(tmp_path, *rows, {"id": "50", "question": "Why?", "document": "a.md"}))
    assert len(set(sample) & {one.id for one in more.sampled(5).questions}) >= 4
    assert known.sampled(None) == known.sampled(99) == known
    assert known.sampled(5).hash != known.hash


class TestBeir:
    def folder(self, root: Path, judged: str, *, name: str = "test") -> Path:
        (root / "qrels").mkdir()
        (root / "qrels" / f"{name}.tsv").write_text(judged)
        rows = [{"_id": "q1", "text": "Why?"}, {"_id": "q2", "text": "How?", "metadata": {}}]
        (root / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return root

    def test_queries_with_a_relevant_document_are_read_with_its_grade(self, tmp_path: Path):
        folder = self.folder(
            tmp_path, "query-id\tcorpus-id\tscore\nq1\ta.md\t2\nq1\tb.md\t1\nq1\tc.md\t0\nq2\ta.md\t0\n"
        )
        assert load_questions(folder).questions == [KnownQuestion("q1", "Why?", {"a.md": 2, "b.md": 1})]

    def test_other_judgements_are_read_where_there_are_none_for_tests(self, tmp_path: Path):
        folder = self.folder(tmp_path, "query-id\tcorpus-id\tscore\nq2\ta.md\t1\n", name="dev")
        assert [one.id for one in load_questions(folder).questions] == ["q2"]

    @pytest.mark.parametrize(
        ("judged", "complaint"),
        [
            ("query-id\tcorpus-id\tscore\nq1\ta.md\n", r"test.tsv:2: 'q1 a.md' is no judgement; write"),
            ("query-id\tcorpus-id\tscore\nq1\ta.md\tgood\n", r"test.tsv:2: .* is no judgement; write"),
            ("query-id\tcorpus-id\tscore\nq9\ta.md\t1\n", r"test.tsv: judges the query 'q9', which is not in"),
        ],
    )
    def test_a_broken_judgement_is_named(self, tmp_path: Path, judged: str, complaint: str):
        with pytest.raises(QuestionError, match=complaint):
            load_questions(self.folder(tmp_path, judged))

    def test_a_folder_without_judgements_says_what_it_lacks(self, tmp_path: Path):
        with pytest.raises(QuestionError, match=r"has no qrels/\*.tsv"):
            load_questions(tmp_path)

    def test_a_broken_query_is_named(self, tmp_path: Path):
        folder = self.folder(tmp_path, "query-id\tcorpus-id\tscore\nq1\ta.md\t1\n")
        (folder / "queries.jsonl").write_text('{"_id": "q1"}\n')
        with pytest.raises(QuestionError, match="queries.jsonl:1: text is None; it must be text"):
            load_questions(folder)
