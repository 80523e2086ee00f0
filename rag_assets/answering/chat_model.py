"""A chat model behind a server that speaks OpenAI's protocol: one request, its reply, and what they cost.

Here belongs what every use of a chat model has in common. How a server is reached, and what its failures mean, is shared
with embedding; what is asked, and what a reply means, is for those who ask.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rag_assets.answering.replies import Reply, Stream, complete_reply
from rag_assets.calling.failures import FailureKind, kind_of, server_words
from rag_assets.calling.openai_client import MalformedReplyError, OpenAIServer
from rag_assets.config import ChatSettings
from rag_assets.embedding.provider import without_lone_surrogates
from rag_assets.errors import ProviderError
from rag_assets.pricing import generation_price
from rag_assets.records import Usage
from rag_assets.tokenizing import count_tokens

if TYPE_CHECKING:
    import openai

_TOKENIZER = "o200k_base"


class ChatModel:
    """The chat model that `settings` of a section of a corpus name. Server errors become `ProviderError`s that name the
    section's keys. Within `give_up_seconds`, where they are given, the last attempt is begun."""

    def __init__(
        self,
        section: Literal["generation", "rerank"],
        settings: ChatSettings,
        *,
        give_up_seconds: float | None = None,
    ) -> None:
        self._section = section
        self._settings = settings
        self.server = OpenAIServer(section, settings, model=settings.model, give_up_seconds=give_up_seconds)
        self._adapted: dict[str, object] = {}

    def ask(self, messages: list[dict[str, str]], stream: Stream | None = None) -> Reply:
        """The reply to `messages`, followed piece by piece where there is a `stream`. Raises `ProviderError`."""
        import openai

        tokens = sum(count_tokens(message["content"], _TOKENIZER) for message in messages)
        for _ in range(4):
            request = {**self._parameters(streamed=stream is not None), **self._adapted}
            request = {name: value for name, value in request.items() if value is not None}

            def send(client: openai.OpenAI, request: dict[str, object] = request) -> Any:
                made: Any = client.chat.completions.with_raw_response.create
                return made(messages=messages, **request)

            try:
                return self.server.call(
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
                raise self.server.explain(error) from error
        raise ProviderError(f"{self.server} refused every form of the request; check {self._section}.model.")

    def _follow(self, events: Any, stream: Stream) -> Reply:
        """Read a stream to its end. One that breaks off is not asked for again: part of it was shown.

        Some gateways cut UTF-16, so half a character waits for its other half.
        """
        import openai

        reply, half = Reply(), ""
        try:
            with events:
                for event in events:
                    reply.usage = getattr(event, "usage", None) or reply.usage
                    for choice in event.choices[:1]:
                        reply.finish_reason = choice.finish_reason or reply.finish_reason
                        reply.refusal += getattr(choice.delta, "refusal", None) or ""
                        piece = half + (choice.delta.content or "")
                        half = piece[-1:] if "\ud800" <= piece[-1:] <= "\udbff" else ""
                        reply.text += without_lone_surrogates(piece[: len(piece) - len(half)])
                    stream.follow(reply.text)
        except openai.APIConnectionError as error:
            raise ProviderError(
                f"{self.server} broke off in the middle of an answer ({error.__cause__ or error}); ask again, raise"
                f" {self._section}.timeout_seconds {self._settings.timeout_seconds:g} if it is slow, and see its log."
            ) from error
        reply.text += without_lone_surrogates(half)
        reply.refusal = without_lone_surrogates(reply.refusal)
        return reply

    def _parameters(self, *, streamed: bool) -> dict[str, object]:
        """`max_tokens` is what every compatible server knows; OpenAI itself deprecates it and its reasoning models
        refuse it, so there it is `max_completion_tokens`. A server that says it wants the other gets the other."""
        settings = self._settings
        limit = "max_tokens" if self.server.base_url else "max_completion_tokens"
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
                f"{self.server} said {error.status_code}: {server_words(error)}; lower {self._section}.max_context_tokens"
                f" {self._settings.max_context_tokens}, or {self._section}.max_answer_tokens"
                f" {self._settings.max_answer_tokens}."
            )
        return self.server.explain(error)

    def left_out(self) -> Iterator[str]:
        """The settings that the server refused, so far."""
        if "temperature" in self._adapted:
            yield f"{self._section}.temperature {self._settings.temperature:g}"

    def usage(self, reply: Reply, messages: Sequence[dict[str, str]]) -> tuple[Usage, list[str]]:
        """What `reply` consumed, and notes where that is not certain."""
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
        known = (0.0, 0.0) if self.server.base_url else generation_price(settings.model)
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
