"""What holds for the chunks of every strategy."""

import hashlib
import random
from itertools import pairwise
from statistics import mean, median

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.chunking.chunks import STRATEGIES, chunk_document, chunking_identity
from rag_assets.config import ChunkingSettings
from rag_assets.reading.documents import read_document
from rag_assets.records import Document
from rag_assets.tokenizing import count_tokens

every_strategy = pytest.mark.parametrize("strategy", list(STRATEGIES))

MARKDOWN = st.lists(
    st.sampled_from(
        [
            *(
                "# Title\n",
                "## Part ##\n",
                "### Deep\n",
                "Setext\n===\n",
                "Other\n---\n",
                "\n",
                "\n\n",
                "   \n",
                "---\n",
            ),
            *("```\n", "````\n", "~~~\n", "```python\n# no heading\n", "    # indented\n", "- item one\n", "  more\n"),
            *("1. first\n", "| a | b |\n|---|---|\n| c | d |\n", "> quoted\n", "Ends here: \n", "[ref]: http://a\n"),
            *(
                "A sentence stands here. Another one follows! And more?\n",
                "word ",
                "unbroken" * 9,
                "漢字仮名。交じり文" * 4,
            ),
            *(
                "🇩🇪🇫🇷🇨🇭",
                "👩‍👩‍👧",
                "e\u0301",
                " \u0301",
                "\u0600 ",
                "\u200d",
                "각",
                "नि",
                "\t",
                "\x85",
                "\u2028",
                "!" * 9,
            ),
        ]
    ),
    max_size=40,
).map("".join)
TEXTS = MARKDOWN | st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\0\ufeff"), max_size=80)


def document(text, *, first_line=1):
    return Document(document="a.md", title="a", mime="text/markdown", text=text, first_line=first_line)


def cut(text, strategy="markdown", *, max_tokens=180, overlap_tokens=20):
    chunking = ChunkingSettings(strategy=strategy, max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    return chunk_document(document(text), chunking)


@every_strategy
def test_blank_text_has_no_chunks(strategy):
    assert cut("", strategy) == []
    assert cut(" \n\t\n\u3000", strategy) == []


@every_strategy
def test_a_short_text_is_one_chunk_with_its_place_in_the_source(strategy):
    chunking = ChunkingSettings(strategy=strategy)
    (chunk,) = chunk_document(document("\n\n  Zürich liegt\nam See.\n\n", first_line=5), chunking)
    assert chunk.text == "Zürich liegt\nam See."
    assert (chunk.start_char, chunk.end_char) == (4, 24)
    assert (chunk.start_line, chunk.end_line) == (7, 8)
    assert (chunk.ordinal, chunk.tokens, chunk.heading_path, chunk.parent_chunk_id) == (0, 8, (), None)
    assert chunk.text_hash == hashlib.sha256("Zürich liegt\nam See.".encode()).hexdigest()


def test_an_id_is_made_of_document_text_and_occurrence():
    first, second, other = cut("same\n\nsame\n\nother", "paragraph")
    text_hash = hashlib.sha256(b"same").hexdigest()
    assert first.chunk_id == hashlib.sha256(f"a.md\0{text_hash}\0001".encode()).hexdigest()[:32]
    assert second.chunk_id == hashlib.sha256(f"a.md\0{text_hash}\0002".encode()).hexdigest()[:32]
    assert first.text_hash == second.text_hash != other.text_hash
    assert len(first.chunk_id) == 32


@every_strategy
@settings(max_examples=100, deadline=None)
@given(
    text=TEXTS,
    limits=st.sampled_from([(8, 0), (8, 4), (20, 5), (60, 0), (60, 30), (180, 20)]),
    repeats=st.integers(1, 3),
)
def test_chunks_cover_the_text_and_keep_the_limits(strategy, text, limits, repeats):
    text *= repeats
    max_tokens, overlap_tokens = limits
    chunks = cut(text, strategy, max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    assert cut(text, strategy, max_tokens=max_tokens, overlap_tokens=overlap_tokens) == chunks
    breaks = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    covered = 0
    for chunk in chunks:
        assert chunk.text == text[chunk.start_char : chunk.end_char]
        assert chunk.text.strip()
        assert not text[covered : max(covered, chunk.start_char)].strip(), "a gap with text"
        assert chunk.end_char > covered, "nothing new"
        assert {chunk.start_char, chunk.end_char} <= breaks, "a grapheme cluster is cut"
        assert chunk.tokens == count_tokens(chunk.text, "cl100k_base")
        assert chunk.tokens <= max_tokens or len(regex.findall(r"\X", chunk.text)) == 1
        assert chunk.start_line == 1 + text.count("\n", 0, chunk.start_char)
        assert chunk.end_line == 1 + text.count("\n", 0, chunk.end_char - 1)
        covered = chunk.end_char
    assert not text[covered:].strip()
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    assert all(before.start_char < after.start_char for before, after in pairwise(chunks))


@every_strategy
@settings(max_examples=30, deadline=None)
@given(text=MARKDOWN)
def test_crlf_and_lf_make_the_same_chunks(strategy, text):
    """Case 14."""
    chunking = ChunkingSettings(strategy=strategy, max_tokens=20, overlap_tokens=5)
    unix, windows = (read_document("a.md", text.replace("\n", end).encode()) for end in ("\n", "\r\n"))
    assert chunk_document(unix, chunking) == chunk_document(windows, chunking)


@every_strategy
def test_special_tokens_are_ordinary_text(strategy):
    """Case 15."""
    (chunk,) = cut("Say <|endoftext|> or <|im_start|>.", strategy)
    assert chunk.text == "Say <|endoftext|> or <|im_start|>."


WORDS = [
    "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz", k=2 + seed % 8)) for seed in range(2000)
]  # fixed pseudo-words, so that the figures below do not depend on the machine


def paragraph(dice, *, words=(10, 40)):
    return " ".join(dice.choice(WORDS) for _ in range(dice.randint(*words))) + "."


def new_texts(seed, strategy):
    dice = random.Random(seed)
    before = [paragraph(dice) for _ in range(40)]
    position = dice.randrange(41)
    after = [*before[:position], paragraph(dice), *before[position:]]
    known = {chunk.text_hash for chunk in cut("\n\n".join(before), strategy)}
    return sum(chunk.text_hash not in known for chunk in cut("\n\n".join(after), strategy))


@pytest.mark.parametrize(
    ("strategy", "usually", "at_most"), [("markdown", 2, 4), ("paragraph", 1, 1), ("fixed_size", 3, 8)]
)
def test_inserting_a_paragraph_changes_few_chunks(strategy, usually, at_most):
    """Packing every chunk to the brim would change all that follow: about fourteen of twenty-eight."""
    counts = [new_texts(seed, strategy) for seed in range(40)]
    assert median(counts) <= usually
    assert max(counts) <= at_most


@pytest.mark.parametrize("strategy", ["markdown", "fixed_size"])
def test_ids_survive_an_insertion_above(strategy):
    dice = random.Random(7)
    body = "\n\n".join(paragraph(dice) for _ in range(40))
    before, after = cut(body, strategy), cut(f"{paragraph(dice)}\n\n{body}", strategy)
    kept = {chunk.chunk_id for chunk in before} & {chunk.chunk_id for chunk in after}
    assert len(kept) >= len(before) - 4


@pytest.mark.parametrize("strategy", ["markdown", "fixed_size"])
def test_chunks_of_long_prose_are_at_least_seven_tenths_full(strategy):
    dice = random.Random(1)
    chunks = cut("\n\n".join(paragraph(dice) for _ in range(200)), strategy)
    assert mean(chunk.tokens for chunk in chunks) >= 0.7 * 180


@every_strategy
@pytest.mark.parametrize(
    ("text", "at_least"),
    [
        ("x" * 500_000, 300),
        ("漢字仮名交じり文" * 5_000, 200),
        ("🇩🇪" * 5_000, 80),
        ("x" + " " * 300_000 + "y", 2),
        ("# h\n" * 3_000, 30),
        ("> " * 20_000, 50),
        ("word " * 40_000, 200),
        ("x\n" * 20_000, 200),
    ],
    ids=["unbroken", "cjk", "flags", "blanks", "headings", "quotes", "one line", "short lines"],
)
def test_large_and_odd_texts_are_cut_in_linear_time(strategy, text, at_least):
    """A quadratic step would run into the time-out of the suite: flags once took a minute."""
    chunks = cut(text, strategy)
    assert len(chunks) >= at_least
    assert max(chunk.tokens for chunk in chunks) <= 180


@every_strategy
def test_a_cluster_larger_than_the_limit_stays_whole(strategy):
    monster = "e" + "\u0301" * 500
    assert monster in [
        chunk.text for chunk in cut(f"before {monster} after", strategy, max_tokens=20, overlap_tokens=5)
    ]


def test_the_identity_names_all_that_changes_chunks():
    assert chunking_identity(ChunkingSettings()) == {
        "strategy": "markdown",
        "max_tokens": 180,
        "overlap_tokens": 20,
        "tokenizer": "cl100k_base",
        "version": "1.1",
    }


def test_an_overlap_that_a_strategy_ignores_changes_no_identity():
    narrow, wide = (ChunkingSettings(strategy="paragraph", overlap_tokens=tokens) for tokens in (0, 50))
    assert chunking_identity(narrow) == chunking_identity(wide)
    assert chunking_identity(narrow) != chunking_identity(ChunkingSettings(strategy="paragraph", max_tokens=100))
