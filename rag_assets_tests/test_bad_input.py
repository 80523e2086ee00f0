"""What a person gets for bad input: one line that says what to do, the right exit status, nothing lost."""

from pathlib import Path

import pytest

from rag_assets_tests.platform import Outcome, Platform


def told(outcome: Outcome) -> str:
    """The one line on stderr of a command that could not run."""
    assert outcome.status == 1
    assert "Traceback" not in outcome.err
    lines = outcome.err.strip().splitlines()
    assert len(lines) == 1, outcome.err
    return lines[0]


def test_a_missing_folder(platform: Platform):
    platform.configure(source="nowhere")
    line = told(platform.run("ingest"))
    assert str(platform.root / "nowhere") in line
    assert "corpora.notes.source" in line


def test_a_wrong_key(platform: Platform):
    platform.configure(chunkin={})
    line = told(platform.run("status"))
    assert "corpora.yaml: corpora.notes.chunkin: unknown key; did you mean 'chunking'?" in line


def test_a_question_before_the_first_ingest(platform: Platform):
    assert told(platform.run("ask", "Is anybody there?")) == (
        "rag-assets: corpus notes has no published index yet; run: rag-assets ingest notes"
    )


@pytest.mark.parametrize("question", ["", "  \n "])
def test_an_empty_question(platform: Platform, question: str):
    assert "the question is empty" in told(platform.run("ask", question))


def test_a_question_of_100000_characters(platform: Platform):
    line = told(platform.run("ask", "why " * 25_000))
    assert "100,000 characters" in line
    assert len(line) < 300


def test_an_unknown_corpus(platform: Platform):
    for command in (["ask", "Why?", "--corpus", "nope"], ["search", "x", "-c", "nope"], ["ingest", "nope"]):
        assert "there is no corpus 'nope'" in told(platform.run(*command))
        assert "notes" in told(platform.run(*command))


@pytest.mark.parametrize("top_k", ["0", "-3", "1000001"])
def test_a_top_k_that_is_out_of_bounds(platform: Platform, top_k: str):
    assert "it is a number from 1 to 1,000" in told(platform.run("ask", "Why?", f"--top-k={top_k}"))


def test_an_unknown_option_is_status_1_as_2_means_set_aside_documents(platform: Platform):
    assert "--colour" in told(platform.run("status", "--colour"))


def test_a_condition_that_is_none(platform: Platform):
    platform.write("a.md", "Some text.")
    platform.ingest()
    line = told(platform.run("search", "text", "--where", "colour = 'red'"))
    assert "colour" in line
    assert "document" in line


def test_a_filter_that_cannot_be_read(platform: Platform):
    for command in ("search", "ask"):
        line = told(platform.run(command, "text", "--filter", "author"))
        assert line.startswith("rag-assets: the filter 'author' cannot be read; it is a field, one of = != >=")
        assert line.endswith("such as: path=guide/** or author=Ann or date>=2024-01-01")


def test_a_filter_on_a_field_that_no_document_has(platform: Platform):
    platform.write("a.md", "---\nauthor: Ann\n---\nSome text.")
    platform.ingest()
    for command in ("search", "ask"):
        line = told(platform.run(command, "text", "-f", "path=**", "-f", "autor=Ann"))
        assert "no document of corpus notes has the field 'autor'; did you mean 'author'?" in line


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--diversity=1.5", "diversity 1.5 is not allowed; it is a number from 0 (off) to 1"),
        ("--diversity=nan", "diversity nan is not allowed"),
        ("--neighbours=-1", "neighbours -1 is not allowed; it is a number from 0 to 20"),
        ("--neighbours=1000000", "neighbours 1000000 is not allowed"),
    ],
)
def test_a_number_that_is_out_of_bounds(platform: Platform, option: str, expected: str):
    assert expected in told(platform.run("ask", "Why?", option))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("filters", ["author"], "retrieval.filters: the filter 'author' cannot be read; it is a field, one of"),
        ("filters", "author=Ann", "retrieval.filters: 'author=Ann' is not allowed; it is a list"),
        ("weights", {"vector": 0, "text": 0}, "retrieval.weights: vector and text are both 0"),
        ("weights", {"vectors": 1}, "retrieval.weights.vectors: unknown key; did you mean 'vector'?"),
        ("weights", {"text": -1}, "retrieval.weights.text: -1 is not allowed"),
        ("collapse", 0.1, "retrieval.collapse: 0.1 is not allowed"),
        ("diversity", 2, "retrieval.diversity: 2 is not allowed"),
        ("neighbours", 21, "retrieval.neighbours: 21 is not allowed"),
    ],
)
def test_settings_of_retrieval_that_cannot_be(platform: Platform, key: str, value: object, expected: str):
    platform.configure(retrieval={key: value})
    assert f"corpora.yaml: corpora.notes.{expected}" in told(platform.run("status"))


@pytest.mark.parametrize(
    "question", ["新宿はどこですか", "Где Новосибирск?", "أين القطار؟", "🦊", "C++", "snake_case_names"]
)
def test_a_question_in_another_script(platform: Platform, question: str):
    platform.write("a.md", "東京都新宿区。\n\nПоезд Москва — Новосибирск.\n\nC++ and snake_case_names.")
    platform.ingest()
    assert isinstance(platform.ask(question)["answered"], bool)


def test_a_document_that_is_not_there_cannot_be_removed(platform: Platform):
    assert "has no document 'x.md'" in told(platform.run("remove", "x.md"))


def test_an_unreadable_file_is_set_aside_and_comes_back(platform: Platform, monkeypatch: pytest.MonkeyPatch):
    path = platform.write("a.md", "Some text.")
    platform.write("b.md", "Other text.")
    read_bytes = Path.read_bytes

    def refuse(self: Path) -> bytes:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return read_bytes(self)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", refuse)
        outcome = platform.run("ingest", "--json")
    assert outcome.status == 2
    assert [(one["document"], one["stage"]) for one in outcome.json["failed"]] == [("a.md", "read")]
    assert "Permission denied" in outcome.json["failed"][0]["reason"]
    assert platform.ingest()["failed"] == []
    assert len(platform.rows()) == 2


def test_everything_is_set_aside_when_the_only_document_is_bad(platform: Platform):
    platform.write("a.txt", b"\x89PNG\r\n\x1a\n" + bytes(100))
    outcome = platform.run("ingest", "--json")
    assert (outcome.status, len(outcome.json["failed"])) == (2, 1)
    again = platform.run("ingest", "--json")
    assert (again.status, again.json["runs"]) == (2, [])


def test_an_empty_folder_is_no_error(platform: Platform):
    report = platform.ingest()
    assert (report["scanned"], report["runs"], report["withheld"]) == (0, [], None)


def test_a_dry_run_pays_and_changes_nothing(platform: Platform):
    platform.write("a.md", "One paragraph.\n\nAnother paragraph.\n\nOne paragraph.")
    report = platform.ingest("--dry-run")
    assert (report["added"], report["chunks"], report["texts_embedded"]) == (1, 3, 2)
    assert report["tokens"] > 0
    assert platform.embedded == 0
    assert platform.status()["documents"]["pending"] == 1


def test_remove_says_when_the_file_will_bring_the_document_back(platform: Platform):
    platform.write("a.md", "Some text.")
    platform.write("b.md", "Other text.")
    platform.ingest()
    outcome = platform.run("remove", "a.md")
    assert outcome.status == 0
    assert outcome.err.startswith("rag-assets: a.md is still in"), "nothing of Dagster's log is on the console"
    assert [row["document"] for row in platform.rows()] == ["b.md"]
    assert platform.partitions() == ["b.md"]
    assert platform.ingest()["texts_embedded"] == 0
    assert len(platform.rows()) == 2
