"""Whether a follow-up finds what it is about: as it is asked, rewritten by the rule, and written out by hand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rag_assets.asking import make_question, retrieve_from_all
from rag_assets.conversing.follow_ups import stands_alone, with_context
from rag_assets.records import Turn
from rag_assets_tests.benchmarks.answers import RECALL, RECIPROCAL_RANK, answer_rank, mean, scores_of_ranks
from rag_assets_tests.benchmarks.corpora import PAGES, missing_pages
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform
from rag_assets_tests.questions import FASTAPI, FOLLOW_UPS, FollowUp, load_follow_ups, load_questions
from rag_assets_tests.workbench import set_age

_TITLE = "Follow-up questions"
_DEPTH = 10
_MADE_UP = {
    "lamp.md": "# The lamp\n\nThe lamp burns whale oil.\n\nThe lamp is lit at dusk.\n",
    "fish.md": "# Fish\n\nFish is sold on Fridays.\n",
}
_ASKED = (Turn("What does the lamp burn?", "The lamp burns whale oil. [1]"),)
_TINY = [
    FollowUp("lit", "And when is it lit?", "lamp.md", ("lit at dusk",), _ASKED, "When is the lamp lit?"),
    FollowUp("fish", "When is fish sold?", "fish.md", ("on Fridays",), _ASKED, None),
]


def run(size: Size, folder: Path) -> Report:
    """See the module."""
    if why := missing_pages(size):
        return Report("conversations", _TITLE, skipped=why)
    platform = Platform(folder, options={"embedding": {"provider": "local"}, "chunking": {}})
    if size == "tiny":
        for name, text in _MADE_UP.items():
            set_age(platform.write(name, text), 60)
    else:
        platform.configure(source=str(PAGES), include=["**/*.md"])
    platform.ingest()
    asked = _TINY if size == "tiny" else load_follow_ups(FOLLOW_UPS)
    leaning, switching = [one for one in asked if one.standalone], [one for one in asked if not one.standalone]
    by_hand = _scores(platform, leaning, lambda one: one.standalone or one.question)
    unchanged = _scores(platform, switching, lambda one: one.question)
    ways: Mapping[str, Callable[[FollowUp], str]] = {
        "as asked": lambda one: one.question,
        "with the question before": lambda one: f"{one.history[-1].question} {one.question}",
        "by the rule": lambda one: with_context(one.question, one.history),
    }
    figures = []
    for way, text_of in ways.items():
        scores = _scores(platform, leaning, text_of)
        for name in (RECALL, RECIPROCAL_RANK):
            figures.append(Figure(f"{name}, {way}", scores[name], "of 1", Baseline("by hand", by_hand[name])))
    kept = _scores(platform, switching, ways["by the rule"])[RECALL]
    figures.append(Figure(f"{RECALL} after a change of topic", kept, "of 1", Baseline("as asked", unchanged[RECALL])))
    told = sum(not stands_alone(one.question) for one in leaning)
    figures.append(Figure("follow-ups that the rule tells", told, "questions", Baseline("all", len(leaning))))
    alone = load_questions(FASTAPI)
    wrong = sum(not stands_alone(one.question) for one in alone)
    figures.append(Figure("questions that it takes for one", wrong, "questions", Baseline("all", len(alone))))
    return Report("conversations", _TITLE, figures, [f"{len(leaning)} follow-ups, {len(switching)} changes of topic."])


def _scores(platform: Platform, asked: Sequence[FollowUp], text_of: Callable[[FollowUp], str]) -> Mapping[str, float]:
    """The measures of the passages that are found for `text_of` each question."""
    ranks = {}
    for one in asked:
        question = make_question(platform.settings, text_of(one), top_k=_DEPTH)
        ranks[one.id] = answer_rank(one, retrieve_from_all(platform.store, platform.settings, question).passages)
    scores = scores_of_ranks(ranks)
    return {name: mean(scores, name) for name in (RECALL, RECIPROCAL_RANK)}
