"""Answers written by a model behind a server that speaks OpenAI's chat protocol.

Here belongs what is asked for an answer, and what the reply means as one. The request is `chat_model.py`, the prompts are
files, reading markers is `citations.py`.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import shorten
from typing import Self

from rag_assets.answering.chat_model import ChatModel
from rag_assets.answering.extractive import NOT_FOUND
from rag_assets.answering.generator import Generated, Rewritten
from rag_assets.answering.prompts import Prompts, read_prompts
from rag_assets.answering.quotations import quotations, unfounded
from rag_assets.answering.replies import Reply, Stream, read_reply
from rag_assets.answering.rewriting import read_rewritten, rewriting_prompt
from rag_assets.answering.sources import quote_sources
from rag_assets.config import OpenAIGeneration
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.errors import ProviderError
from rag_assets.records import Passage, Turn


class OpenAIChatGenerator:
    """One chat model behind an OpenAI-compatible server."""

    def __init__(self, settings: OpenAIGeneration, instructions: str = "") -> None:
        self._settings = settings
        self._instructions = instructions
        self._model = ChatModel("generation", settings)

    @property
    def name(self) -> str:
        """`openai/<model>`."""
        return f"openai/{self._settings.model}"

    @functools.cached_property
    def _prompts(self) -> Prompts:
        return read_prompts(self._settings.prompts)

    def speaking_as(self, instructions: str) -> Self:
        """The same model whose system prompt ends in `instructions`."""
        return type(self)(self._settings, instructions)

    def stand_alone(self, question: str, turns: Sequence[Turn]) -> Rewritten:
        """`question` as the model puts it without need of `turns`; as it is, with a note, where the reply is no question."""
        messages = [{"role": "user", "content": rewriting_prompt(self._prompts, question, turns)}]
        reply = self._model.ask(messages)
        usage, notes = self._model.usage(reply, messages)
        text = read_rewritten(reply.text, question)
        if text is None:
            notes.append("The model did not put the question into one line that stands alone; it was asked as it is.")
        return Rewritten(text or question, usage, notes, self._prompts.version)

    def generate(
        self, question: str, passages: Sequence[Passage], *, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        """Answer from as much of the passages as `max_context_tokens` holds. Nothing is sent when there are none.

        What `on_text` receives adds up to the text of the answer. Raises `ProviderError`, and `ConfigError` where the
        prompts cannot be read.
        """
        sources = quote_sources(question, passages, max_tokens=self._settings.max_context_tokens)
        if not sources.read:
            if on_text:
                on_text(NOT_FOUND)
            return Generated(text=NOT_FOUND, answered=False, markers=[])
        messages = [
            {
                "role": "system",
                "content": "\n\n".join(filter(None, [self._prompts.fill("system"), self._instructions])),
            },
            {
                "role": "user",
                "content": self._prompts.fill(
                    "question",
                    boundary=sources.boundary,
                    sources=sources.text,
                    question=without_lone_surrogates(question).strip(),
                ),
            },
        ]
        stream = Stream(frozenset(sources.read), on_text) if on_text else None
        reply = self._model.ask(messages, stream)
        usage, counted = self._model.usage(reply, messages)
        notes = [
            *_notes(reply, self._settings.max_answer_tokens),
            *_notes_on_what_was_left_out(sources.read, passages),
            *(f"The server did not take {name}; it was left out." for name in self._model.left_out()),
            *counted,
        ]
        generated = self._understand(reply, sources.read)
        if stream:
            stream.finish(generated.text)
        return replace(
            generated,
            usage=usage,
            notes=[*notes, *generated.notes],
            prompt_version=self._prompts.version,
            read=sources.read,
        )

    def _understand(self, reply: Reply, read: Mapping[int, Passage]) -> Generated:
        """A reply as an answer. An empty one is the server's failure, not the documents'."""
        if reply.refusal and not reply.text.strip():
            return Generated(reply.refusal.strip(), answered=False, markers=[])
        if not reply.text.strip():
            raise ProviderError(
                f"{self._model.server} sent an empty answer (finish_reason {reply.finish_reason}); raise"
                f" generation.max_answer_tokens {self._settings.max_answer_tokens} if the model thinks before it"
                " writes, or check generation.model."
            )
        marked = read_reply(reply.text, frozenset(read))
        text = marked.text.strip()
        notes: list[str] = []
        if marked.unknown:
            numbers = ", ".join(f"[{number}]" for number in dict.fromkeys(marked.unknown))
            notes.append(f"The model cited {numbers}, which is not among its sources; taken out.")
        removed = len(marked.unknown)
        if reply.says_not_found and not marked.markers:
            return Generated(text or NOT_FOUND, answered=False, markers=[], notes=notes, markers_removed=removed)
        if not marked.markers:
            notes.append("The model cited no source: check this answer against the passages.")
        quoted = quotations(text)
        missing = unfounded(quoted, [_quotable(read[number]) for number in marked.markers or sorted(read)])
        if missing:
            shown = "; ".join(f'"{shorten(one, 80, placeholder=" …")}"' for one in missing)
            notes.append(f"{len(missing)} of {len(quoted)} quotations are in no cited passage; check them: {shown}")
        return Generated(
            text,
            answered=True,
            markers=marked.markers,
            notes=notes,
            markers_removed=removed,
            quotations_unfounded=len(missing),
        )


def _notes(reply: Reply, max_answer_tokens: int) -> list[str]:
    notes: list[str] = []
    if reply.finish_reason == "length":
        notes.append(f"The answer was cut at generation.max_answer_tokens {max_answer_tokens}.")
    if reply.finish_reason == "content_filter":
        notes.append("The server's content filter cut the answer.")
    if reply.refusal:
        notes.append("The model refused to answer.")
    return notes


def _notes_on_what_was_left_out(read: Mapping[int, Passage], passages: Sequence[Passage]) -> Iterator[str]:
    cut = sum(len(one.text) < len(passages[number - 1].text) for number, one in read.items())
    left_out = len(passages) - len(read)
    if cut or left_out:
        yield (
            f"To fit into generation.max_context_tokens, of {len(passages)} passages {left_out} left out, {cut} cut short."
        )


def _quotable(passage: Passage) -> str:
    """What may be quoted of a passage: its text, its title and its headings."""
    return " ".join([passage.title, *passage.heading_path, passage.text])
