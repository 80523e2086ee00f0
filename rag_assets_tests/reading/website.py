"""A website on loopback that answers as it is told, and keeps what it was asked."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

OLD = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass
class Answer:
    """What a path answers: `pieces` are sent one after the other, with `pause_seconds` between them. `head` is the status
    that HEAD is answered with, where it differs. `times` such answers are given, then those of `after`."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    head: int | None = None
    pieces: int = 1
    pause_seconds: float = 0.0
    announced: int | None = None
    times: int | None = None
    after: "Answer | None" = None


class Website:
    """`with Website() as site:` serves `site.url` until the block ends. `site.pages` may be changed at any time."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer] = {}
        self.asked: list[tuple[str, str]] = []
        self.agents: set[str] = set()
        self.at_once = 0
        self.most_at_once = 0
        self.lock = threading.Lock()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            do_HEAD = do_GET  # noqa: N815  # as the server calls it

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def put(self, path: str, body: str | bytes = b"", **how: Any) -> None:
        """Make `path` answer with `body`, an ETag of its content unless `headers` are given."""
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = Answer(data, **{"headers": {"ETag": f'"{hash(data):x}"'}, **how})

    def count(self, method: str, path: str) -> int:
        return self.asked.count((method, path))

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        method, path = request.command, request.path
        with self.lock:
            self.asked.append((method, path))
            self.agents.add(request.headers.get("User-Agent", ""))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            page = self.pages.get(path, Answer(status=404))
            if page.times is not None:
                page.times -= 1
                if page.times <= 0:
                    self.pages[path] = page.after or Answer(status=404)
        try:
            self._send(request, page)
        except (BrokenPipeError, ConnectionResetError):
            request.close_connection = True

    def _send(self, request: BaseHTTPRequestHandler, page: Answer) -> None:
        is_head = request.command == "HEAD"
        whole = page.body * page.pieces
        request.send_response(page.head if is_head and page.head else page.status)
        for name, value in page.headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(whole) if page.announced is None else page.announced))
        if not is_head:
            request.end_headers()
            for _ in range(page.pieces - 1):
                time.sleep(page.pause_seconds)
                request.wfile.write(page.body)
            time.sleep(page.pause_seconds)
        with self.lock:  # before the last of the answer, after which the next request may come
            self.at_once -= 1
        if is_head:
            request.end_headers()
        else:
            request.wfile.write(page.body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
