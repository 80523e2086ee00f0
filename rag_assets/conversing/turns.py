"""The earlier turns of a conversation: read from a file, from rows of run configuration, or from the table `answers`.

Here belongs what a turn is, how its sources are read, and how much of them is used. What becomes of a follow-up is
`rewriting.py`.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.errors import QuestionError
from rag_assets.records import Turn
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import sql_literal
from rag_assets.tokenizing import token_ends

MAX_TURNS = 6
MAX_ANSWER_TOKENS = 300
MAX_QUESTION_TOKENS = 200
"""A follow-up is about what was said last; with these, a prompt holds at most 3,000 tokens of conversation."""
LAST = "last"
"""In place of a run id: the newest answer of the table."""

_TOKENIZER = "o200k_base"
_STDIN = Path("-")
_EXAMPLE = '{"question": "…", "answer": "…"}'


@dataclass(frozen=True)
class Conversation:
    """What was said before a question, oldest first; where it is known, the run id of the answer that the question
    follows, and the corpora that were asked."""

    turns: Sequence[Turn] = ()
    run_id: str | None = None
    corpora: Sequence[str] | None = None


def conversation_of(store: Store, *, history: Path | None, continues: str | None) -> Conversation:
    """The conversation in the file `history`, or that led to the answer of the run `continues`; an empty one for neither.
    Raises `QuestionError` for both."""
    if history is not None and continues is not None:
        raise QuestionError(
            f"a history ({history}) and an answer to continue ({continues}) are named; name one of them"
        )
    if continues is not None:
        return continued(store, continues)
    return Conversation(read_history(history)) if history is not None else Conversation()


def read_history(path: Path) -> Sequence[Turn]:
    """The newest turns of the file at `path`, or of standard input for `-`, oldest first.

    It holds a JSON list of objects, or an object a line, each with `question` and `answer`; what `rag-assets ask --json`
    prints is such an object. Raises `QuestionError` that names the line and what to write instead.
    """
    name = "standard input" if path == _STDIN else str(path)
    try:
        text = sys.stdin.read() if path == _STDIN else path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise QuestionError(
            f"{name}: no such file; a history holds lines such as {_EXAMPLE}, as rag-assets ask --json prints them"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise QuestionError(f"{name}: cannot be read: {error}; it must be a text file in UTF-8") from None
    turns = [_turn(row, where) for where, row in _rows(text, name) if not _is_delta(row)]
    if not turns:
        raise QuestionError(f"{name}: there is no turn in it; write lines such as {_EXAMPLE}")
    return recent(turns)


def turns_of(rows: Sequence[Mapping[str, object]]) -> Sequence[Turn]:
    """The newest turns of `rows`, each with `question` and `answer`. Raises `QuestionError` that names the row, from 1."""
    return recent([_turn(row, f"history {number}") for number, row in enumerate(rows, start=1)])


def recent(turns: Sequence[Turn]) -> Sequence[Turn]:
    """The last `MAX_TURNS`, their texts cut to what is used."""
    return [
        Turn(_cut(turn.question, MAX_QUESTION_TOKENS), _cut(turn.answer, MAX_ANSWER_TOKENS))
        for turn in turns[-MAX_TURNS:]
    ]


def continued(store: Store, run_id: str) -> Conversation:
    """What led to the answer of `run_id`, or to the newest one for `last`. Raises `QuestionError` when there is none."""
    run_id = _newest(store) if run_id == LAST else run_id
    turns: list[Turn] = []
    corpora: Sequence[str] | None = None
    follows: str | None = run_id
    seen: set[str] = set()
    while follows and follows not in seen and len(turns) < MAX_TURNS:
        seen.add(follows)
        row = _kept(store, follows)
        if row is None:
            break
        turns.insert(0, Turn(str(row["standalone_question"] or row["question"]), str(row["answer"])))
        corpora = corpora or str(row["corpus"]).split(", ")
        follows = str(row["continues"]) if row["continues"] else None
    if not turns:
        raise QuestionError(
            f"there is no answer of the run {run_id!r} to continue; rag-assets ask --json prints run_id, and"
            f" {LAST!r} is the newest"
        )
    return Conversation(recent(turns), run_id, corpora)


def _newest(store: Store) -> str:
    rows = store.answers().read(["asked_at", "run_id"])
    if not rows.num_rows:
        raise QuestionError("nothing was asked yet, so there is nothing to continue; leave the option out")
    return str(rows.sort_by([("asked_at", "descending")])["run_id"][0].as_py())


def _kept(store: Store, run_id: str) -> Mapping[str, object] | None:
    columns = ["asked_at", "question", "standalone_question", "answer", "corpus", "continues"]
    rows = store.answers().read(columns, where=f"run_id = {sql_literal(run_id)}")
    found = rows.sort_by([("asked_at", "descending")]).slice(0, 1).to_pylist()
    return found[0] if found else None


def _rows(text: str, name: str) -> Iterator[tuple[str, object]]:
    """The rows of a history, and where each stands. A list, or one object over several lines, is one JSON value."""
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if whole is not None:
        rows = whole if isinstance(whole, list) else [whole]
        yield from ((f"{name}: turn {number}", row) for number, row in enumerate(rows, start=1))
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield f"{name}:{number}", json.loads(line)
        except ValueError as error:
            raise QuestionError(f"{name}:{number}: is no JSON: {error}; write one object a line: {_EXAMPLE}") from None


def _is_delta(row: object) -> bool:
    """Whether `row` is a piece of an answer that was streamed as JSON, whose record comes after the pieces."""
    return isinstance(row, dict) and row.get("event") == "text"


def _turn(row: object, where: str) -> Turn:
    if not isinstance(row, Mapping):
        raise QuestionError(f"{where}: {str(row)[:80]!r} is no object; write {_EXAMPLE}")
    question = row.get("standalone_question") or row.get("question")
    answer = row.get("answer")
    for key, value in (("question", question), ("answer", answer)):
        if not isinstance(value, str) or not value.strip():
            raise QuestionError(f"{where}: {key} is {str(value)[:80]!r}; it must be text, as in {_EXAMPLE}")
    return Turn(str(question).strip(), str(answer).strip())


def _cut(text: str, tokens: int) -> str:
    text = without_lone_surrogates(text)
    ends = token_ends(text[: 40 * tokens], _TOKENIZER)
    return text if len(ends) <= tokens and len(text) <= 40 * tokens else f"{text[: ends[min(tokens, len(ends)) - 1]]} …"
