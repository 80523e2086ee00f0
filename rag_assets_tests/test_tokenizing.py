"""Tokens are counted without a network, in texts of any kind and size."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.errors import RagAssetsError
from rag_assets.tokenizing import MAX_CHARACTERS_PER_CALL, count_tokens, token_ends

CL100K_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
O200K_FILE = "fb374d419588a4632f3f557e76b4b70aebbca790"

# Runs in a fresh interpreter, where nothing is loaded yet and where a connection is a failure.
ISOLATED = """
import os, socket, sys
def refuse(*_): raise AssertionError("no network here")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
from rag_assets.tokenizing import count_tokens
assert "tiktoken" not in sys.modules, "imported too early"
before = dict(os.environ)
print(count_tokens("Hello world, <|endoftext|>", {tokenizer!r}))
assert dict(os.environ) == before, "the environment leaked"
"""


def run_isolated(tokenizer, **environment):
    clean = {name: value for name, value in os.environ.items() if name not in ("TIKTOKEN_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.Popen(
        [sys.executable, "-c", ISOLATED.format(tokenizer=tokenizer)],
        env={**clean, **{name: str(value) for name, value in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def answer(process):
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return int(output)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("Zürich", 3),
        ("<|endoftext|>", 7),
        ("👩‍👩‍👧", 13),
    ],
)
def test_tokens_are_those_of_tiktoken(text, tokens):
    assert count_tokens(text, "cl100k_base") == tokens


def test_special_tokens_are_ordinary_text():
    """Case 15."""
    assert count_tokens("<|endoftext|> and <|im_start|>", "cl100k_base") == 13
    assert count_tokens("<|endoftext|>", "o200k_base") == 7


def test_an_unknown_tokenizer_names_the_known_ones():
    with pytest.raises(RagAssetsError, match="'gpt2'; there are: cl100k_base, o200k_base"):
        count_tokens("x", "gpt2")


def test_a_million_blanks_are_counted():
    """tiktoken 0.14 ends such a call in a Rust panic, which no `except Exception` sees."""
    assert 7_812 <= count_tokens("x" + " " * 1_000_000 + "y", "cl100k_base") <= 7_820


def test_a_lone_surrogate_counts_as_one_replacement_character():
    assert count_tokens("a\ud800b", "cl100k_base") == count_tokens("a\ufffdb", "cl100k_base")
    assert list(token_ends("a\ud800b", "cl100k_base")) == list(token_ends("a\ufffdb", "cl100k_base"))


def test_token_ends_count_code_points_and_round_up_inside_a_character():
    assert list(token_ends("Zürich am See", "cl100k_base")) == [1, 3, 6, 9, 13]
    assert list(token_ends("a👧b", "cl100k_base")) == [1, 2, 2, 2, 3]
    assert list(token_ends("", "cl100k_base")) == []


def test_a_text_of_many_lines_is_cut_where_its_tokens_end_anyway():
    line = "twelve words stand here, so that lines end at odd places, naïvely.\n"
    repeats = 2 * MAX_CHARACTERS_PER_CALL // len(line) + 7
    assert count_tokens(line * repeats, "cl100k_base") == repeats * count_tokens(line, "cl100k_base")
    ends = token_ends(line * repeats, "cl100k_base")
    assert ends[-1] == repeats * len(line)
    assert len(ends) == repeats * count_tokens(line, "cl100k_base")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_there_is_one_end_for_each_token_and_the_last_is_the_end_of_the_text(text):
    ends = list(token_ends(text, "cl100k_base"))
    assert len(ends) == count_tokens(text, "cl100k_base")
    assert ends == sorted(ends)
    assert not text or ends[-1] == len(text)


def test_the_vocabulary_is_unpacked_into_our_cache_and_the_environment_left_as_it_was(tmp_path):
    assert answer(run_isolated("cl100k_base", XDG_CACHE_HOME=tmp_path)) == 9
    assert [file.name for file in (tmp_path / "rag_assets" / "tokenizers").iterdir()] == [CL100K_FILE]


def test_two_processes_may_unpack_at_once(tmp_path):
    processes = [run_isolated("o200k_base", XDG_CACHE_HOME=tmp_path) for _ in range(2)]
    assert [answer(process) for process in processes] == [10, 10]
    assert [file.name for file in (tmp_path / "rag_assets" / "tokenizers").iterdir()] == [O200K_FILE]


def test_the_users_own_tiktoken_folder_is_used_where_it_holds_the_file(tmp_path):
    answer(run_isolated("cl100k_base", XDG_CACHE_HOME=tmp_path / "ours"))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "ours" / "rag_assets" / "tokenizers" / CL100K_FILE).rename(theirs / CL100K_FILE)
    assert answer(run_isolated("cl100k_base", XDG_CACHE_HOME=tmp_path / "ours", TIKTOKEN_CACHE_DIR=theirs)) == 9
    assert list((tmp_path / "ours").rglob(CL100K_FILE)) == []


def test_a_torn_file_in_the_cache_is_replaced(tmp_path):
    file = tmp_path / "rag_assets" / "tokenizers" / CL100K_FILE
    file.parent.mkdir(parents=True)
    file.write_bytes(b"half")
    assert answer(run_isolated("cl100k_base", XDG_CACHE_HOME=tmp_path)) == 9
    assert file.stat().st_size == 1_681_126


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be", encoding="utf-8")
    assert answer(run_isolated("cl100k_base", XDG_CACHE_HOME=blocked, TIKTOKEN_CACHE_DIR="")) == 9
    assert stat.S_ISREG(Path(blocked).stat().st_mode)
