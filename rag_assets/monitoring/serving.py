"""An HTTP server whose only page is `/metrics`, for Prometheus to scrape."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rag_assets.errors import RagAssetsError
from rag_assets.monitoring.exposition import CONTENT_TYPE

_PATH = "/metrics"
_PLAIN = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


def metrics_server(metrics: Callable[[], str], *, host: str, port: int) -> ThreadingHTTPServer:
    """A server on `host` and `port` (0: one that is free) that answers with what `metrics` returns; its `serve_forever` is
    still to be called. Raises `RagAssetsError` where the port cannot be had."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Called by the server."""
            if self.path.partition("?")[0] != _PATH:
                self._answer(HTTPStatus.NOT_FOUND, _PLAIN, f"metrics are at {_PATH}\n")
                return
            try:
                text = metrics()
            except RagAssetsError as error:
                _log.warning("%s", error)
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, f"{error}\n")
                return
            self._answer(HTTPStatus.OK, CONTENT_TYPE, text)

        def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gave it
            """Called by the server for each request."""
            _log.debug(format, *args)

    try:
        return ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise RagAssetsError(f"metrics cannot be served on {host}:{port}: {error}; name another port or host") from None
