"""How passages share the room of a prompt."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.answering.packing import excerpt
from rag_assets.answering.sources import quote_sources
from rag_assets.tokenizing import count_tokens
from rag_assets_tests.answering.passages import passage

FILLER = "The harbour lies in the bay and is calm. "
GATE = "The gate opens at seven in summer."


def quoted(question, passages, max_tokens):
    sources = quote_sources(question, passages, max_tokens=max_tokens)
    return {number: one.text for number, one in sources.read.items()}


def test_what_fits_is_sent_whole():
    passages = [passage("One.", "1.md"), passage("Two.\n", "2.md")]
    assert quoted("Which?", passages, 1000) == {1: "One.", 2: "Two.\n"}


def test_a_long_passage_is_cut_to_the_sentences_that_hold_the_words_of_the_question():
    long = passage(FILLER * 30 + GATE + " " + FILLER * 30, "long.md", start=1000)
    kept = quote_sources("When does the gate open?", [long], max_tokens=160).read[1]
    assert GATE in kept.text
    assert kept.text.startswith("The harbour")
    assert kept.text.endswith(".")
    begin = kept.start_char - 1000
    assert 0 < begin < len(FILLER) * 30
    assert long.text[begin : begin + len(kept.text)] == kept.text
    assert kept.end_char == kept.start_char + len(kept.text)


def test_a_long_best_passage_leaves_room_for_short_ones():
    passages = [passage(FILLER * 100, "long.md"), passage("Tickets cost 12 euros.", "a.md"), passage(GATE, "b.md")]
    found = quoted("When does the gate open, and what do tickets cost?", passages, 250)
    assert found[2] == "Tickets cost 12 euros."
    assert found[3] == GATE
    assert 50 < count_tokens(found[1], "o200k_base") < 250


def test_lines_of_code_are_not_torn():
    code = "\n".join(f"value_{number} = compute(number={number}, unit='seconds')" for number in range(60))
    kept = quoted("What is value_40?", [passage(code, "a.py")], 150)[1]
    assert "value_40 = compute(number=40, unit='seconds')" in kept.splitlines()
    assert set(kept.splitlines()) <= set(code.splitlines())


def test_what_has_no_room_even_in_part_is_left_out():
    passages = [passage(GATE, "a.md"), passage(FILLER, "b.md")]
    assert quoted("When does the gate open?", passages, 60) == {1: GATE}


def test_the_lines_of_an_excerpt_are_those_of_the_file():
    whole = passage("a\nbb\nccc\ndddd\n", start=10)
    assert (whole.start_line, excerpt(whole, 2, 8).text) == (11, "bb\nccc")
    part = excerpt(whole, 2, 8)
    assert (part.start_line, part.end_line, part.start_char, part.end_char) == (12, 13, 12, 18)
    assert excerpt(whole, 0, len(whole.text)) is whole
    assert (excerpt(whole, 5, 9).start_line, excerpt(whole, 5, 9).end_line) == (13, 13), (
        "its own line end opens no line"
    )


def test_passages_of_a_document_stand_in_reading_order_under_their_numbers():
    passages = [
        passage("Second part.", "guide.md", start=50),
        passage("Other.", "other.md"),
        passage("First part.", "guide.md", start=0),
    ]
    text = quote_sources("Which?", passages, max_tokens=1000).text
    places = [text.index(f"source [{number}]") for number in (3, 1, 2)]
    assert places == sorted(places)
    assert text.index("First part.") < text.index("Second part.") < text.index("Other.")


def test_a_cut_passage_is_marked_as_one():
    text = quote_sources("gate", [passage(FILLER * 50, "long.md")], max_tokens=100).text
    assert 'source [1]: document "long.md", cut short\n' in text
    assert "cut short" not in quote_sources("gate", [passage(FILLER, "short.md")], max_tokens=100).text


@given(
    texts=st.lists(st.text(alphabet="ab .\n`é漢", min_size=0, max_size=400), min_size=1, max_size=4),
    max_tokens=st.integers(60, 300),
)
@settings(max_examples=60, deadline=None)
def test_the_budget_holds_and_every_excerpt_is_a_range_of_its_passage(texts, max_tokens):
    passages = [passage(text, f"{number}.md", start=7) for number, text in enumerate(texts)]
    sources = quote_sources("a b", passages, max_tokens=max_tokens)
    assert count_tokens(sources.text, "o200k_base") <= max_tokens
    for number, one in sources.read.items():
        begin = one.start_char - 7
        assert passages[number - 1].text[begin : begin + len(one.text)] == one.text
