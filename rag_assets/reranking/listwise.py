"""A chat model reads all passages at once and says in which order they answer the question.

Listwise, as in RankGPT (Sun et al., EMNLP 2023): one request, and a list of numbers in return. Here belong what is asked
and how the list is read; the request itself is shared with answers, and the prompts are files.
"""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from string import Template
from typing import Literal

from rag_assets.answering.chat_model import ChatModel
from rag_assets.answering.sources import quote_sources
from rag_assets.calling.failures import FailureKind
from rag_assets.config import LLMRerank
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.records import Passage
from rag_assets.reranking.reranker import Reranked, RerankError

CODE_VERSION = "1"
_THOUGHT = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_LIST = re.compile(r"\[\s*\d+(?:\s*,\s*\d+)+\s*,?\s*\]")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w]|\.\d)")

PromptName = Literal["system", "question"]


class ListwiseReranker:
    """One chat model behind an OpenAI-compatible server."""

    def __init__(self, settings: LLMRerank) -> None:
        self._settings = settings
        self._model = ChatModel("rerank", settings, give_up_seconds=settings.timeout_seconds)

    @property
    def name(self) -> str:
        """`llm/<model>`."""
        return f"llm/{self._settings.model}"

    @property
    def identity(self) -> Mapping[str, object]:
        """The model's name is the statement of what it is; the prompts are told by their text."""
        settings = self._settings
        return {
            "provider": "llm",
            "model": settings.model,
            "temperature": settings.temperature,
            "max_context_tokens": settings.max_context_tokens,
            "prompts": [_prompt("system"), _prompt("question")],
            "code_version": CODE_VERSION,
        }

    def rerank(self, question: str, passages: Sequence[Passage]) -> Reranked:
        """Scores from 1 for the passage named first down to 1 / passages, and 0 for one that the model left out or that
        `max_context_tokens` did not hold. Raises `RerankError` for a reply without a number, and `ProviderError`."""
        sources = quote_sources(question, passages, max_tokens=self._settings.max_context_tokens)
        if not sources.read:
            return Reranked([0.0] * len(passages))
        asked = Template(_prompt("question")).substitute(
            boundary=sources.boundary, sources=sources.text, question=without_lone_surrogates(question).strip()
        )
        messages = [{"role": "system", "content": _prompt("system")}, {"role": "user", "content": asked}]
        reply = self._model.ask(messages)
        usage, notes = self._model.usage(reply, messages)
        order = list(read_order(reply.text, sources.read))
        if not order:
            said = " ".join(reply.text.split())[:80]
            raise RerankError(
                f"{self._model.server} was asked for the numbers of {len(sources.read)} passages and said {said!r}"
                f" (finish_reason {reply.finish_reason}); name another rerank.model, or raise rerank.max_answer_tokens"
                f" {self._settings.max_answer_tokens} if it thinks before it writes",
                kind=FailureKind.MALFORMED,
                usage=usage,
            )
        scores = [0.0] * len(passages)
        for rank, number in enumerate(order):
            scores[number - 1] = (len(passages) - rank) / len(passages)
        notes = [*notes, *_unranked(len(order), len(sources.read), len(passages))]
        return Reranked(scores, usage=usage, notes=notes)


def read_order(reply: str, known: Mapping[int, object]) -> Iterator[int]:
    """The numbers in `reply` that are `known`, each once: those of its last JSON list, else all that stand alone. What a
    model thinks aloud is not read."""
    text = _THOUGHT.sub("", reply)
    lists = _LIST.findall(text)
    seen: set[int] = set()
    for digits in _NUMBER.findall(lists[-1] if lists else text):
        number = int(digits[:9])
        if number in known and number not in seen:
            seen.add(number)
            yield number


def _unranked(ranked: int, read: int, found: int) -> Iterator[str]:
    if read < found:
        yield f"{found - read} of {found} passages did not fit into rerank.max_context_tokens and follow in fused order."
    if ranked < read:
        yield f"The model ranked {ranked} of {read} passages; the others follow in fused order."


@functools.cache
def _prompt(name: PromptName) -> str:
    return (resources.files("rag_assets.reranking") / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()
