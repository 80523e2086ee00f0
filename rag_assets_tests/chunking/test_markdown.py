"""Chunks follow the headings of a document."""

from itertools import pairwise

import pytest

from rag_assets.chunking.chunks import chunk_document
from rag_assets.config import ChunkingSettings
from rag_assets.records import Document

SENTENCE = "Seven plain words make up this sentence. "  # 8 tokens
LONG = (SENTENCE * 8).strip()  # 64 tokens: more than a quarter of 180, so not tiny


def cut(text, *, max_tokens=180, overlap_tokens=0):
    chunking = ChunkingSettings(max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    return chunk_document(Document("a.md", "a", "text/markdown", text), chunking)


def paths(text, **limits):
    return [chunk.heading_path for chunk in cut(text, **limits)]


def texts(text, **limits):
    return [chunk.text for chunk in cut(text, **limits)]


def test_each_section_is_a_chunk_with_the_headings_above_it():
    headings = ["# One", "## Two", "### Three", "## Four", "Five\n==="]
    text = "\n\n".join([LONG, *(f"{heading}\n\n{LONG}" for heading in headings)])
    assert paths(text) == [(), ("One",), ("One", "Two"), ("One", "Two", "Three"), ("One", "Four"), ("Five",)]
    assert texts(text)[1] == f"# One\n\n{LONG}"


def test_a_level_may_be_skipped():
    assert paths(f"# A\n\n### C\n\n{LONG}\n\n## B\n\n{LONG}\n") == [("A", "C"), ("A", "B")]


@pytest.mark.parametrize(
    "hidden",
    [
        "```\n# no\n```",
        "~~~\n# no\n~~~",
        "````\n```\n# no\n```\n# no\n````",
        "```\n# no\n``` no end\n# no\n```",
        "    # no",
        "<!--\n# no\n-->",
    ],
)
def test_the_path_of_later_text_is_right(hidden):
    """Case 13."""
    text = f"# Guide\n\n{LONG}\n\n{hidden}\n\n## Install\n\n{LONG}\n"
    assert paths(text) == [("Guide",), ("Guide", "Install")]


def test_an_unclosed_fence_runs_to_the_end():
    """Case 13."""
    assert paths(f"# Guide\n\n{LONG}\n\n```\n# no\n\n# no\n") == [("Guide",)]


def test_bare_headings_go_with_the_section_below():
    assert texts(f"# A\n\n## B\n\n### C\n\n{LONG}\n") == [f"# A\n\n## B\n\n### C\n\n{LONG}"]
    assert paths(f"# A\n\n## B\n\n### C\n\n{LONG}\n") == [("A", "B", "C")]
    assert texts(f"## Empty\n\n---\n\n## B\n\n{LONG}") == [f"## Empty\n\n---\n\n## B\n\n{LONG}"]


def test_a_bare_heading_at_the_end_goes_with_the_section_above():
    assert texts(f"# A\n\n{LONG}\n\n## Last\n") == [f"# A\n\n{LONG}\n\n## Last"]
    assert paths(f"# A\n\n{LONG}\n\n## Last\n") == [("A",)]


def test_a_document_of_headings_is_one_chunk():
    assert texts("# A\n## B\n## C\n") == ["# A\n## B\n## C"]
    assert paths("# A\n## B\n## C\n") == [("A",)]
    assert paths("# A\n") == [("A",)]


def test_tiny_neighbours_share_a_chunk_and_the_path_they_have_in_common():
    text = f"# R\n\n{LONG}\n\n## Fixes\n\nOne.\n\n## Docs\n\nTwo.\n\n# S\n\n{LONG}\n"
    assert texts(text)[1] == "## Fixes\n\nOne.\n\n## Docs\n\nTwo."
    assert paths(text) == [("R",), ("R",), ("S",)]


def test_tiny_sections_do_not_reach_up_to_a_higher_level():
    text = "# 1.1\n\n## Fixes\n\nOne.\n\n# 1.0\n\n## Fixes\n\nTwo.\n"
    assert texts(text) == ["# 1.1\n\n## Fixes\n\nOne.", "# 1.0\n\n## Fixes\n\nTwo."]
    assert paths(text) == [("1.1", "Fixes"), ("1.0", "Fixes")]


def test_fences_lists_and_tables_stay_whole_where_they_fit():
    code = "```python\n" + "call(argument)\n\n" * 20 + "```"
    items = "\n".join(f"- item number {number} has words" for number in range(14))
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {number} | value |" for number in range(14))
    text = "\n\n".join(["# Title", LONG, code, LONG, items, LONG, table])
    chunks = texts(text)
    for block in (code, items, table):
        assert sum(block in chunk for chunk in chunks) == 1


def test_a_heading_stays_with_the_first_lines_of_a_block_that_does_not_fit_beside_it():
    code = "```\n" + "\n".join(f"line = {number}" for number in range(100, 131)) + "\n```"
    first, *others = texts(f"## A heading of several words\n\n{code}\n", max_tokens=160)
    assert first.startswith("## A heading of several words\n\n```\nline = 100\n")
    assert others
    assert others[-1].endswith("line = 130\n```")


def test_an_introduction_stays_with_what_it_introduces():
    paragraphs = [f"{LONG} Paragraph {number}." for number in range(4)]
    for position in range(4):
        told = [*paragraphs[:position], "It looks like this:", "- one\n- two", *paragraphs[position:]]
        assert sum("It looks like this:\n\n- one\n- two" in chunk for chunk in texts("\n\n".join(told))) == 1


def test_a_long_paragraph_is_cut_between_sentences():
    sentences = [f"Sentence number {number} has a few words in it." for number in range(60)]
    for chunk in texts(" ".join(sentences)):
        assert chunk.startswith("Sentence number")
        assert chunk.endswith("in it.")


def test_chinese_sentences_are_cut_at_their_full_stops():
    chunks = texts("这是一个中文句子，用于测试。" * 60)
    assert len(chunks) > 3
    assert all(chunk.startswith("这是") and chunk.endswith("测试。") for chunk in chunks)


def test_parts_of_a_section_overlap_and_sections_do_not():
    one, two = (" ".join(f"{name} sentence {number} ends." for number in range(60)) for name in ("First", "Other"))
    chunks = cut(f"# A\n\n{one}\n\n# B\n\n{two}\n", overlap_tokens=20)
    overlaps: dict[bool, list[int]] = {}
    for before, after in pairwise(chunks):
        overlaps.setdefault(before.heading_path == after.heading_path, []).append(before.end_char - after.start_char)
    assert max(overlaps[False]) < 0
    assert min(overlaps[True]) > 0
    assert all(chunk.text.startswith(("# ", "First sentence", "Other sentence")) for chunk in chunks)
