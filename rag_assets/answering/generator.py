"""What every answer generator offers. One module a generator beside this one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from rag_assets.records import Passage, Usage


@dataclass(frozen=True)
class Generated:
    """An answer whose `[n]` markers point at `passages[n - 1]` of the call.

    `answered` is false when the passages do not hold the answer; `text` then says so, without markers.
    `prompt_version` says which prompts were sent, None where none were.
    """

    text: str
    answered: bool
    markers: Sequence[int]
    usage: Usage = field(default_factory=Usage)
    notes: Sequence[str] = ()
    prompt_version: str | None = None


class Generator(Protocol):
    """Turns a question and ranked passages into an answer that cites them."""

    @property
    def name(self) -> str:
        """What an answer names as its model, such as `extractive` or `openai/gpt-4o-mini`."""
        ...

    def generate(
        self, question: str, passages: Sequence[Passage], *, on_text: Callable[[str], None] | None = None
    ) -> Generated:
        """Answer `question` from `passages` only. `on_text` receives the answer piece by piece as it comes.

        Raises `rag_assets.errors.ProviderError` when a chat provider fails after its bounded retries.
        """
        ...


@runtime_checkable
class SpeaksAsPersona(Protocol):
    """A generator that sends a prompt, and can add a persona to it. One that is not this answers the same for all."""

    def speaking_as(self, instructions: str) -> Self:
        """The same generator whose system prompt ends in `instructions`."""
        ...
