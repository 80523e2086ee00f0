"""Situations that users of such systems report, and the right outcome: what happens to documents.

Each test is named as its promise and driven through the command line. "embedded" are texts that a counting provider was
sent; "rows" are what a fresh reader sees.
"""

import os
import unicodedata
from collections.abc import Callable

import pytest

from rag_assets_tests.platform import Platform


def paragraphs(*numbers: int) -> str:
    return "\n\n".join(f"Paragraph {number} tells the story of item{number} at some length." for number in numbers)


def test_a_document_that_shrinks_leaves_no_orphan(platform: Platform):
    platform.write("a.md", paragraphs(*range(10)))
    platform.ingest()
    assert len(platform.rows()) == 10
    before = platform.embedded

    platform.write("a.md", paragraphs(0, 1, 2))
    report = platform.ingest()

    assert (report["changed"], report["texts_embedded"], platform.embedded) == (1, 0, before + 0)
    assert len(platform.rows()) == 3
    assert platform.search("item7", "--mode", "text") == []


@pytest.mark.parametrize("content", ["", " \n\t\n  \n"])
def test_a_document_that_empties_out_is_no_failure(platform: Platform, content: str):
    platform.write("a.md", paragraphs(1, 2))
    platform.write("b.md", paragraphs(3))
    platform.ingest()
    requests = len(platform.fake.requests)  # type: ignore[union-attr]

    platform.write("a.md", content)
    report = platform.ingest()

    assert report["failed"] == []
    assert len(platform.fake.requests) == requests  # type: ignore[union-attr]
    assert {row["document"] for row in platform.rows()} == {"b.md"}
    status = platform.status()
    assert status["documents"] == {"indexed": 1, "empty": 1, "failed": 0, "pending": 0}


def test_a_paragraph_inserted_in_the_middle_embeds_only_itself(platform: Platform):
    platform.write("a.md", paragraphs(*range(20)))
    platform.ingest()
    ids = {row["text"]: row["chunk_id"] for row in platform.rows()}

    new = paragraphs(0, 1, 2, 3, 4, 99, *range(5, 20))
    platform.write("a.md", new)
    report = platform.ingest()

    assert report["texts_embedded"] == 1
    rows = platform.rows()
    assert [row["ordinal"] for row in rows] == list(range(21))
    assert all(new[row["start_char"] : row["end_char"]] == row["text"] for row in rows)
    assert [row["start_line"] for row in rows] == list(range(1, 43, 2))
    assert {row["text"]: row["chunk_id"] for row in rows if "99" not in row["text"]} == ids


def test_a_renamed_document_is_not_embedded_again(platform: Platform):
    path = platform.write("a.md", paragraphs(1, 2, 3))
    platform.ingest()
    before = platform.embedded

    (platform.corpus / "sub").mkdir()
    path.rename(platform.corpus / "sub" / "b.md")
    report = platform.ingest()

    assert (report["added"], report["removed"], report["texts_embedded"]) == (1, 1, 0)
    assert platform.embedded == before
    assert {row["document"] for row in platform.rows()} == {"sub/b.md"}
    assert platform.rows()[0]["source_uri"].endswith("/sub/b.md")
    assert platform.partitions() == ["sub/b.md"]


def test_a_rename_that_two_scans_see_is_not_embedded_again(platform: Platform):
    platform.write("keep.md", paragraphs(9))
    path = platform.write("a.md", paragraphs(1, 2, 3))
    platform.ingest()
    before = len(platform.rows())

    text = path.read_bytes()
    path.unlink()
    assert platform.ingest()["removed"] == 1
    platform.write("sub/b.md", text)
    report = platform.ingest()

    assert (report["added"], report["texts_embedded"], report["texts_reused"]) == (1, 0, 3)
    assert len(platform.rows()) == before
    assert sorted(platform.partitions()) == ["keep.md", "sub/b.md"]


def test_twins_are_paid_for_once_and_live_apart(platform: Platform):
    platform.write("x.md", paragraphs(1, 2))
    platform.ingest()
    platform.write("y.md", paragraphs(1, 2))
    assert platform.ingest()["texts_embedded"] == 0
    assert {row["document"] for row in platform.rows()} == {"x.md", "y.md"}

    (platform.corpus / "x.md").unlink()
    assert platform.ingest()["removed"] == 1

    assert [row["document"] for row in platform.rows()] == ["y.md", "y.md"]


ZURICH = "Zürich liegt am See."
ENCODINGS = {
    "utf8-bom": "\ufeff".encode() + ZURICH.encode(),
    "utf16-le": b"\xff\xfe" + ZURICH.encode("utf-16-le"),
    "utf16-be": b"\xfe\xff" + ZURICH.encode("utf-16-be"),
    "latin-1": ZURICH.encode("latin-1"),
}


def test_text_in_any_encoding_is_found_and_a_picture_is_set_aside(platform: Platform):
    for name, data in ENCODINGS.items():
        platform.write(f"{name}.txt", data)
    platform.write("quotes.txt", b"She said \x93never\x94 \x96 and left for Lugano.")
    picture = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256))
    platform.write("picture.txt", picture)

    report = platform.ingest()

    assert [(failed["document"], failed["stage"]) for failed in report["failed"]] == [("picture.txt", "read")]
    assert "PNG" in report["failed"][0]["reason"]
    texts = {row["document"]: row["text"] for row in platform.rows()}
    assert {texts[f"{name}.txt"] for name in ENCODINGS} == {ZURICH}
    assert texts["quotes.txt"] == "She said “never” – and left for Lugano."
    assert {row["document"] for row in platform.search("Zürich", "--mode", "text")} == {
        f"{name}.txt" for name in ENCODINGS
    }
    lossy = platform.store.documents("notes").read(["document", "lossy"]).to_pylist()
    assert {row["document"] for row in lossy if row["lossy"]} == {"latin-1.txt", "quotes.txt"}


def test_no_heading_comes_from_code_or_front_matter(platform_with: Callable[..., Platform]):
    platform = platform_with(chunking={"strategy": "markdown", "max_tokens": 40, "overlap_tokens": 0})
    platform.write(
        "a.md",
        "---\ntitle: Fences\n# a comment\n---\n\n# Real\n\n```\n# backticks\n```\n\n~~~\n# tildes\n~~~\n\n"
        "````\n```\n# four\n```\n````\n\n    # indented\n\n## Later\n\nThe last words are here.\n\n```\n# unclosed\n",
    )
    platform.ingest()

    paths = {tuple(row["heading_path"]) for row in platform.rows()}
    assert paths == {("Real",), ("Real", "Later")}
    last = platform.search("last words", "--mode", "text")[0]
    assert last["heading_path"] == ["Real", "Later"]


def test_line_ends_make_no_difference(platform_with: Callable[..., Platform]):
    platform = platform_with(chunking={"strategy": "markdown", "max_tokens": 40, "overlap_tokens": 0})
    text = "# One\n\nFirst words.\n\n## Two\n\nSecond words,\nover two lines.\n"
    path = platform.write("a.md", text)
    platform.ingest()
    before = [(row["chunk_id"], row["start_char"], row["end_char"], row["heading_path"]) for row in platform.rows()]

    path.write_bytes(text.replace("\n", "\r\n").encode())
    report = platform.ingest()

    assert (report["changed"], report["texts_embedded"]) == (1, 0)
    rows = platform.rows()
    assert [(r["chunk_id"], r["start_char"], r["end_char"], r["heading_path"]) for r in rows] == before
    indexed = platform.store.documents("notes").read(["text"])["text"].to_pylist()[0]
    assert all(indexed[row["start_char"] : row["end_char"]] == row["text"] for row in rows)


def test_special_tokens_are_ordinary_text(platform: Platform):
    platform.write("a.md", "The end is written <|endoftext|> by some.\n\nOthers begin with <|im_start|> instead.")
    assert platform.ingest()["failed"] == []
    assert "<|endoftext|>" in platform.rows()[0]["text"]
    assert len(platform.search("endoftext", "--mode", "text")) == 1


HOSTILE_NAMES = [
    "a/b.md",
    "a...b.md",
    "p|q,[r].md",
    "it's.md",
    "sp ace.md",
    "new\nline.md",
    "x" * 247 + ".md",
    unicodedata.normalize("NFC", "café.md"),
    unicodedata.normalize("NFD", "café.md"),
    "A.md",
    "a.md",
    "100%.md",
    'quo"te.md',
    "back\\slash.md",
    "hash#and?query.md",
]


@pytest.mark.skipif(os.name == "nt", reason="the names are legal on POSIX file systems only")
def test_a_hostile_name_is_one_partition_and_survives_update_and_removal(platform: Platform):
    for number, name in enumerate(HOSTILE_NAMES):
        platform.write(name, f"This is number{number}.")
    report = platform.ingest()
    assert (report["added"], report["failed"]) == (len(HOSTILE_NAMES), [])
    assert sorted(row["document"] for row in platform.rows()) == sorted(HOSTILE_NAMES)
    assert len(set(platform.partitions())) == len(HOSTILE_NAMES)

    for number, name in enumerate(HOSTILE_NAMES):
        platform.write(name, f"This was changed to changed{number}.")
    assert platform.ingest()["changed"] == len(HOSTILE_NAMES)
    found = {row["document"]: row["text"] for row in platform.rows()}
    assert found == {name: f"This was changed to changed{number}." for number, name in enumerate(HOSTILE_NAMES)}

    for name in HOSTILE_NAMES[:-1]:
        (platform.corpus / name).unlink()
    assert platform.ingest("--confirm-deletions")["removed"] == len(HOSTILE_NAMES) - 1
    assert [row["document"] for row in platform.rows()] == [HOSTILE_NAMES[-1]]
    assert len(platform.partitions()) == 1
    (platform.corpus / HOSTILE_NAMES[-1]).rename(platform.corpus / "plain.md")
    platform.ingest()
    assert platform.partitions() == ["plain.md"]


def test_a_vanished_root_deletes_nothing_until_it_is_confirmed(platform: Platform):
    for number in range(30):
        platform.write(f"{number}.md", f"Text of item{number}.")
    platform.ingest()

    (platform.corpus / "0.md").unlink()
    assert platform.ingest()["removed"] == 1
    assert len(platform.rows()) == 29

    moved = platform.corpus.rename(platform.root / "elsewhere")
    missing = platform.run("ingest")
    assert (missing.status, "does not exist" in missing.err) == (1, True)
    assert len(platform.rows()) == 29

    platform.corpus.mkdir()
    report = platform.ingest()
    assert (report["removed"], "no document" in report["withheld"]) == (0, True)
    assert len(platform.rows()) == 29

    assert platform.ingest("--confirm-deletions")["removed"] == 29
    assert platform.rows() == []
    assert platform.partitions() == []
    platform.corpus.rmdir()
    moved.rename(platform.corpus)
    report = platform.ingest()
    assert (report["added"], report["texts_embedded"]) == (29, 0)
