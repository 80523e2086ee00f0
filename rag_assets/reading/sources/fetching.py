"""One page of the web at a time, politely: few retries, waits that the server asks for, and bounds on size and time.

Which pages there are is `web.py`. A page that is gone is told apart from one that cannot be had now: only the first one
is removed from an index.
"""

import hashlib
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import httpx2
import tenacity

from rag_assets.calling.failures import asked_to_wait
from rag_assets.config import WebSettings
from rag_assets.reading.sources.addresses import host_of_url

T = TypeVar("T")
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_GONE = {404, 410}
_MAX_REDIRECTS = 10
# So many failures in a row, and the other pages of a host are not asked for.
_FAILURES_OF_A_HOST = 5
# Last-Modified counts seconds: younger than this by the server's own clock, it may stand for two contents (RFC 9110,
# section 8.8.2.2).
_STRONG_AFTER_SECONDS = 60
# Those whose nanoseconds since 1970 fit into 64 bits. Servers that know no time send 1601 or 9999.
_YEARS = range(1678, 2262)


class PageError(Exception):
    """A page cannot be had now. The message is the reason, as a person reads it."""


class PageGoneError(PageError):
    """The server says that there is no such page."""


class PageTooLargeError(PageError):
    """The page has more bytes than are read. `size` is how many there are at least."""

    def __init__(self, size: int) -> None:
        super().__init__(f"it has at least {size:,} bytes")
        self.size = size


class _PassingError(PageError):
    """A failure after which another attempt may succeed, `wait_seconds` from now where the server says so."""

    def __init__(self, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds


@dataclass(frozen=True)
class Page:
    """What a server tells of a page. `modified` is its Last-Modified and `content_type` its Content-Type; `data` is None
    where only the headers were asked for, and `revision` then None where they tell nothing of the content."""

    revision: str | None
    modified: datetime | None
    data: bytes | None = None
    content_type: str | None = None


class Fetcher:
    """Fetches pages as `settings` say. It may be used by several threads."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._client: httpx2.Client | None = None
        self._lock = threading.Lock()
        self._failures: Counter[str] = Counter()

    def look(self, url: str, *, max_bytes: int) -> Page:
        """The revision of a page, without its body where the headers tell it. Raises `PageError`.

        Some servers know no HEAD, or answer it otherwise than GET, so only GET tells that a page is gone.
        """
        page = self._attempts(url, lambda: self._head(url))
        if page is not None and page.revision is not None:
            return page
        return self._attempts(url, lambda: self._get(url, max_bytes, stop_at_headers=True))

    def get(self, url: str, *, max_bytes: int) -> Page:
        """A page with its body, of at most `max_bytes`. Raises `PageError`."""
        return self._attempts(url, lambda: self._get(url, max_bytes))

    def _head(self, url: str) -> Page | None:
        with self._open("HEAD", url) as response:
            if response.is_success:
                return _page(response)
            self._raise_if_passing(response)
        return None

    def _get(self, url: str, max_bytes: int, *, stop_at_headers: bool = False) -> Page:
        deadline = time.monotonic() + self._settings.timeout_seconds
        with self._open("GET", url) as response:
            self._raise_if_passing(response)
            if response.status_code in _GONE:
                raise PageGoneError(f"the server answers {_status(response)}")
            if not response.is_success:
                raise PageError(f"the server answers {_status(response)}")
            page = _page(response)
            if stop_at_headers and page.revision is not None:
                return page
            data = self._body(response, deadline, max_bytes)
        revision = page.revision or f"sha256:{hashlib.sha256(data).hexdigest()}"
        return Page(revision, page.modified, data, response.headers.get("Content-Type"))

    def _body(self, response: httpx2.Response, deadline: float, max_bytes: int) -> bytes:
        announced = response.headers.get("Content-Length", "")
        if announced.isdigit() and int(announced) > max_bytes:
            raise PageTooLargeError(int(announced))
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if len(data) > max_bytes:
                raise PageTooLargeError(len(data))
            if time.monotonic() > deadline:
                raise PageError(f"it took longer than timeout_seconds {self._settings.timeout_seconds:g}")
        return bytes(data)

    def _attempts(self, url: str, attempt: Callable[[], T]) -> T:
        """What `attempt` returns, tried again after failures that may pass. A host that only fails is left alone."""
        host = host_of_url(url)
        if self._failures[host] >= _FAILURES_OF_A_HOST:
            raise PageError(f"{host} failed {_FAILURES_OF_A_HOST} times in a row, and is left alone for now")
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_PassingError),
            wait=self._wait,
            stop=tenacity.stop_after_attempt(self._settings.max_retries + 1),
            reraise=True,
        )
        try:
            result = retrying(attempt)
        except _PassingError:
            with self._lock:
                self._failures[host] += 1
            raise
        with self._lock:
            self._failures[host] = 0
        return result

    def _raise_if_passing(self, response: httpx2.Response) -> None:
        """A server that asks for a longer wait than the longest is left alone until the next scan."""
        if response.status_code not in _PASSING:
            return
        wait_seconds = asked_to_wait(response.headers)
        reason = f"the server answers {_status(response)}"
        if wait_seconds is not None and wait_seconds > self._settings.longest_wait_seconds:
            raise PageError(f"{reason} and asks to be left alone for {wait_seconds:.0f} s")
        raise _PassingError(reason, wait_seconds)

    def _wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _PassingError) and error.wait_seconds is not None:
            return error.wait_seconds
        doubled = self._settings.first_wait_seconds * 2.0 ** (state.attempt_number - 1)
        return min(doubled, self._settings.longest_wait_seconds)

    @contextmanager
    def _open(self, method: str, url: str) -> Iterator[httpx2.Response]:
        """The response to a request, its body not yet read. What the connection does wrong is told as `PageError`."""
        try:
            with self._connected().stream(method, url) as response:
                yield response
        except httpx2.TooManyRedirects:
            raise PageError(f"it redirects more than {_MAX_REDIRECTS} times, perhaps in a circle") from None
        except httpx2.TimeoutException:
            raise _PassingError(f"no answer within timeout_seconds {self._settings.timeout_seconds:g}") from None
        except httpx2.TransportError as error:
            raise _PassingError(
                f"the connection failed: {' '.join(str(error).split()) or type(error).__name__}"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise PageError(f"{type(error).__name__}: {' '.join(str(error).split())}") from error

    def _connected(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(
                    headers={"User-Agent": self._settings.user_agent},
                    timeout=self._settings.timeout_seconds,
                    follow_redirects=True,
                    max_redirects=_MAX_REDIRECTS,
                )
                weakref.finalize(self, self._client.close)
            return self._client


def _page(response: httpx2.Response) -> Page:
    modified = _moment(response.headers.get("Last-Modified"))
    etag = response.headers.get("ETag")
    if etag:
        return Page(f"etag:{etag}", modified)
    answered = _moment(response.headers.get("Date"))
    if modified and answered and (answered - modified).total_seconds() > _STRONG_AFTER_SECONDS:
        return Page(f"modified:{modified.isoformat()}", modified)
    return Page(None, modified)


def _moment(value: str | None) -> datetime | None:
    if not value:
        return None
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.year not in _YEARS:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _status(response: httpx2.Response) -> str:
    return f"{response.status_code} {response.reason_phrase}".strip()
