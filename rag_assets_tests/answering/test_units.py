import textwrap

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answering.quoting import units_of
from rag_assets_tests.answering.passages import passage


def shown(text, document="a.md", **where):
    return [
        (unit.text, unit.block) if unit.block else unit.text
        for unit in units_of(passage(textwrap.dedent(text), document, **where))
    ]


def test_markdown_noise_is_taken_out_of_prose():
    assert shown(
        """\
        ## Set up { #set-up }

        /// tip | Hint

        Read the [guide](https://a.example/x) for **all** the <dfn title="x">details</dfn>, and `pip install *`.

        ///

        ![logo](logo.png)

        ---
        {* ../../src/a.py hl[1] *}
        """
    ) == ["Read the guide for all the details, and `pip install *`."]


def test_links_to_another_chunk_and_footnotes_lose_their_brackets():
    assert shown("See [the guide][g] and a[i][j].[^1]\n\n[^1]: It is old.\n\n[here][x]\n\n[x]: http://a.example") == [
        "See the guide and a[i][j].",
        "It is old.",
        "here",
    ]


def test_tags_in_code_are_code():
    assert shown("Put it in `<head>` or &lt;body&gt;, not in <b>`x<y>`</b>.") == [
        "Put it in `<head>` or <body>, not in `x<y>`."
    ]


def test_facts_that_look_like_emphasis_stay():
    assert shown("The area is 2*3*4 and __init__ and snake_case_name, but *this* is stressed.") == [
        "The area is 2*3*4 and __init__ and snake_case_name, but this is stressed."
    ]


def test_numbers_in_brackets_cannot_be_taken_for_our_markers():
    assert shown("Water boils at 100 degrees.[12] Take names[0] then [3, 4] go.") == [
        "Water boils at 100 degrees.",
        "Take `names[0]` then go.",
    ]


def test_a_colon_keeps_the_short_code_that_it_introduces():
    assert shown("Start the server with:\n\n```bash\nserve --port 80\n```\n\nThen wait.") == [
        ("Start the server with:", "```bash\nserve --port 80\n```"),
        "Then wait.",
    ]


def test_long_code_is_a_unit_of_its_own():
    code = "\n".join(f"line_{number} = {number}" for number in range(20))
    units = units_of(passage(f"Write this:\n\n```py\n{code}\n```"))
    assert [(unit.kind, unit.flaw) for unit in units] == [("sentence", "dangling"), ("code", "")]
    assert units[1].block == f"```py\n{code}\n```"


def test_a_colon_keeps_the_short_list_that_it_introduces():
    assert shown("You need:\n\n* Python\n* make\n    * GNU make\n\nThat is all.") == [
        ("You need:", "- Python\n- make\n  - GNU make"),
        "That is all.",
    ]


def test_list_items_are_units():
    assert shown("1. Open the box. Look inside.\n2. Close it.") == ["1. Open the box. Look inside.", "2. Close it."]


def test_a_table_row_is_read_with_its_header():
    assert shown("| option | default |\n|---|---|\n| `timeout` | 30 s |\n| retries | 4 |") == [
        "option: `timeout`; default: 30 s",
        "option: retries; default: 4",
    ]


def test_a_chunk_that_begins_inside_code_keeps_it_code():
    units = units_of(passage("    return {\n        'a': 1,\n    }\n```\n\nNow run it.\n", start=90))
    assert [unit.kind for unit in units] == ["code", "sentence"]
    assert units[1].text == "Now run it."


def test_the_body_of_an_admonition_is_prose():
    assert shown('!!! note "Limits"\n    At most 10 files.\n\nNext.') == ["At most 10 files.", "Next."]


def test_a_question_stays_with_its_answer():
    assert shown("Is it free? Yes. It always was.") == ["Is it free? Yes.", "It always was."]


def test_half_sentences_at_the_edges_of_a_chunk_are_known():
    units = units_of(passage("of the second part. This one is whole. And this one was cut in", start=50))
    assert [unit.flaw for unit in units] == ["cut", "", "cut"]


def test_html_blocks_lose_their_tags_and_scripts():
    assert shown("<style>p { color: red }</style>\n<div><p>Use <b>port</b> 80.</p></div>\n<!-- no -->") == [
        "Use port 80."
    ]


def test_plain_text_is_not_read_as_markdown():
    assert shown("# not a heading *at all*\n\n2 * 3 * 4 = 24", "a.txt") == [
        "# not a heading *at all*",
        "2 * 3 * 4 = 24",
    ]


def test_wrapped_lines_of_plain_text_are_joined_and_short_lines_are_not():
    assert shown(
        """\
        The gate opens at seven in the morning and
        closes at nine. Nobody may enter later.

        wifi: guest
        password: tulip
        """,
        "notes.txt",
    ) == [
        "The gate opens at seven in the morning and closes at nine.",
        "Nobody may enter later.",
        "wifi: guest",
        "password: tulip",
    ]


def test_source_code_is_one_block():
    assert shown("def f():\n    return 1\n", "f.py") == [("", "```py\ndef f():\n    return 1\n```")]


def test_text_without_sentence_marks_is_shown_in_windows():
    units = units_of(passage("word " * 1000, "a.txt"))
    assert len(units) > 10
    assert all(len(unit.text) <= 310 for unit in units)
    assert units[0].text.endswith(" …")
    assert units[1].text.startswith("… ")


@given(st.text(alphabet=st.sampled_from("ab .!?:`~*_[](){}#|<>-\n0/¡。"), max_size=200))
def test_any_text_has_units_and_none_is_blank(text):
    units = units_of(passage(text))
    assert all(unit.meaning.strip() for unit in units)
