"""Whether what was found, and what was cited, is the known answer.

Where texts of passages are known, an answer is one thing: it is found at the rank at which a reader in order has had all
of them. Where only documents are known, documents are ranked, each by its best passage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_assets.records import Citation, Passage
from rag_assets.scoring.questions import KnownQuestion, normalised

_ANSWER = "answer"


@dataclass(frozen=True)
class Judged:
    """A ranking of names, which of them are right (name → grade), and the rank (from 1) of the first that is."""

    ranking: Sequence[str]
    relevant: Mapping[str, int]
    rank: int | None


def judge_passages(question: KnownQuestion, passages: Sequence[Passage]) -> Judged:
    """What `passages`, best first, are worth to an answerable `question`."""
    if question.passages:
        rank = _answer_rank(question, passages)
        before = [f"passage {place}" for place in range(1, rank or len(passages) + 1)]
        return Judged([*before, _ANSWER] if rank else before, {_ANSWER: 1}, rank)
    documents = list(dict.fromkeys(passage.document for passage in passages))
    rank = next((place for place, name in enumerate(documents, start=1) if name in question.documents), None)
    return Judged(documents, question.documents, rank)


def _answer_rank(question: KnownQuestion, passages: Sequence[Passage]) -> int | None:
    missing = set(question.passages)
    for rank, passage in enumerate(passages, start=1):
        missing -= _known_texts(question, passage)
        if not missing:
            return rank
    return None


def judge_citations(question: KnownQuestion, citations: Sequence[Citation]) -> tuple[int, float]:
    """How many of `citations` point at the known answer, and 1.0 where together they hold all of it, else 0.0."""
    if not question.passages:
        right = [citation for citation in citations if citation.document in question.documents]
        return len(right), float(bool(right))
    held = [_known_texts(question, citation) for citation in citations]
    return sum(map(bool, held)), float(set().union(*held) == set(question.passages))


def _known_texts(question: KnownQuestion, where: Passage | Citation) -> set[str]:
    """The known texts that `where` holds; none where it is of a wrong document."""
    if question.documents and where.document not in question.documents:
        return set()
    flat = normalised(where.text)
    return {text for text in question.passages if text in flat}
