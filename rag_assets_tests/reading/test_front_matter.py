"""Front matter is metadata; what is no front matter stays text."""

import json

import pytest

from rag_assets.reading.front_matter import FrontMatter, split_front_matter


def test_a_mapping_is_taken_off_and_the_rest_knows_its_line():
    matter = split_front_matter("---\ntitle: Hi\ntags: [a, b]\n---\n\nText\n")
    assert matter == FrontMatter("\nText\n", 5, {"title": "Hi", "tags": ["a", "b"]})


def test_values_can_be_written_as_json():
    matter = split_front_matter(
        "---\nday: 2024-01-02\nat: 2024-01-02T03:04:05Z\nnested: {1: [true, null, 1.5, .inf]}\nset: !!set {b, a}\n---\n"
    )
    assert json.loads(json.dumps(matter.metadata, allow_nan=False)) == {
        "day": "2024-01-02",
        "at": "2024-01-02T03:04:05+00:00",
        "nested": {"1": [True, None, 1.5, "inf"]},
        "set": ["a", "b"],
    }


def test_dots_may_close_it_and_the_file_may_end_there():
    assert split_front_matter("---\na: 1\n...\nText") == FrontMatter("Text", 4, {"a": 1})
    assert split_front_matter("---\na: 1\n---") == FrontMatter("", 3, {"a": 1})
    assert split_front_matter("---\n---\nText") == FrontMatter("Text", 3, {})


def test_a_comment_is_no_heading_and_is_gone():
    assert split_front_matter("---\n# a comment\na: 1\n---\n# Real\n") == FrontMatter("# Real\n", 5, {"a": 1})


@pytest.mark.parametrize(
    "text",
    [
        "---\ntitle: a: b\n---\nText",
        "---\nflag: !!bool maybe\n---\nText",
        "---\nnumber: !!int ''\n---\nText",
        "---\nrun: !!python/object/apply:os.getcwd []\n---\nText",
        "---\njust words\n---\nText",
        "---\n- a\n- list\n---\nText",
        "---\na: 1\nno end",
        "Text\n---\na: 1\n---\n",
        "----\na: 1\n---\n",
    ],
)
def test_what_is_no_mapping_stays_text(text):
    assert split_front_matter(text) == FrontMatter(text)


def test_bombs_stay_text():
    """A kilobyte of aliases can stand for gigabytes; brackets can nest deeper than the parser's stack."""
    laughs = "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\nText"
    deep = "---\na: " + "[" * 20_000 + "]" * 20_000 + "\n---\nText"
    long = "---\n" + "".join(f"key{number}: {number}\n" for number in range(8_000)) + "---\nText"
    assert [split_front_matter(text).text for text in (laughs, deep, long)] == [laughs, deep, long]


def test_escapes_cannot_smuggle_in_what_no_table_takes():
    matter = split_front_matter('---\na: "x\\0y\\uFEFFz\\uD800"\n---\n')
    assert matter.metadata == {"a": "xyz"}


def test_a_date_that_there_is_not_is_text_and_costs_no_other_field():
    matter = split_front_matter("---\ndate: 2024-02-30\ndraft: true\n---\nText")
    assert matter.text == "Text"
    assert matter.metadata == {"date": "2024-02-30", "draft": True}
