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
