import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.answering.citations import citations_of, read_markers, settled_length
from rag_assets.answering.generator import Generated
from rag_assets_tests.answering.passages import passage


@pytest.mark.parametrize(
    ("written", "text", "markers"),
    [
        ("A [1].", "A [1].", [1]),
        ("A [2, 1] and [2].", "A [2][1] and [2].", [2, 1]),
        ("A [1][3].", "A [1][3].", [1, 3]),
        ("A【2】.", "A[2].", [2]),
        ("A【2†notes.md】.", "A[2].", [2]),
        ("A [1-3].", "A [1][2][3].", [1, 2, 3]),
        ("A [Source 2] [sources 1 and 3].", "A [2] [1][3].", [2, 1, 3]),
        ("A [9].", "A.", []),
        ("A [1, 9].", "A [1].", [1]),
        ("Take `x[1]` [2].", "Take `x[1]` [2].", [2]),
        ("```py\nx[1]\n```\nDone [2].", "```py\nx[1]\n```\nDone [2].", [2]),
        ("See [1](https://a.example).", "See [1](https://a.example).", []),
        ("[note] stays", "[note] stays", []),
    ],
)
def test_markers_are_read_in_every_spelling_and_shown_in_one(written, text, markers):
    marked = read_markers(written, {1, 2, 3})
    assert (marked.text, marked.markers) == (text, markers)


def test_each_marker_that_points_nowhere_is_told():
    assert read_markers("A [7]. B [1]. C [8, 7].", {1}).unknown == [7, 8, 7]


@given(st.text(alphabet="a1 [],-`\n【】", max_size=60))
def test_what_is_settled_never_changes_when_more_comes(text):
    """While an answer streams, what was shown must be the beginning of what is shown later."""
    known = {1, 11}
    whole = read_markers(text, known).text
    for end in range(len(text) + 1):
        assert whole.startswith(read_markers(text[: settled_length(text[:end])], known).text)


def test_only_cited_passages_become_citations_in_order_of_appearance():
    passages = [passage("one", "1.md"), passage("two", "2.md"), passage("three", "3.md", start=7, heading="H")]
    citations = citations_of(Generated("C [3]. A [1]. C [3].", answered=True, markers=[3, 1, 3]), passages)
    assert [(citation.marker, citation.document, citation.text) for citation in citations] == [
        (3, "3.md", "three"),
        (1, "1.md", "one"),
    ]
    assert (citations[0].start_char, citations[0].end_char, citations[0].heading_path) == (7, 12, ("H",))
    assert citations[0].source_uri == "file:///corpus/3.md"


def test_an_answer_without_markers_has_no_citations():
    assert citations_of(Generated("No idea.", answered=False, markers=[]), [passage("one")]) == []
