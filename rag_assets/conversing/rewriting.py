"""A follow-up is rewritten, by whoever generates the answers where that can write, else by rule."""

from collections.abc import Sequence

from rag_assets.answering.generator import Generator, RewritesQuestions, Rewritten
from rag_assets.conversing.follow_ups import with_context
from rag_assets.errors import ProviderError
from rag_assets.records import Turn


def rewrite(generator: Generator, question: str, turns: Sequence[Turn]) -> Rewritten:
    """`question` in words that need none of `turns`, oldest first. Where the model fails, it stays as it is, with a note."""
    if not isinstance(generator, RewritesQuestions):
        return Rewritten(with_context(question, turns))
    try:
        return generator.stand_alone(question, turns)
    except ProviderError as error:
        return Rewritten(question, notes=[f"The question was asked as it is, for it could not be rewritten: {error}"])
