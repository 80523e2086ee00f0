"""What counts as the known answer, among passages and among citations."""

from rag_assets.records import Citation, Passage
from rag_assets.scoring.judging import Judged, judge_citations, judge_passages
from rag_assets.scoring.questions import KnownQuestion
from rag_assets_tests.answering.passages import passage

PARTS = KnownQuestion("q", "When?", {"a.md": 1}, ("from November", "to May"))
PLACES = KnownQuestion("q", "Where?", {"a.md": 2, "b.md": 1})


def cited(where: Passage) -> Citation:
    names = ("document", "source_uri", "heading_path", "start_char", "end_char", "start_line", "end_line", "text")
    values = {name: getattr(where, name) for name in (*names, "score", "chunk_id")}
    return Citation(marker=1, **values)


def test_an_answer_in_parts_is_found_where_the_last_part_is():
    found = [passage("Closed from\nNovember"), passage("Open"), passage("on to May")]
    assert judge_passages(PARTS, found) == Judged(["passage 1", "passage 2", "answer"], {"answer": 1}, 3)


def test_an_answer_that_is_not_whole_is_not_found():
    judged = judge_passages(PARTS, [passage("from November"), passage("to May", "other.md")])
    assert judged == Judged(["passage 1", "passage 2"], {"answer": 1}, None)


def test_a_text_without_a_document_may_be_anywhere():
    anywhere = KnownQuestion("q", "When?", {}, ("to May",))
    assert judge_passages(anywhere, [passage("x"), passage("to May", "other.md")]).rank == 2


def test_documents_are_ranked_by_their_best_passage():
    found = [passage("1", "c.md"), passage("2", "c.md"), passage("3", "b.md"), passage("4", "a.md")]
    assert judge_passages(PLACES, found) == Judged(["c.md", "b.md", "a.md"], {"a.md": 2, "b.md": 1}, 2)
    assert judge_passages(PLACES, []).rank is None


def test_citations_of_texts_are_right_where_they_hold_one():
    one, both = cited(passage("from November")), cited(passage("from November to May"))
    other, wrong = cited(passage("to May", "other.md")), cited(passage("Open"))
    assert judge_citations(PARTS, [one, wrong]) == (1, 0.0)
    assert judge_citations(PARTS, [both, wrong, other]) == (1, 1.0)
    assert judge_citations(PARTS, []) == (0, 0.0)


def test_citations_without_texts_are_right_in_a_right_document():
    assert judge_citations(PLACES, [cited(passage("x", "b.md")), cited(passage("x", "c.md"))]) == (1, 1.0)
    assert judge_citations(PLACES, [cited(passage("x", "c.md"))]) == (0, 0.0)
