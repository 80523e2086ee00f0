"""Whether questions with known answers are answered."""

from rag_assets.health.verdicts import Verdict, fails, passes
from rag_assets.health.view import View
from rag_assets.storing.evaluations import evaluations


def answer_rate(view: View) -> Verdict:
    """Enough of the questions that have an answer got one, in the last evaluation of a published version."""
    wanted = view.corpus.evaluation
    last = next((one for one in evaluations(view.store, view.corpus.name) if one.held is None), None)
    rate = last.figures.answerable_accuracy if last else None
    if wanted is None or last is None or rate is None:
        return passes("No question was answered for an evaluation yet.")
    told = f"{rate:.0%} of {last.answerable:,} questions were answered with version {last.index_version}"
    figures = {"answer_rate": rate}
    if rate < wanted.min_answer_rate:
        remedy = f"see which, with rag-assets evaluate {view.corpus.name}"
        return fails(f"{told}, and evaluation.min_answer_rate is {wanted.min_answer_rate:g}: {remedy}", figures)
    return passes(f"{told}.", figures)
