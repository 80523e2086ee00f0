"""Topics, found with the embedded model."""

import pytest

from rag_assets.chunking import semantic
from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document

BREAD = [
    "Knead the dough until it is smooth.",
    "Let the bread rise for two hours in a warm kitchen.",
    "Bake the loaf in a hot oven until the crust is brown.",
    "Fresh bread keeps for two days in a linen bag.",
]
STARS = [
    "The telescope points at a distant galaxy.",
    "A star of this mass ends as a white dwarf.",
    "Planets were found by the dimming of their star.",
    "The orbit of the comet takes seventy years.",
]
MONEY = [
    "The bank raised the interest rate on mortgages.",
    "Inflation fell, and the central bank kept its rate.",
    "Loans are dearer when interest rates rise.",
    "The treasury sold bonds to pay the debt.",
]


def cut(text, **keys):
    return chunk_document(Document("a.txt", "a", "text/plain", text), ChunkingSettings(strategy="semantic", **keys))


@pytest.fixture
def counted(monkeypatch):
    """The texts that were embedded."""
    embed, seen = semantic.embed_sentences, []

    def noting(texts):
        seen.extend(texts)
        return embed(texts)

    monkeypatch.setattr(semantic, "embed_sentences", noting)
    return seen


def test_a_chunk_ends_where_the_topic_changes(counted):
    topics = [" ".join(topic) for topic in (BREAD, STARS, MONEY)]
    assert [chunk.text for chunk in cut(" ".join(topics), max_tokens=64)] == topics
    assert counted == [*BREAD, *STARS, *MONEY]


def test_tiny_topics_share_a_chunk():
    text = " ".join([*BREAD, *STARS, *MONEY])
    (chunk,) = cut(text, max_tokens=1000)
    assert chunk.text == text


def test_a_lower_percentile_makes_fewer_breaks():
    text = " ".join(sentence for topic in zip(BREAD, STARS, MONEY, strict=True) for sentence in topic)
    few, many = (len(cut(text, max_tokens=40, break_percentile=percentile)) for percentile in (1, 50))
    assert few < many


def test_a_topic_over_the_limit_is_cut_between_sentences():
    chunks = cut(" ".join(BREAD * 6), max_tokens=40)
    assert all(chunk.text.endswith(".") and chunk.tokens <= 40 for chunk in chunks)


def test_an_edit_far_away_moves_no_break():
    before = [f"{sentence[:-1]} {number}." for number in range(4) for sentence in (*BREAD, *STARS, *MONEY)]
    after = ["A word about the weather of the day.", *before]
    kept = {chunk.text for chunk in cut(" ".join(before), max_tokens=64)} & {
        chunk.text for chunk in cut(" ".join(after), max_tokens=64)
    }
    assert " ".join(before[-4:]) in kept
    assert len(kept) >= 9


def test_a_heading_begins_a_topic():
    text = "# Bread\n\n" + " ".join(BREAD) + "\n\n# More bread\n\n" + " ".join(BREAD)
    chunking = ChunkingSettings(strategy="semantic", max_tokens=64)
    chunks = chunk_document(Document("a.md", "a", "text/markdown", text), chunking)
    assert {chunk.heading_path for chunk in chunks} == {("Bread",), ("More bread",)}
    assert sum(chunk.text.startswith("# More bread") for chunk in chunks) == 1
