"""A server that speaks OpenAI's protocol: its client, and what its failures mean to the person who configured it.

Here belongs what embedding and chat have in common: one call, its limits, and its retries. The `openai` package is
imported when a client is made: it is slow.
"""

import functools
import hashlib
import logging
import math
import os
import random
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rag_assets.calling.failures import MALFORMED_ATTEMPTS, POLICIES, FailureKind, asked_to_wait, kind_of, server_words
from rag_assets.calling.limiting import Limiter, Limits
from rag_assets.calling.store_limiting import limiter_of
from rag_assets.config import ServerSettings
from rag_assets.errors import ProviderError
from rag_assets.wording import count

if TYPE_CHECKING:
    import openai
    import tenacity
    from openai._legacy_response import LegacyAPIResponse

_PLACEHOLDER_KEY = "none"
_log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")


class MalformedReplyError(Exception):
    """A reply that is no answer to what was asked; `str()` says what came instead."""


class OpenAIServer:
    """The server that a section of a corpus names. Safe to use from many threads. Nothing is sent later than
    `give_up_seconds` after a call began, where they are given."""

    def __init__(
        self,
        section: Literal["embedding", "generation", "rerank"],
        settings: ServerSettings,
        *,
        model: str,
        give_up_seconds: float | None = None,
    ) -> None:
        self.settings = settings
        self._give_up_seconds = give_up_seconds
        self._section = section
        self._model = model

    @property
    def base_url(self) -> str | None:
        """The address from the settings, else from `OPENAI_BASE_URL`, as OpenAI's own clients do; None is OpenAI."""
        return self.settings.base_url or os.environ.get("OPENAI_BASE_URL") or None

    def __str__(self) -> str:
        return f"The {self._section} server {self.base_url or 'api.openai.com'}"

    def call(
        self, send: Callable[["openai.OpenAI"], "LegacyAPIResponse[T]"], read: Callable[[T], R], *, tokens: int
    ) -> R:
        """What `read` makes of the reply to `send`, sent once the limits allow a request of about `tokens`.

        `send` gets a client that does not retry; `read` raises `MalformedReplyError` for a reply that is no answer.
        Failures that may pass are tried again as `failures.POLICIES` says. Raises the last `openai.APIError` or
        `MalformedReplyError`, `ProviderError` where there is no key or no usable address, and `TimeoutError` when the
        limits let nothing through for `give_up_seconds`.
        """
        import tenacity

        ends = time.monotonic() + (self._give_up_seconds or math.inf)

        def attempt() -> R:
            with self._limiter.request(tokens, until=ends):
                reply = send(self._client)
            self._limiter.learn(reply.headers, tokens=tokens)
            return read(_parsed(reply))

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception(self._may_pass),
            stop=self._is_last,
            wait=self._wait,
            before_sleep=self._tell,
            reraise=True,
        )(attempt)

    def _may_pass(self, error: BaseException) -> bool:
        kind = _kind(error)
        if kind is None or not POLICIES[kind].passes:
            return False
        return (_asked(error) or 0.0) <= self.settings.longest_wait_seconds

    def _is_last(self, state: "tenacity.RetryCallState") -> bool:
        attempts = self.settings.max_retries + 1
        if _kind(_error_of(state)) is FailureKind.MALFORMED:
            attempts = min(attempts, MALFORMED_ATTEMPTS)
        begins = (state.seconds_since_start or 0.0) + state.upcoming_sleep
        too_late = self._give_up_seconds is not None and begins >= self._give_up_seconds
        return too_late or state.attempt_number >= attempts

    def _wait(self, state: "tenacity.RetryCallState") -> float:
        error, settings = _error_of(state), self.settings
        seconds = _asked(error)
        if seconds is None:
            longest = min(
                settings.first_wait_seconds * 2.0 ** (state.attempt_number - 1), settings.longest_wait_seconds
            )
            seconds = longest * random.uniform(0.5, 1.0)  # noqa: S311 - to spread requests, not to guard secrets
        if _kind(error) is FailureKind.RATE_LIMIT:
            self._limiter.pause(seconds)
        return seconds

    def _tell(self, state: "tenacity.RetryCallState") -> None:
        wait = state.next_action.sleep if state.next_action else 0.0
        _log.info(
            "%s: %s (attempt %d of %d); the next in %.1f s",
            self,
            _brief(_error_of(state)),
            state.attempt_number,
            self.settings.max_retries + 1,
            wait,
        )

    @functools.cached_property
    def _client(self) -> "openai.OpenAI":
        base_url, key = self.base_url, self._key()
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise ProviderError(f"{self._section}.base_url is {base_url!r}; it must start with http:// or https://.")

        import openai

        header = self.settings.api_key_header
        hooks = {"request": [_moving_the_key(header, key)]} if header else {}
        client = openai.OpenAI(
            api_key=key,
            base_url=base_url,
            timeout=self.settings.timeout_seconds,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(event_hooks=hooks),
        )
        weakref.finalize(self, client.close)
        return client

    @functools.cached_property
    def _limiter(self) -> Limiter:
        settings = self.settings
        key = hashlib.sha256(os.environ.get(settings.api_key_env, "").encode()).hexdigest()
        return limiter_of(
            f"{self.base_url} {key} {self._section} {self._model}",
            Limits(settings.concurrency, settings.requests_per_minute, settings.tokens_per_minute),
        )

    def _key(self) -> str:
        variable = self.settings.api_key_env
        key = os.environ.get(variable, "").strip()
        if not key and self.base_url is None:
            raise ProviderError(
                f"The environment variable {variable} is not set, and OpenAI needs a key: set it, name another variable"
                f" with {self._section}.api_key_env or a server of your own with {self._section}.base_url, or choose"
                f" another {self._section}.provider."
            )
        if not (key.isascii() and key.isprintable()):
            raise ProviderError(f"The environment variable {variable} holds characters that no key has; set it again.")
        return key or _PLACEHOLDER_KEY

    def explain(self, error: "openai.APIError | MalformedReplyError") -> ProviderError:
        """What `error` means when it is no text's fault, and what to do."""
        import openai

        section, settings = self._section, self.settings
        attempts = count(settings.max_retries + 1, "attempt")
        kind = _kind(error) or FailureKind.REQUEST

        def told(message: str) -> ProviderError:
            return ProviderError(message, kind=kind)

        if isinstance(error, MalformedReplyError):
            return told(
                f"{self} answered for {section}.model {self._model!r} with {error}; nothing of it was kept; check"
                f" {section}.base_url and {section}.model."
            )
        if isinstance(error, openai.APITimeoutError):
            return told(
                f"{self} did not answer within {settings.timeout_seconds:g} s ({attempts}); check that it is well, or"
                f" raise {section}.timeout_seconds."
            )
        if isinstance(error, openai.APIConnectionError):
            cause = error.__cause__ or error
            return told(
                f"{self} cannot be reached ({type(cause).__name__}: {cause}; {attempts}); check that it runs, and"
                f" {section}.base_url."
            )
        reply = f"{self} said {getattr(error, 'status_code', 'while it answered')}: {server_words(error)}"
        if not isinstance(error, openai.APIStatusError):
            return told(f"{reply}; try again, and see the server's log.")
        key = f"the key in ${settings.api_key_env} ({section}.api_key_env)"
        match kind:
            case FailureKind.QUOTA:
                return told(f"{reply}; the account has no credit left: add some, or replace {key}.")
            case FailureKind.MODEL:
                return told(f"{reply}; check {section}.model {self._model!r}, and what {key} may use.")
            case FailureKind.CREDENTIALS if error.status_code == 403:
                return told(f"{reply}; {key} may not use {section}.model {self._model!r}, or not from here.")
            case FailureKind.CREDENTIALS:
                return told(f"{reply}; check {key}.")
            case FailureKind.RATE_LIMIT | FailureKind.SERVER:
                wait = asked_to_wait(error.response.headers)
                asked = f"; it asks to wait {wait:.0f} s" if wait is not None else ""
                return told(
                    f"{reply} (up to {attempts}{asked}); try again later. For a rate limit, lower"
                    f" {section}.requests_per_minute or {section}.concurrency; for a server of your own, see its log."
                )
        if error.status_code == 404:
            return told(f"{reply}; check {section}.base_url: it usually ends in /v1.")
        return told(f"{reply}; check the settings under {section}.")


def _moving_the_key(header: str, key: str) -> Callable[[Any], None]:
    """What puts `key` into `header` of a request, in place of the bearer token that OpenAI's client sends."""

    def move(request: Any) -> None:
        del request.headers["Authorization"]
        request.headers[header] = key

    return move


def _parsed(reply: "LegacyAPIResponse[T]") -> T:
    """The body of `reply` as the client understands it."""
    import openai

    try:
        return reply.parse()
    except openai.APIConnectionError:
        raise
    except (openai.OpenAIError, ValueError, TypeError, AttributeError, LookupError) as error:
        raise MalformedReplyError(f"what is no JSON of that kind ({type(error).__name__}: {error})") from error


def _kind(error: BaseException | None) -> FailureKind | None:
    """What `error` means; None where it comes from no server."""
    import openai

    if isinstance(error, MalformedReplyError):
        return FailureKind.MALFORMED
    return kind_of(error) if isinstance(error, openai.APIError) else None


def _asked(error: BaseException | None) -> float | None:
    response = getattr(error, "response", None)
    return asked_to_wait(response.headers) if response is not None else None


def _error_of(state: "tenacity.RetryCallState") -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _brief(error: BaseException | None) -> str:
    status = getattr(error, "status_code", None)
    return f"{status}" if status else type(error).__name__
