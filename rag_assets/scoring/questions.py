"""Questions with known answers, as files hold them: lines of JSON, or a folder in the layout of BEIR.

Here belongs reading and checking them; every problem names the file, the line and the remedy. How what was found is
judged is `judging.py`.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets.asking import MAX_QUESTION_CHARACTERS
from rag_assets.errors import QuestionError
from rag_assets.fingerprints import fingerprint, hash_text

_KEYS = ("id", "question", "document", "documents", "passages", "contains", "answerable", "draft")


@dataclass(frozen=True)
class KnownQuestion:
    """A question and its known answer: the documents that hold it (document → grade from 1), and texts of the passages
    that do. Both are empty where nothing answers."""

    id: str
    text: str
    documents: Mapping[str, int]
    passages: tuple[str, ...] = ()

    @property
    def answerable(self) -> bool:
        """Whether the corpus holds the answer."""
        return bool(self.documents or self.passages)


@dataclass(frozen=True)
class QuestionSet:
    """The questions of one file or folder, and how many drafts of it were skipped."""

    path: str
    questions: Sequence[KnownQuestion]
    drafts: int = 0

    def sampled(self, size: int | None) -> "QuestionSet":
        """At most `size` of the questions: the same ones every time, also where others are added to the file."""
        if size is None or size >= len(self.questions):
            return self
        chosen = {one.id for one in sorted(self.questions, key=lambda one: hash_text(one.id))[:size]}
        return QuestionSet(self.path, [one for one in self.questions if one.id in chosen], self.drafts)

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits over the questions and their answers."""
        parts = [[one.id, one.text, dict(one.documents), list(one.passages)] for one in self.questions]
        return fingerprint({"questions": parts})[:12]


def normalised(text: str) -> str:
    """`text` with one space for any white space: a known text may run over the end of a line."""
    return " ".join(text.split())


def load_questions(path: Path) -> QuestionSet:
    """The questions at `path`. Raises `QuestionError` that names the line and what to write instead."""
    try:
        found, drafts = _read_beir(path) if path.is_dir() else _read_lines(path)
    except FileNotFoundError as error:
        raise QuestionError(
            f"{error.filename}: no such file; name questions with evaluation.questions in corpora.yaml or --questions, or"
            " draft some with: rag-assets draft-questions"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionError(f"{path}: cannot be read: {error}; it must be a text file in UTF-8") from None
    if not found:
        why = (
            f'all {drafts} questions are drafts; correct them, and take out their "draft": true'
            if drafts
            else 'there is no question; write lines such as {"id": "a", "question": "Why?", "document": "guide/a.md"}'
        )
        raise QuestionError(f"{path}: {why}")
    return QuestionSet(str(path), found, drafts)


def _read_lines(path: Path) -> tuple[list[KnownQuestion], int]:
    questions: dict[str, KnownQuestion] = {}
    drafts = 0
    for number, row in _objects(path):
        try:
            question = _question(row)
            if question.id in questions:
                raise ValueError(f"the id {question.id!r} is taken; give each question another")
        except ValueError as error:
            raise QuestionError(f"{path}:{number}: {error}") from None
        if row.get("draft"):
            drafts += 1
        else:
            questions[question.id] = question
    return list(questions.values()), drafts


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a file with one a line, and their line numbers from 1; blank lines are passed over."""
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise QuestionError(
                f"{path}:{number}: is no JSON: {error.msg} at column {error.colno}; write one object a line"
            ) from None
        if not isinstance(row, dict):
            raise QuestionError(f'{path}:{number}: {line[:80]!r} is no object; write {{"question": "…", …}}')
        yield number, row


def _question(row: Mapping[str, object]) -> KnownQuestion:
    unknown = sorted(set(row) - set(_KEYS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown key; allowed: {', '.join(_KEYS)}")
    for one, other in (("document", "documents"), ("passages", "contains")):
        if one in row and other in row:
            raise ValueError(f"{one} and {other} are the same; keep one of them")
    for flag in ("answerable", "draft"):
        if not isinstance(row.get(flag, False), bool):
            raise ValueError(f"{flag} is {row[flag]!r}; it is true or false")
    text = _text(row, "question")
    documents = _texts(row, "documents") or _texts(row, "document")
    passages = tuple(normalised(passage) for passage in _texts(row, "passages") or _texts(row, "contains"))
    has_answer = bool(documents or passages)
    if row.get("answerable", has_answer) and not has_answer:
        raise ValueError("answerable is true, and no document or passage is named; name one, or set it to false")
    if not row.get("answerable", True) and has_answer:
        raise ValueError(
            "answerable is false, and an answer is named; take out document and passages, or set it to true"
        )
    name = _text(row, "id") if "id" in row else hash_text(text)[:12]
    return KnownQuestion(name, text, dict.fromkeys(documents, 1), passages)


def _text(row: Mapping[str, object], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is {value!r}; it must be text")
    if len(value) > MAX_QUESTION_CHARACTERS:
        raise ValueError(f"{key} has {len(value):,} characters; at most {MAX_QUESTION_CHARACTERS:,} are allowed")
    return value.strip()


def _texts(row: Mapping[str, object], key: str) -> list[str]:
    """The texts under `key`: a list of them, a single one, or none."""
    value = row.get(key)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    texts = [one.strip() for one in values if isinstance(one, str) and one.strip()]
    if len(texts) < len(values):
        raise ValueError(f"{key} is {value!r}; it must be text, or a list of texts")
    return texts


def _read_beir(folder: Path) -> tuple[list[KnownQuestion], int]:
    """The queries with a relevant document. Judgements are those of `test.tsv`, of all files where there is none."""
    queries = folder / "queries.jsonl"
    test = folder / "qrels" / "test.tsv"
    files = [test] if test.is_file() else sorted((folder / "qrels").glob("*.tsv"))
    if not files:
        raise QuestionError(f"{folder}: has no qrels/*.tsv; a folder of questions has queries.jsonl and qrels/test.tsv")
    relevant: dict[str, dict[str, int]] = {}
    for file in files:
        for query, document, grade in _judgements(file):
            if grade > 0:
                relevant.setdefault(query, {})[document] = grade
    questions: dict[str, KnownQuestion] = {}
    for number, row in _objects(queries):
        try:
            name, text = _text(row, "_id"), _text(row, "text")
        except ValueError as error:
            raise QuestionError(f"{queries}:{number}: {error}") from None
        if name in questions:
            raise QuestionError(f"{queries}:{number}: the _id {name!r} is taken; give each query another")
        if name in relevant:
            questions[name] = KnownQuestion(name, text, relevant[name])
    if missing := sorted(set(relevant) - set(questions)):
        raise QuestionError(f"{files[0]}: judges the query {missing[0]!r}, which is not in {queries}; add it there")
    return list(questions.values()), 0


def _judgements(path: Path) -> Iterator[tuple[str, str, int]]:
    """Query, document and grade of each row after the head."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows, None)
        for row in rows:
            if not row:
                continue
            try:
                query, document, grade = row
                yield query, document, int(grade)
            except ValueError:
                raise QuestionError(
                    f"{path}:{rows.line_num}: {' '.join(row)[:80]!r} is no judgement; write query-id, corpus-id and a"
                    " whole number, with tabs between them, below a head of these names"
                ) from None
