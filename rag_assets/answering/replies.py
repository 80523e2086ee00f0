"""What a chat model wrote, on its way to becoming an answer: collected, streamed on, and read.

The model writes markers in several spellings and one agreed sign for "not found"; readers see neither half a marker nor
the sign.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rag_assets.answering.citations import Marked, read_markers, settled_length
from rag_assets.embedding.provider import without_lone_surrogates

NOT_IN_SOURCES = "NOT_IN_SOURCES"
"""What the system prompt tells the model to write when the sources do not hold the answer."""
_SIGN = re.compile(rf"[*_`\"'\s]*{NOT_IN_SOURCES}[*_`\"'.]*[ \t]*", re.IGNORECASE)


@dataclass
class Reply:
    """What came back, as far as it has come. Neither text has a lone surrogate once all has."""

    text: str = ""
    finish_reason: str | None = None
    refusal: str = ""
    usage: Any = None

    @property
    def says_not_found(self) -> bool:
        """Whether the model gave the agreed sign."""
        return _SIGN.search(self.text) is not None


@dataclass
class Stream:
    """Passes on what can no longer change: half a marker, or the beginning of the sign, waits for its end."""

    known: frozenset[int]
    on_text: Callable[[str], None]
    sent: str = field(default="", init=False)

    def follow(self, raw: str) -> None:
        """Show what is settled of all that has come."""
        self._send(read_reply(raw[: min(settled_length(raw), _before_sign(raw))], self.known).text)

    def finish(self, text: str) -> None:
        """Show the rest of the answer."""
        self._send(text)

    def _send(self, text: str) -> None:
        if text.startswith(self.sent) and text != self.sent:
            self.on_text(text[len(self.sent) :])
            self.sent = text


def read_reply(raw: str, known: frozenset[int]) -> Marked:
    """The text without the sign, its markers in one spelling."""
    return read_markers(_SIGN.sub("", raw).lstrip(), known)


def complete_reply(reply: Any) -> Reply:
    """A response that came in one piece."""
    choice = reply.choices[0]
    return Reply(
        text=without_lone_surrogates(choice.message.content or ""),
        finish_reason=choice.finish_reason,
        refusal=without_lone_surrogates(getattr(choice.message, "refusal", None) or ""),
        usage=getattr(reply, "usage", None),
    )


def _before_sign(raw: str) -> int:
    """Where a sign that is still being written may begin."""
    tail = re.search(r"[*_`\"'\s]*([A-Za-z_]*)[*_`\"'.]*\s*$", raw)
    begins = tail is not None and (not tail[1] or NOT_IN_SOURCES.startswith(tail[1].upper()))
    return tail.start() if tail and begins else len(raw)
