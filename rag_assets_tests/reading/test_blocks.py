"""Case 13: only headings are headings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.reading.blocks import read_outline


def headings(text):
    return [(block.level, block.title) for block in read_outline(text).blocks if block.kind == "heading"]


def kinds(text):
    return [(block.kind, text[block.start : block.end]) for block in read_outline(text).blocks]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no\n```\n",
        "~~~\n# no\n~~~\n",
        "````\n```\n# no\n```\n# no\n````\n",
        "```python\n# no\n``\n# no\n~~~\n# no\n```\n",
        "```\n# no\n``` info after a closing fence does not close it\n# no\n```\n",
        "   ```\n# no\n   ```\n",
        "    # no\n",
        "\t# no\n",
        "<!--\n# no\n\n# no\n-->\n",
        "- item\n\n  # no\n",
        "1. item\n\n    ```\n    # no\n    ```\n",
        "> # no\n",
        "#no\n",
        "\\# no\n",
        "####### no\n",
        "```\n# no\n\n# no, the fence runs to the end\n",
    ],
)
def test_a_number_sign_elsewhere_is_no_heading(text):
    assert headings(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n## Two ##\n### Three", [(1, "One"), (2, "Two"), (3, "Three")]),
        ("One\n===\n\nTwo\nlines\n---\n", [(1, "One"), (2, "Two lines")]),
        ("```\n# no\n```\n# Yes\n", [(1, "Yes")]),
        ("# The `code`, **bold** and [a link](x.md) { #the-code }\n", [(1, "The code, bold and a link")]),
        ("# A \\* and &amp; <b>tag</b>\n", [(1, "A * and & tag")]),
        ("#\n", [(1, "")]),
        ("Text\n\n---\n\nText\n", []),
    ],
)
def test_headings_have_their_level_and_plain_text(text, expected):
    assert headings(text) == expected


def test_blocks_are_whole_lines_and_lists_know_their_items():
    text = "Para\nmore\n\n* a\n\n  b\n* c\n\n| x |\n|---|\n| y |\n\n```\ncode\n```\n[ref]: http://localhost\n"
    assert kinds(text) == [
        ("paragraph", "Para\nmore\n"),
        ("list", "* a\n\n  b\n* c\n\n"),
        ("other", "| x |\n|---|\n| y |\n"),
        ("fence", "```\ncode\n```\n"),
        ("other", "[ref]: http://localhost\n"),
    ]
    (items,) = [block.items for block in read_outline(text).blocks if block.kind == "list"]
    assert [text[item : item + 3] for item in items] == ["* a", "* c"]


def test_fences_are_found_inside_lists():
    text = "1. item\n\n    ```\n    code\n\n    more\n    ```\n"
    assert [text[start:end] for start, end in read_outline(text).fences] == ["    ```\n    code\n\n    more\n    ```\n"]


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab#`~-=*>|<! \t\n[]:1.", max_size=120))
def test_blocks_are_in_order_and_cover_all_that_is_not_blank(text):
    position = 0
    for block in read_outline(text).blocks:
        assert position <= block.start < block.end <= len(text)
        assert not text[position : block.start].strip()
        position = block.end
    assert not text[position:].strip()
