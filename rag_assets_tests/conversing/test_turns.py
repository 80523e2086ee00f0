"""What a history may look like, and what is said of one that cannot be read."""

import io
import json
from pathlib import Path

import pytest

from rag_assets.conversing.turns import MAX_TURNS, conversation_of, read_history, recent, turns_of
from rag_assets.errors import QuestionError
from rag_assets.records import Turn
from rag_assets.storing.stores import Store
from rag_assets.tokenizing import count_tokens

GATE, TICKET = {"question": "Is the gate open?", "answer": "Yes."}, {"question": "And free?", "answer": "No."}
TURNS = [Turn("Is the gate open?", "Yes."), Turn("And free?", "No.")]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([GATE, TICKET]),
        json.dumps([GATE, TICKET], indent=2),
        f"{json.dumps(GATE)}\n\n{json.dumps(TICKET)}\n",
        f"\ufeff{json.dumps(GATE)}\n{json.dumps(TICKET)}",
        "\n".join(json.dumps({"event": "text", "text": word}) for word in ("Y", "es."))
        + f"\n{json.dumps({'event': 'answer', **GATE, 'citations': []})}\n{json.dumps(TICKET)}",
    ],
    ids=["list", "pretty list", "lines", "byte order mark", "streamed"],
)
def test_a_history_is_a_list_or_lines(tmp_path: Path, text: str):
    path = tmp_path / "history"
    path.write_text(text, encoding="utf-8")
    assert read_history(path) == TURNS


def test_an_answer_of_ours_is_read_by_the_question_that_stands_alone(tmp_path: Path):
    path = tmp_path / "answer.json"
    record = {"question": "And on Mondays?", "standalone_question": "Is the gate open on Mondays?", "answer": "No. [1]"}
    path.write_text(json.dumps({**record, "citations": [], "usage": {}}, indent=1))
    assert read_history(path) == [Turn("Is the gate open on Mondays?", "No. [1]")]


def test_a_history_comes_from_standard_input(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(GATE)))
    assert read_history(Path("-")) == TURNS[:1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"history: there is no turn in it; write lines such as \{"),
        ("[]", "history: there is no turn in it"),
        ('{"question": "a", "answer": "b"}\n{"question": ', "history:2: is no JSON"),
        ('{"question": "a", "answer": "b"}\n5', "history:2: '5' is no object"),
        ('[{"question": "a", "answer": "b"}, {"question": "c"}]', "history: turn 2: answer is 'None'; it must be text"),
        ('{"question": 7, "answer": "b"}', "history: turn 1: question is '7'; it must be text"),
        ('{"question": " ", "answer": "b"}', "question is ' '"),
        ("Q: Is it open?", "history:1: is no JSON"),
    ],
)
def test_a_broken_history_is_named_by_its_line(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / "history"
    path.write_text(text)
    with pytest.raises(QuestionError, match=complaint) as told:
        read_history(path)
    assert "\n" not in str(told.value)


def test_a_history_that_is_not_there_or_no_text(tmp_path: Path):
    with pytest.raises(QuestionError, match="nowhere: no such file"):
        read_history(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(QuestionError, match="must be a text file in UTF-8"):
        read_history(tmp_path / "binary")
    with pytest.raises(QuestionError, match="cannot be read"):
        read_history(tmp_path)


def test_rows_of_run_configuration_are_named_by_their_number():
    assert turns_of([GATE, TICKET]) == TURNS
    with pytest.raises(QuestionError, match="history 2: answer is ''; it must be text"):
        turns_of([GATE, {"question": "a", "answer": ""}])


def test_the_newest_turns_are_used_and_long_ones_cut():
    turns = [Turn(f"Question {number}?", "word " * 1000) for number in range(20)]
    kept = recent(turns)
    assert [turn.question for turn in kept] == [f"Question {number}?" for number in range(20 - MAX_TURNS, 20)]
    assert all(turn.answer.endswith(" …") for turn in kept)
    assert all(count_tokens(turn.answer, "o200k_base") <= 305 for turn in kept)
    huge = Turn("a" * 3_000_000, "b\ud800")
    assert len(recent([huge])[0].question) < 9_000
    assert recent([huge])[0].answer == "b\ufffd"


def test_a_history_and_an_answer_to_continue_exclude_each_other(tmp_path: Path):
    store = Store(str(tmp_path))
    with pytest.raises(QuestionError, match="name one of them"):
        conversation_of(store, history=tmp_path / "h", continues="last")
    with pytest.raises(QuestionError, match="nothing was asked yet"):
        conversation_of(store, history=None, continues="last")
    with pytest.raises(QuestionError, match='there is no answer of the run "it\'s" to continue'):
        conversation_of(store, history=None, continues="it's")
    assert conversation_of(store, history=None, continues=None).turns == ()
