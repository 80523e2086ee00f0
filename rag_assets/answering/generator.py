"""What every answer generator offers. One module a generator beside this one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self, runtime_checkable

from rag_assets.records import Passage, Turn, Usage


@dataclass(frozen=True)
class Generated:
    """An answer whose `[n]` markers point at `passages[n - 1]` of the call.

    `answered` is false when the passages do not hold the answer; `text` then says so, without markers.
    `prompt_version` says which prompts were sent, None where none were. `read` holds the passages by their numbers as the
    model was given them, where some were cut; `markers_removed` counts the markers that pointed at none, and
    `quotations_unfounded` what stands in quotation marks and in no passage cited.
    """

    text: str
    answered: bool
    markers: Sequence[int]
    usage: Usage = field(default_factory=Usage)
    notes: Sequence[str] = ()
    prompt_version: str | None = None
    read: Mapping[int, Passage] = field(default_factory=dict)
    markers_removed: int = 0
    quotations_unfounded: int = 0


@dataclass(frozen=True)
class Rewritten:
    """A question in words that stand alone, and what that took. `notes` say why it is as it was asked where it could not
    be rewritten."""

    text: str
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


@runtime_checkable
class RewritesQuestions(Protocol):
    """A generator that can put a follow-up into words that stand alone. For one that is not this, a rule does it."""

    def stand_alone(self, question: str, turns: Sequence[Turn]) -> Rewritten:
        """`question` without need of `turns`, which were said before it, oldest first. Raises `ProviderError`."""
        ...
