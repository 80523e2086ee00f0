"""Telling people what failed: one POST to a webhook, in the shape that Slack and its like take, `{"text": …}`.

The address is a secret and comes from the environment. A message that cannot be delivered is never a failure of the work
that it tells of.
"""

import os

import httpx2
import tenacity

from rag_assets.config import NotifySettings

# Slack cuts longer ones.
_LONGEST = 3_000
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class _NotDelivered(Exception):  # noqa: N818 - it says what happened
    """The server was not reached, or may take the message later."""


def notify(settings: NotifySettings | None, text: str) -> str | None:
    """Send `text` to the webhook of `settings`, trying again where that may help. Returns why it could not be delivered,
    None where it was, or nobody is to be told."""
    if settings is None:
        return None
    url = os.environ.get(settings.webhook_env)
    if not url:
        return f"nobody was told: the environment variable {settings.webhook_env} of notify.webhook_env is not set"
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_NotDelivered),
        wait=tenacity.wait_exponential(multiplier=settings.first_wait_seconds),
        stop=tenacity.stop_after_attempt(settings.max_retries + 1),
        reraise=True,
    )
    try:
        status = retrying(_post, url, text[:_LONGEST], timeout=settings.timeout_seconds)
    except _NotDelivered as error:
        return f"nobody was told: the webhook of {settings.webhook_env} {error}"
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        return f"nobody was told: {settings.webhook_env} holds no address of a webhook, such as https://…"
    if status >= 400:
        return f"nobody was told: the webhook of {settings.webhook_env} answers {status}; check its address"
    return None


def _post(url: str, text: str, *, timeout: float) -> int:
    try:
        response = httpx2.post(url, json={"text": text}, timeout=timeout)
    except httpx2.UnsupportedProtocol:
        raise
    except httpx2.TransportError as error:
        raise _NotDelivered(f"cannot be reached ({type(error).__name__})") from error
    if response.status_code in _PASSING:
        raise _NotDelivered(f"answers {response.status_code}")
    return response.status_code
