"""Sentences packed up to the limit."""

from itertools import pairwise

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document

PROSE = " ".join(f"Sentence number {number} ends here." for number in range(60))


def cut(text, *, mime="text/plain", max_tokens=40, overlap_tokens=0):
    chunking = ChunkingSettings(strategy="sentence", max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    return chunk_document(Document("a.txt", "a", mime, text), chunking)


def test_sentences_stay_whole():
    chunks = cut(PROSE)
    assert len(chunks) > 8
    assert all(chunk.text.startswith("Sentence") and chunk.text.endswith("here.") for chunk in chunks)


def test_the_last_sentences_are_repeated():
    for before, after in pairwise(cut(PROSE, max_tokens=60, overlap_tokens=14)):
        assert PROSE[after.start_char : before.end_char].count("here.") == 2
        assert after.text.startswith("Sentence")


def test_a_chunk_ends_with_a_paragraph_if_one_ends_in_reach():
    paragraphs = [" ".join(f"Line {row} of {number}." for row in range(5)) for number in range(20)]
    text = "\n\n".join(paragraphs)
    assert all(chunk.text.endswith("Line 4 of " + chunk.text.rsplit(" ", 1)[1]) for chunk in cut(text, max_tokens=80))


@pytest.mark.parametrize(
    "whole",
    [
        "Dr. Keller came at noon and stayed",
        "It was made by J. R. Tolkien and friends",
        "Some fruit, e.g. apples and pears and plums",
        '"Stop!" she said and closed the door',
    ],
)
def test_abbreviations_initials_and_quotes_do_not_end_a_sentence(whole):
    chunks = cut(f"{whole} again. " * 12, max_tokens=24)
    assert len(chunks) > 3
    assert all(chunk.text.startswith(whole) for chunk in chunks)


def test_lines_without_sentences_stay_whole():
    rows = "\n".join(f"{number},name {number},{number * 7}" for number in range(100))
    assert all(line.count(",") == 2 for chunk in cut(rows) for line in chunk.text.splitlines())


def test_a_hash_in_plain_text_is_no_heading_and_one_in_markdown_is():
    text = "# Title\n\nOne sentence here.\n"
    assert [chunk.heading_path for chunk in cut(text)] == [()]
    assert [chunk.heading_path for chunk in cut(text, mime="text/markdown")] == [("Title",)]
