"""Windows of the text, whatever it is made of."""

from itertools import pairwise

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document
from rag_assets.tokenizing import count_tokens

COUNTING = " ".join(f"w{number}" for number in range(2_000))


def cut(text, *, max_tokens=60, overlap_tokens=10):
    chunking = ChunkingSettings(strategy="fixed_size", max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    return chunk_document(Document("a.txt", "a", "text/plain", text), chunking)


def test_words_stay_whole():
    words = set(COUNTING.split())
    assert all(set(chunk.text.split()) <= words for chunk in cut(COUNTING))


@pytest.mark.parametrize("overlap_tokens", [0, 10, 30])
def test_windows_overlap_by_as_many_tokens_as_words_allow(overlap_tokens):
    for before, after in pairwise(cut(COUNTING, overlap_tokens=overlap_tokens)):
        shared = count_tokens(COUNTING[after.start_char : before.end_char], "cl100k_base")
        assert overlap_tokens - 4 <= shared <= overlap_tokens


def test_text_without_words_is_cut_between_characters():
    chunks = cut("0123456789" * 400)
    assert "".join(chunk.text for chunk in cut("0123456789" * 400, overlap_tokens=0)) == "0123456789" * 400
    assert all(0 < before.end_char - after.start_char <= 30 for before, after in pairwise(chunks))


def test_families_and_flags_stay_whole():
    for chunk in cut("👩‍👩‍👧" * 200):
        assert chunk.text.replace("👩‍👩‍👧", "") == ""
    for chunk in cut("🇩🇪" * 400):
        assert chunk.text.replace("🇩🇪", "") == ""


def test_headings_mean_nothing():
    assert {chunk.heading_path for chunk in cut("# A\n\ntext\n\n" * 100)} == {()}
