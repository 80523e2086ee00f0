"""A server that speaks OpenAI's protocol: its client, and what its failures mean to the person who configured it.

Here belongs what embedding and chat have in common. The `openai` package is imported when a client is made: it is slow.
"""

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rag_assets.config import OpenAIEmbedding, OpenAIGeneration
from rag_assets.errors import ProviderError

if TYPE_CHECKING:
    import openai

_PLACEHOLDER_KEY = "none"
_SPENT = {"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"}
_UNKNOWN_MODEL = re.compile(r"(invalid|unknown|unsupported) model|model\b.*(not found|does not exist)", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"too (large|long|many tokens)|maximum (context|input|sequence|length|tokens)|exceeds? .*(context|length|tokens)"
    r"|larger than the (max )?context|context length",
    re.IGNORECASE,
)
"""How OpenAI, vLLM, Ollama, TEI and (with status 500) llama.cpp say that an input is too long."""
_OVER_RATE_ALONE = "request too large"
"""OpenAI's 429 for one request that holds more tokens than a minute allows: waiting does not help, halving does."""


@dataclass(frozen=True)
class OpenAIServer:
    """The server that a section of a corpus (`embedding`, `generation`) names."""

    section: Literal["embedding", "generation"]
    settings: OpenAIEmbedding | OpenAIGeneration

    @property
    def base_url(self) -> str | None:
        """The address from the settings, else from `OPENAI_BASE_URL`, as OpenAI's own clients do; None is OpenAI."""
        return self.settings.base_url or os.environ.get("OPENAI_BASE_URL") or None

    def __str__(self) -> str:
        return f"The {self.section} server {self.base_url or 'api.openai.com'}"

    def client(self) -> "openai.OpenAI":
        """A client; close its connections with `close()`.

        It retries 408, 409, 429, 5xx, timeouts and lost connections; it waits as long as `Retry-After` says, up to two
        minutes, and gives up at once when that asks for more; without it, it waits 0.5 s and then twice as long each
        time, up to 8 s, less a random quarter.
        """
        base_url, key = self.base_url, self._key()
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ProviderError(f"{self.section}.base_url is {base_url!r}; it must start with http:// or https://.")

        import openai

        return openai.OpenAI(
            api_key=key,
            base_url=base_url,
            timeout=self.settings.timeout_seconds,
            max_retries=self.settings.max_retries,
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [_do_not_retry_what_cannot_pass]}),
        )

    def _key(self) -> str:
        variable = self.settings.api_key_env
        key = os.environ.get(variable, "").strip()
        if not key and self.base_url is None:
            raise ProviderError(
                f"The environment variable {variable} is not set, and OpenAI needs a key: set it, name another variable"
                f" with {self.section}.api_key_env or a server of your own with {self.section}.base_url, or choose"
                f" another {self.section}.provider."
            )
        if not (key.isascii() and key.isprintable()):
            raise ProviderError(f"The environment variable {variable} holds characters that no key has; set it again.")
        return key or _PLACEHOLDER_KEY

    def explain(self, error: "openai.APIError") -> ProviderError:
        """What `error` means when it is no text's fault, and what to do."""
        import openai

        settings, section = self.settings, self.section
        attempts = f"{settings.max_retries + 1} attempts"
        if isinstance(error, openai.APITimeoutError):
            return ProviderError(
                f"{self} did not answer within {settings.timeout_seconds:g} s ({attempts}); check that it is well, or"
                f" raise {section}.timeout_seconds."
            )
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            return ProviderError(
                f"{self} cannot be reached ({type(cause).__name__}: {cause}; {attempts}); check that it runs, and"
                f" {section}.base_url."
            )
        reply = f"{self} said {getattr(error, 'status_code', 'while it answered')}: {server_words(error)}"
        if not isinstance(error, openai.APIStatusError):
            return ProviderError(f"{reply}; try again, and see the server's log.")
        key = f"the key in ${settings.api_key_env} ({section}.api_key_env)"
        if error.status_code == 401:
            return ProviderError(f"{reply}; check {key}.")
        if error.code in _SPENT or error.status_code == 402:
            return ProviderError(f"{reply}; the account has no credit left: add some, or replace {key}.")
        if blames_model(error):
            return ProviderError(f"{reply}; check {section}.model {settings.model!r}, and what {key} may use.")
        if error.status_code == 403:
            return ProviderError(f"{reply}; {key} may not use {section}.model {settings.model!r}, or not from here.")
        if error.status_code == 404:
            return ProviderError(f"{reply}; check {section}.base_url: it usually ends in /v1.")
        if error.status_code in {408, 409, 429} or error.status_code >= 500:
            wait = error.response.headers.get("retry-after")
            asked = f"; it asks to wait {wait} s" if wait else ""
            return ProviderError(
                f"{reply} (up to {attempts}{asked}); try again later. For a rate limit, send less at once; for a server"
                " of your own, see its log."
            )
        return ProviderError(f"{reply}; check the settings under {section}.")


def server_words(error: "openai.APIError") -> str:
    """What the server said, in one line."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else body
    return " ".join(str(message or error.message).split())[:500]


def blames_model(error: "openai.APIStatusError") -> bool:
    """Whether a refusal is about the name of the model; some servers answer 400 for that."""
    named = error.code == "model_not_found" or error.param == "model"
    return named or bool(_UNKNOWN_MODEL.search(server_words(error)))


def blames_length(error: "openai.APIStatusError") -> bool:
    """Whether a refusal is about too long an input or too large a request, whatever its status."""
    words = server_words(error)
    return _is_too_large(error.status_code, words) or (
        error.status_code in {400, 413, 422} and (error.status_code == 413 or bool(_TOO_LONG.search(words)))
    )


def _do_not_retry_what_cannot_pass(response: Any) -> None:
    """Tell the client, by the header that it obeys, not to repeat a request that can only fail again.

    An exhausted quota comes as 429 like a rate limit, and llama.cpp says 500 when an input is too long.
    """
    if response.status_code == 429 or response.status_code >= 500:
        response.read()
        try:
            error = json.loads(response.text)["error"]
            code, words = error.get("code"), str(error.get("message"))
        except (ValueError, TypeError, KeyError, AttributeError):  # not an error as OpenAI writes it
            return
        if code in _SPENT or _is_too_large(response.status_code, words):
            response.headers["x-should-retry"] = "false"


def _is_too_large(status: int, words: str) -> bool:
    """Whether a reply that looks like a passing failure means the size of the request."""
    return (status >= 500 and bool(_TOO_LONG.search(words))) or (status == 429 and _OVER_RATE_ALONE in words.lower())
