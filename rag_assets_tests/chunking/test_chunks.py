"""What holds for the chunks of every strategy."""

import base64
import hashlib
import inspect
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import get_args

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

import rag_assets
from rag_assets.chunking import chunks
from rag_assets.chunking.chunks import STRATEGIES, chunk_document, chunking_identity
from rag_assets.config import ChunkingSettings
from rag_assets.embedding.hashing import hashed_bags
from rag_assets.reading.documents import read_document
from rag_assets.records import Document
from rag_assets.tokenizing import count_tokens

every_strategy = pytest.mark.parametrize("strategy", list(STRATEGIES))

MARKDOWN = [
    *("# Title\n", "## Part ##\n", "### Deep\n", "Setext\n===\n", "Other\n---\n", "\n", "\n\n", "   \n", "---\n"),
    *("```\n", "````\n", "~~~\n", "```python\n# no heading\n", "    # indented\n", "- item one\n", "  more\n"),
    *("1. first\n", "| a | b |\n|---|---|\n| c | d |\n", "> quoted\n", "Ends here: \n", "[ref]: http://a\n"),
]
PROSE = [
    *("A sentence stands here. Another one follows! And more?\n", "Dr. A. B. Smith, e.g. here. ", "word ", "\n\n"),
    *(
        "unbroken" * 9,
        "漢字仮名。交じり文" * 4,
        "🇩🇪🇫🇷🇨🇭",
        "👩‍👩‍👧",
        "e\u0301",
        " \u0301",
        "\u0600 ",
        "\u200d",
        "각",
        "नि",
    ),
    *("\t", "\x85", "\u2028", "!" * 9),
]
CODE = [
    *("def f(x):\n    return x\n\n", "class A:\n    x = 1\n\n    def g(self):\n        pass\n", "@wraps\n", "# note\n"),
    *("function f(a) {\n  return a;\n}\n", "export const f = () => {\n  g();\n};\n", "/** doc */\n", "// note\n"),
    *("namespace n {\n", "int f(int a) {\n  return a;\n}\n", "#ifdef X\n", "#endif\n", "};\n", "}\n", "{", "("),
    *("CREATE TABLE a (b int);\n", "SELECT 'x;y' FROM a;\n", "BEGIN\n", "END;\n", "$$", "-- note\n", "/*", "'", '"""'),
]
DATA = [
    *(
        "key: value\n",
        "other:\n  deep: 1\n  list:\n  - a\n  - b: c\n",
        "- item\n",
        "---\n",
        "text: |\n  a: b\n",
        "# note\n",
    ),
    *('{"a": ', "[1, 2, ", '"b"', ": ", "}", "]", ",\n", "\\", '"', "a,b,c\n1,2,3\n", "\t"),
]
MIMES = ["text/markdown", "text/plain", "text/x-python", "text/x-typescript", "text/x-cpp", "text/x-ruby", "text/x-sql"]
MIMES += ["text/x-kotlin", "application/yaml", "application/json"]
FRAGMENTS = st.lists(st.sampled_from([*MARKDOWN, *PROSE, *CODE, *DATA]), max_size=40).map("".join)
TEXTS = FRAGMENTS | st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\0\ufeff"), max_size=80)


@pytest.fixture(scope="module", autouse=True)
def _sentences_are_bags_of_words():
    """The embedded model is slow for texts of this size, and the laws are not about meaning."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag_assets.chunking.semantic.embed_sentences", lambda texts: hashed_bags(texts, 64))
        yield


def document(text, *, mime="text/markdown", first_line=1):
    return Document(document="a.md", title="a", mime=mime, text=text, first_line=first_line)


def cut(text, strategy="markdown", *, mime="text/markdown", **limits):
    return chunk_document(document(text, mime=mime), ChunkingSettings(strategy=strategy, **limits))


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
    assert (chunk.ordinal, chunk.tokens, chunk.heading_path) == (0, 8, ())
    assert (chunk.parent_chunk_id is None) == (strategy != "parent_child")
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
    mime=st.sampled_from(MIMES),
    limits=st.sampled_from([(8, 0), (8, 4), (20, 5), (60, 0), (60, 30), (180, 20)]),
    unit=st.sampled_from(["tokens", "tokens", "characters"]),
    repeats=st.integers(1, 3),
)
def test_chunks_cover_the_text_and_keep_the_limits(strategy, text, mime, limits, unit, repeats):
    text *= repeats
    max_tokens, overlap_tokens = limits
    keys = {"mime": mime, "unit": unit, "max_tokens": max_tokens, "overlap_tokens": overlap_tokens}
    chunks = cut(text, strategy, **keys)
    assert cut(text, strategy, **keys) == chunks
    breaks = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    covered = 0
    for chunk in chunks:
        assert chunk.text == text[chunk.start_char : chunk.end_char]
        assert chunk.text.strip()
        assert not text[covered : max(covered, chunk.start_char)].strip(), "a gap with text"
        assert chunk.end_char > covered, "nothing new"
        assert {chunk.start_char, chunk.end_char} <= breaks, "a grapheme cluster is cut"
        assert chunk.tokens == count_tokens(chunk.text, "cl100k_base")
        size = chunk.tokens if unit == "tokens" else len(chunk.text)
        assert size <= max_tokens or len(regex.findall(r"\X", chunk.text)) == 1
        assert chunk.start_line == 1 + text.count("\n", 0, chunk.start_char)
        assert chunk.end_line == 1 + text.count("\n", 0, chunk.end_char - 1)
        covered = chunk.end_char
    assert not text[covered:].strip()
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    assert all(before.start_char < after.start_char for before, after in pairwise(chunks))
    for before, after in pairwise(chunks):
        repeated = text[after.start_char : before.end_char]
        size = count_tokens(repeated, "cl100k_base") if unit == "tokens" else len(repeated)
        assert size <= overlap_tokens, "more is repeated than was asked for"


@settings(max_examples=100, deadline=None)
@given(text=TEXTS, mime=st.sampled_from(MIMES), limits=st.sampled_from([(20, 8), (60, 20), (180, 60)]))
def test_children_lie_in_their_parents_and_siblings_share_the_id(text, mime, limits):
    max_tokens, child_tokens = limits
    chunks = cut(text, "parent_child", mime=mime, max_tokens=max_tokens, child_tokens=child_tokens)
    ids: dict[tuple[int, int], str] = {}
    for chunk in chunks:
        parent = chunk.parent
        assert parent.start_char <= chunk.start_char < chunk.end_char <= parent.end_char
        assert parent.text == text[parent.start_char : parent.end_char]
        assert count_tokens(parent.text, "cl100k_base") <= max_tokens or len(regex.findall(r"\X", parent.text)) == 1
        assert chunk.tokens <= child_tokens or len(regex.findall(r"\X", chunk.text)) == 1
        assert ids.setdefault((parent.start_char, parent.end_char), chunk.parent_chunk_id) == chunk.parent_chunk_id
    assert all(before[1] <= after[0] for before, after in pairwise(ids))


@every_strategy
@settings(max_examples=30, deadline=None)
@given(text=FRAGMENTS, mime=st.sampled_from(MIMES))
def test_crlf_and_lf_make_the_same_chunks(strategy, text, mime):
    """Case 14."""
    chunking = ChunkingSettings(strategy=strategy, max_tokens=20, overlap_tokens=5)
    unix, windows = (
        replace(read_document("a.txt", text.replace("\n", end).encode()), mime=mime) for end in ("\n", "\r\n")
    )
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


def function(dice):
    name, *words = (dice.choice(WORDS) for _ in range(dice.randint(8, 30)))
    return f"def {name}(value):\n" + "".join(f"    value = {word}(value)\n" for word in words)


def mapping(dice):
    keys = [dice.choice(WORDS) for _ in range(dice.randint(5, 20))]
    return f"{keys[0]}:\n" + "".join(f"  {key}: {dice.choice(WORDS)}\n" for key in keys)


PARTS = {"code_function": ("text/x-python", function), "yaml_block": ("application/yaml", mapping)}


def new_texts(seed, strategy):
    """How many texts are new after a part is inserted somewhere between forty."""
    mime, part = PARTS.get(strategy, ("text/markdown", paragraph))
    dice = random.Random(seed)
    before = [part(dice) for _ in range(40)]
    position = dice.randrange(41)
    after = [*before[:position], part(dice), *before[position:]]
    known = {chunk.text_hash for chunk in cut("\n\n".join(before), strategy, mime=mime)}
    return sum(chunk.text_hash not in known for chunk in cut("\n\n".join(after), strategy, mime=mime))


@pytest.mark.parametrize(
    ("strategy", "usually", "at_most"),
    [
        ("auto", 2, 4),
        ("markdown", 2, 4),
        ("paragraph", 1, 1),
        ("sentence", 3, 8),
        ("semantic", 3, 8),
        ("code_function", 1, 2),
        ("yaml_block", 1, 4),
        ("parent_child", 4, 12),
        ("fixed_size", 3, 8),
    ],
)
def test_inserting_a_part_changes_few_chunks(strategy, usually, at_most):
    """Packing every chunk to the brim would change all that follow: about fourteen of twenty-eight."""
    counts = [new_texts(seed, strategy) for seed in range(25)]
    assert median(counts) <= usually
    assert max(counts) <= at_most


@every_strategy
def test_ids_survive_an_insertion_above(strategy):
    dice = random.Random(7)
    body = "\n\n".join(paragraph(dice) for _ in range(40))
    before, after = cut(body, strategy), cut(f"{paragraph(dice)}\n\n{body}", strategy)
    lost = {chunk.chunk_id for chunk in before} - {chunk.chunk_id for chunk in after}
    assert len(lost) <= 4


@pytest.mark.parametrize("strategy", ["auto", "markdown", "sentence", "fixed_size"])
def test_chunks_of_long_prose_are_at_least_seven_tenths_full(strategy):
    dice = random.Random(1)
    chunks = cut("\n\n".join(paragraph(dice) for _ in range(200)), strategy)
    assert mean(chunk.tokens for chunk in chunks) >= 0.7 * 180


LARGE = {
    "unbroken": ("x" * 300_000, 200),
    "base64": (base64.b64encode(random.Random(1).randbytes(90_000)).decode(), 400),
    "cjk": ("漢字仮名交じり文" * 5_000, 200),
    "flags": ("🇩🇪" * 5_000, 80),
    "blanks": ("x" + " " * 300_000 + "y", 2),
    "headings": ("# h\n" * 2_000, 20),
    "quotes": ("> " * 20_000, 50),
    "one line": ("word " * 30_000, 150),
    "sentences": ("One more is here. " * 8_000, 150),
    "short lines": ("x\n" * 15_000, 150),
    "brackets": ("[{(" * 15_000, 80),
    "marks": ("'\"/*`$" * 6_000, 100),
    "numbers": (",".join(map(str, range(15_000))), 150),
}


@every_strategy
@pytest.mark.parametrize("name", LARGE)
def test_large_and_odd_texts_are_cut_in_linear_time(strategy, name):
    """A quadratic step would run into the time-out of the suite: flags once took a minute."""
    text, at_least = LARGE[name]
    chunks = cut(text, strategy, mime={"code_function": "text/x-typescript"}.get(strategy, "text/markdown"))
    assert len(chunks) >= at_least
    assert max(chunk.tokens for chunk in chunks) <= 180


@every_strategy
def test_a_cluster_larger_than_the_limit_stays_whole(strategy):
    monster = "e" + "\u0301" * 500
    assert monster in [
        chunk.text for chunk in cut(f"before {monster} after", strategy, max_tokens=20, overlap_tokens=5)
    ]


def test_the_identity_names_all_that_changes_chunks():
    assert chunking_identity(ChunkingSettings(strategy="markdown")) == {
        "strategy": "markdown",
        "max_tokens": 180,
        "overlap_tokens": 20,
        "tokenizer": "cl100k_base",
        "version": "1.2",
    }


def test_the_identity_of_auto_names_the_versions_of_all_that_it_may_choose():
    markdown, sentence, code, data = (
        STRATEGIES[name].version for name in ("markdown", "sentence", "code_function", "yaml_block")
    )
    assert chunking_identity(ChunkingSettings())["version"] == f"1.1.{markdown}.{sentence}.{code}.{data}"


@pytest.mark.parametrize(
    ("strategy", "keys", "matters"),
    [
        ("semantic", {"break_percentile": 30}, True),
        ("parent_child", {"child_tokens": 30}, True),
        ("parent_child", {"child_tokens": 60}, False),
        ("code_function", {"overlap_tokens": 5}, False),
        ("auto", {"overlap_tokens": 5}, True),
        ("markdown", {"child_tokens": 30, "break_percentile": 30}, False),
        ("markdown", {"unit": "characters", "max_tokens": 180, "overlap_tokens": 20}, True),
    ],
)
def test_only_what_a_strategy_looks_at_changes_its_identity(strategy, keys, matters):
    plain, other = ChunkingSettings(strategy=strategy), ChunkingSettings(strategy=strategy, **keys)
    assert (chunking_identity(plain) != chunking_identity(other)) == matters


def test_a_rule_for_a_glob_is_part_of_the_identity():
    rules = [{"glob": "**/*.py", "strategy": "code_function", "max_tokens": 300}]
    settings = ChunkingSettings.model_validate({"by_glob": rules})
    version = STRATEGIES["code_function"].version
    assert chunking_identity(settings)["by_glob"] == [
        {
            "glob": "**/*.py",
            "strategy": "code_function",
            "max_tokens": 300,
            "tokenizer": "cl100k_base",
            "version": f"1.{version}",
        }
    ]


def test_an_overlap_that_a_strategy_ignores_changes_no_identity():
    narrow, wide = (ChunkingSettings(strategy="paragraph", overlap_tokens=tokens) for tokens in (0, 50))
    assert chunking_identity(narrow) == chunking_identity(wide)
    assert chunking_identity(narrow) != chunking_identity(ChunkingSettings(strategy="paragraph", max_tokens=100))


def test_the_settings_offer_every_strategy():
    assert list(get_args(ChunkingSettings.model_fields["strategy"].annotation)) == list(STRATEGIES)


def test_the_manual_shows_a_strategy_as_it_is():
    root = Path(rag_assets.__file__).parent
    manual = (root.parent / "docs" / "chunking.md").read_text(encoding="utf-8")
    assert (root / "chunking" / "fixed_size.py").read_text(encoding="utf-8") in manual
    line = next(line for line in inspect.getsource(chunks).splitlines() if '"fixed_size"' in line)
    assert line in manual
