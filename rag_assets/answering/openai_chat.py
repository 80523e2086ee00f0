"""Answers written by a model behind a server that speaks OpenAI's chat protocol.

Here belongs one chat request and what its reply means as an answer. How a server is reached, and what its failures
mean, is shared with embedding; the prompts are files; reading markers is `citations.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Self

from rag_assets.answering.extractive import NOT_FOUND
from rag_assets.answering.generator import Generated
from rag_assets.answering.prompts import prompt, prompt_version
from rag_assets.answering.quotations import quotations, unfounded
from rag_assets.answering.replies import Reply, Stream, complete_reply, read_reply
from rag_assets.answering.sources import boundary_of, pack
from rag_assets.calling.failures import FailureKind, kind_of, server_words
from rag_assets.calling.openai_client import MalformedReplyError, OpenAIServer
from rag_assets.config import OpenAIGeneration
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.errors import ProviderError
from rag_assets.pricing import generation_price
from rag_assets.records import Passage, Usage
from rag_assets.tokenizing import count_tokens

if TYPE_CHECKING:
    import openai

_TOKENIZER = "o200k_base"


class OpenAIChatGenerator:
    """One chat model behind an OpenAI-compatible server."""

    def __init__(self, settings: OpenAIGeneration, instructions: str = "") -> None:
        self._settings = settings
        self._instructions = instructions
        self._server = OpenAIServer("generation", settings, model=settings.model)
        self._adapted: dict[str, object] = {}

    @property
    def name(self) -> str:
        """`openai/<model>`."""
        return f"openai/{self._settings.model}"

    @property
    def prompt_version(self) -> str:
        """Which wording of the prompts is in force."""
        return prompt_version()

    def speaking_as(self, instructions: str) -> Self:
        """The same model whose system prompt ends in `instructions`."""
        return type(self)(self._settings, instructions)

    def generate(
        self, question: str, passages: Sequence[Passage], *, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        """Answer from as many passages as `max_context_tokens` holds. Nothing is sent when there are none.

        What `on_text` receives adds up to the text of the answer. Raises `ProviderError`.
        """
        boundary = boundary_of(passages)
        packed = pack(passages, boundary=boundary, max_tokens=self._settings.max_context_tokens)
        if not packed:
            if on_text:
                on_text(NOT_FOUND)
            return Generated(text=NOT_FOUND, answered=False, markers=[])
        messages = [
            {"role": "system", "content": "\n\n".join(filter(None, [prompt("system"), self._instructions]))},
            {
                "role": "user",
                "content": prompt(
                    "question",
                    boundary=boundary,
                    sources="\n\n".join(packed.values()),
                    question=without_lone_surrogates(question).strip(),
                ),
            },
        ]
        stream = Stream(frozenset(packed), on_text) if on_text else None
        reply = self._ask(messages, stream)
        generated = self._understand(reply, messages, packed=frozenset(packed), passages=passages)
        if stream:
            stream.finish(generated.text)
        return replace(generated, prompt_version=self.prompt_version)

    def _ask(self, messages: list[dict[str, str]], stream: Stream | None) -> Reply:
        import openai

        tokens = sum(count_tokens(message["content"], _TOKENIZER) for message in messages)
        for _ in range(4):
            request = {**self._parameters(streamed=stream is not None), **self._adapted}
            request = {name: value for name, value in request.items() if value is not None}

            def send(client: openai.OpenAI, request: dict[str, object] = request) -> Any:
                made: Any = client.chat.completions.with_raw_response.create
                return made(messages=messages, **request)

            try:
                return self._server.call(
                    send,
                    lambda reply: self._follow(reply, stream) if stream else _complete(reply),
                    tokens=tokens + self._settings.max_answer_tokens,
                )
            except openai.BadRequestError as error:
                change = _adaptation(error, request)
                if not change:
                    raise self._refusal(error) from error
                self._adapted |= change
            except openai.APIStatusError as error:
                raise self._refusal(error) from error
            except (openai.APIError, MalformedReplyError) as error:
                raise self._server.explain(error) from error
        raise ProviderError(f"{self._server} refused every form of the request; check generation.model.")

    def _follow(self, events: Any, stream: Stream) -> Reply:
        """Read a stream to its end. One that breaks off is not asked for again: part of it was shown."""
        import openai

        reply = Reply()
        try:
            with events:
                for event in events:
                    reply.usage = getattr(event, "usage", None) or reply.usage
                    for choice in event.choices[:1]:
                        reply.finish_reason = choice.finish_reason or reply.finish_reason
                        reply.refusal += getattr(choice.delta, "refusal", None) or ""
                        reply.text += choice.delta.content or ""
                    stream.follow(reply.text)
        except openai.APIConnectionError as error:
            raise ProviderError(
                f"{self._server} broke off in the middle of an answer ({error.__cause__ or error}); ask again, raise"
                f" generation.timeout_seconds {self._settings.timeout_seconds:g} if it is slow, and see its log."
            ) from error
        return reply

    def _parameters(self, *, streamed: bool) -> dict[str, object]:
        """`max_tokens` is what every compatible server knows; OpenAI itself deprecates it and its reasoning models
        refuse it, so there it is `max_completion_tokens`. A server that says it wants the other gets the other."""
        settings = self._settings
        limit = "max_tokens" if self._server.base_url else "max_completion_tokens"
        return {
            "model": settings.model,
            "temperature": settings.temperature,
            limit: settings.max_answer_tokens,
            "stream": streamed or None,
            "stream_options": {"include_usage": True} if streamed else None,
        }

    def _refusal(self, error: "openai.APIStatusError") -> ProviderError:
        if kind_of(error) is FailureKind.TOO_LARGE:
            return ProviderError(
                f"{self._server} said {error.status_code}: {server_words(error)}; lower generation.max_context_tokens"
                f" {self._settings.max_context_tokens}, or generation.max_answer_tokens"
                f" {self._settings.max_answer_tokens}."
            )
        return self._server.explain(error)

    def _understand(
        self, reply: Reply, messages: Sequence[dict[str, str]], *, packed: frozenset[int], passages: Sequence[Passage]
    ) -> Generated:
        """A reply as an answer. An empty one is the server's failure, not the documents'."""
        notes = _notes(reply, self._settings.max_answer_tokens)
        if len(packed) < len(passages):
            left_out = len(passages) - len(packed)
            notes.append(f"{left_out} of {len(passages)} passages did not fit into generation.max_context_tokens.")
        notes += [f"The server did not take {name}; it was left out." for name in self._left_out()]
        usage, counted = self._usage(reply, messages)
        notes += counted
        if reply.refusal and not reply.text.strip():
            return Generated(reply.refusal.strip(), answered=False, markers=[], usage=usage, notes=notes)
        if not reply.text.strip():
            raise ProviderError(
                f"{self._server} sent an empty answer (finish_reason {reply.finish_reason}); raise"
                f" generation.max_answer_tokens {self._settings.max_answer_tokens} if the model thinks before it"
                " writes, or check generation.model."
            )
        marked = read_reply(reply.text, packed)
        text = marked.text.strip()
        if marked.unknown:
            numbers = ", ".join(f"[{number}]" for number in marked.unknown)
            notes.append(f"The model cited {numbers}, which is not among its sources; taken out.")
        if reply.says_not_found and not marked.markers:
            return Generated(text or NOT_FOUND, answered=False, markers=[], usage=usage, notes=notes)
        if not marked.markers:
            notes.append("The model cited no source: check this answer against the passages.")
        notes += _notes_on_quotations(text, [passages[number - 1] for number in marked.markers or sorted(packed)])
        return Generated(text, answered=True, markers=marked.markers, usage=usage, notes=notes)

    def _left_out(self) -> Iterator[str]:
        if "temperature" in self._adapted:
            yield f"generation.temperature {self._settings.temperature:g}"

    def _usage(self, reply: Reply, messages: Sequence[dict[str, str]]) -> tuple[Usage, list[str]]:
        notes: list[str] = []
        told, written = (getattr(reply.usage, name, None) for name in ("prompt_tokens", "completion_tokens"))
        if isinstance(told, int) and isinstance(written, int):
            spent = (told, written)
        else:
            spent = (
                sum(count_tokens(message["content"], _TOKENIZER) for message in messages),
                count_tokens(reply.text, _TOKENIZER),
            )
            notes.append("The server did not say how many tokens it used; they are counted here.")
        prices = self._prices()
        if prices is None:
            notes.append(
                f"No price is known for {self._settings.model!r}: add it to prices.generation in corpora.yaml, to have costs"
                " counted."
            )
            prices = (0.0, 0.0)
        cost = sum(tokens * price for tokens, price in zip(spent, prices, strict=True)) / 1_000_000
        return Usage(prompt_tokens=spent[0], completion_tokens=spent[1], cost_usd=cost), notes

    def _prices(self) -> tuple[float, float] | None:
        """US dollars a million tokens, input and output; a server of one's own costs nothing unless told otherwise."""
        settings = self._settings
        known = (0.0, 0.0) if self._server.base_url else generation_price(settings.model)
        told = (settings.usd_per_million_input_tokens, settings.usd_per_million_output_tokens)
        if known is None and None in told:
            return None
        default = known or (0.0, 0.0)
        return (default[0] if told[0] is None else told[0], default[1] if told[1] is None else told[1])


def _complete(reply: Any) -> Reply:
    try:
        return complete_reply(reply)
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise MalformedReplyError(f"no chat completion ({type(error).__name__}: {error})") from error


def _adaptation(error: "openai.BadRequestError", request: dict[str, object]) -> dict[str, object]:
    """What to change when a server refuses a parameter by name. Reasoning models take no temperature; old servers know
    no `stream_options`; the limit has two names."""
    blamed = f"{error.param or ''} {server_words(error)}"
    if "max_tokens" in request and "max_completion_tokens" in blamed:
        return {"max_tokens": None, "max_completion_tokens": request["max_tokens"]}
    if "max_completion_tokens" in request and "max_completion_tokens" in blamed:
        return {"max_completion_tokens": None, "max_tokens": request["max_completion_tokens"]}
    return {name: None for name in ("temperature", "stream_options") if name in request and name in blamed}


def _notes(reply: Reply, max_answer_tokens: int) -> list[str]:
    notes: list[str] = []
    if reply.finish_reason == "length":
        notes.append(f"The answer was cut at generation.max_answer_tokens {max_answer_tokens}.")
    if reply.finish_reason == "content_filter":
        notes.append("The server's content filter cut the answer.")
    if reply.refusal:
        notes.append("The model refused to answer.")
    return notes


def _notes_on_quotations(text: str, cited: Sequence[Passage]) -> Iterator[str]:
    """Whether what is in quotation marks is in the text, title or headings of a cited passage, or of any sent where none
    is cited."""
    quoted = quotations(text)
    missing = unfounded(quoted, [" ".join([one.title, *one.heading_path, one.text]) for one in cited])
    if missing:
        shown = "; ".join(f'"{shorten(one, 80, placeholder=" …")}"' for one in missing)
        yield f"{len(missing)} of {len(quoted)} quotations are in no cited passage; check them: {shown}"
