"""What can go wrong with a call to a provider, told apart by status, code and words; and what is done about each.

`python -m rag_assets.calling.failures` prints the tables that docs/failures.md shows.
"""

import email.utils
import math
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import openai
    from pydantic import BaseModel

MALFORMED_ATTEMPTS = 2
"""A reply that makes no sense was paid for; the same request gets one more chance."""

_SPENT = {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"}
_REFUSALS = {400, 413, 422}
_PASSING = {408, 409}
_UNKNOWN_MODEL = re.compile(r"(invalid|unknown|unsupported) model|model\b.*(not found|does not exist)", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"too (large|long|many tokens)|maximum (context|input|sequence|length|tokens)|exceeds? .*(context|length|tokens)"
    r"|larger than the (max )?context|context length",
    re.IGNORECASE,
)
"""How OpenAI, vLLM, Ollama, TEI and (with status 500) llama.cpp say that an input is too long."""
_OVER_RATE_ALONE = "request too large"
"""OpenAI's 429 for one request that holds more tokens than a minute allows: waiting does not help, halving does."""


class FailureKind(StrEnum):
    """What a failed call means. The value is the name under which failures are counted."""

    CREDENTIALS = "credentials"
    MODEL = "model"
    QUOTA = "quota"
    REQUEST = "request"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    CONNECTION = "connection"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    REFUSED = "refused"


@dataclass(frozen=True)
class Policy:
    """`found` is what comes back, `done` what happens then, `bound` when that ends. `passes` says whether the same
    request may succeed later, so that it is worth a retry."""

    found: str
    done: str
    bound: str
    passes: bool = False


POLICIES: Mapping[FailureKind, Policy] = {
    FailureKind.CREDENTIALS: Policy("401, 403", "the run fails and names the variable that holds the key", "no retry"),
    FailureKind.MODEL: Policy(
        "404 `model_not_found`, or 400 with words to that effect", "the run fails and names `model`", "no retry"
    ),
    FailureKind.QUOTA: Policy(
        "402, 429 `insufficient_quota`, `billing_*`", "the run fails and asks for credit or another key", "no retry"
    ),
    FailureKind.REQUEST: Policy(
        "any other 4xx, such as 404 for a wrong `base_url`", "the run fails and names the setting to check", "no retry"
    ),
    FailureKind.RATE_LIMIT: Policy(
        "429",
        "everybody who uses this server, key and model on this machine waits: as long as `Retry-After` says, else as"
        " for 5xx",
        "`max_retries`; at once where it asks for more than `longest_wait_seconds`",
        passes=True,
    ),
    FailureKind.SERVER: Policy(
        "408, 409, 500, 502, 503, 504, 529 and any other 5xx",
        "wait as long as `Retry-After` says, else `first_wait_seconds`, twice as long each time, less up to a half by"
        " chance",
        "`max_retries`, each wait at most `longest_wait_seconds`",
        passes=True,
    ),
    FailureKind.CONNECTION: Policy(
        "no answer within `timeout_seconds`, before or in the middle of the body; a connection refused or reset",
        "as for 5xx",
        "`max_retries`",
        passes=True,
    ),
    FailureKind.MALFORMED: Policy(
        "no JSON, or half of it; fewer vectors than texts; a number that is not finite; a vector of zeros; sizes that"
        " differ",
        "nothing of the reply is kept; the request is sent once more, then the run fails and says what came",
        f"{MALFORMED_ATTEMPTS - 1} retry",
        passes=True,
    ),
    FailureKind.TOO_LARGE: Policy(
        "413; 400, 422 or 500 about too many inputs, tokens or too long a text; 429 `Request too large`",
        "the request is halved and goes on; a single text is cut into windows",
        "until a text of 64 tokens is alone, which is then refused",
    ),
    FailureKind.REFUSED: Policy(
        "any other 400 or 422",
        "the request is halved until the text that it was refused for is alone; its document is set aside with the"
        " reason, the others go on",
        "about 2 · log2(texts) requests",
    ),
}


def kind_of(error: "openai.OpenAIError") -> FailureKind:
    """What `error` means."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        return FailureKind.CONNECTION
    if not isinstance(error, openai.APIStatusError):
        return FailureKind.MALFORMED
    status, words = error.status_code, server_words(error)
    if error.code in _SPENT or status == 402:
        return FailureKind.QUOTA
    if _is_too_large(status, words):
        return FailureKind.TOO_LARGE
    if status == 401:
        return FailureKind.CREDENTIALS
    if error.code == "model_not_found" or error.param == "model" or _UNKNOWN_MODEL.search(words):
        return FailureKind.MODEL if status < 500 else FailureKind.SERVER
    if status == 403:
        return FailureKind.CREDENTIALS
    if status == 429:
        return FailureKind.RATE_LIMIT
    if status in _PASSING or status >= 500:
        return FailureKind.SERVER
    return FailureKind.REFUSED if status in _REFUSALS else FailureKind.REQUEST


def server_words(error: "openai.APIError") -> str:
    """What the server said, in one line."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else body
    return " ".join(str(message or error.message).split())[:500]


def asked_to_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` asks for, written as seconds or as a date; None where it says nothing readable."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[header]) * unit
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    return max(0.0, date.timestamp() - time.time())


def policy_table() -> str:
    """`POLICIES` as Markdown."""
    rows = [f"| {policy.found} | {policy.done} | {policy.bound} |" for policy in POLICIES.values()]
    return "\n".join(["| what comes back | what happens | how often |", "|---|---|---|", *rows])


def step_table() -> str:
    """When each step is tried again unless the configuration says otherwise, as Markdown."""
    from rag_assets.config import HttpRerank, LLMRerank, OpenAIEmbedding, OpenAIGeneration, WebSettings, WriteSettings

    steps: dict[str, tuple[str, type[BaseModel]]] = {
        "fetch a page of the web": ("source", WebSettings),
        "embed": ("embedding", OpenAIEmbedding),
        "write (`index`, `published_index`)": ("write", WriteSettings),
        "rerank, provider `http`": ("rerank", HttpRerank),
        "rerank, provider `llm`": ("rerank", LLMRerank),
        "generate": ("generation", OpenAIGeneration),
    }
    keys = ("max_retries", "first_wait_seconds", "longest_wait_seconds", "timeout_seconds")
    rows = []
    for step, (section, model) in steps.items():
        fields = [model.model_fields.get(key) for key in keys]
        defaults = [f"{field.default:g}" if field else "" for field in fields]
        rows.append(f"| {step} | `{section}` | {' | '.join(defaults)} |")
    head = f"| step | section | {' | '.join(f'`{key}`' for key in keys)} |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def _is_too_large(status: int, words: str) -> bool:
    """Some servers say it with the status of a passing failure."""
    if status == 429:
        return _OVER_RATE_ALONE in words.lower()
    return status == 413 or ((status in _REFUSALS or status >= 500) and bool(_TOO_LONG.search(words)))


if __name__ == "__main__":
    sys.stdout.write(f"{policy_table()}\n\n{step_table()}\n")
