"""A local server with the rerank endpoints of Cohere (`/v2/rerank`, as of Jina and vLLM) and of Text Embeddings Inference
(`/rerank`), which fails on command.

A document scores the share of the question's words that it holds. Results come best first, as they do from real servers.
"""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class FakeRerankServer:
    """`with FakeRerankServer() as fake:` serves `fake.base_url` until the block ends."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.usage: dict[str, Any] = {}
        """What is added to a reply of the first kind."""
        self.replies: list[tuple[int, Any]] = []
        """Status and body (JSON, or bytes as they are) of the next replies, in place of the right ones."""
        self.released = threading.Event()
        self.released.set()
        """Cleared, it lets every request wait until it is set."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.fake = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def base_url(self) -> str:
        return f"{self.address}/v2"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fail_next(self, status: int, message: str = "The fake was told to fail.", *, times: int = 1) -> None:
        """Answer the next requests with an error."""
        self.replies += [(status, {"message": message})] * times

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v2/rerank":
            results = _results(body["query"], body["documents"], "relevance_score")
            return 200, {"id": "fake", "results": results[: body["top_n"]], **self.usage}
        if path == "/rerank":
            return 200, _results(body["query"], body["texts"], "score")
        return 404, {"detail": "Not Found"}


def _results(question: str, documents: list[str], name: str) -> list[dict[str, Any]]:
    words = question.lower().split()
    scored = [(sum(word in text.lower() for word in words) / len(words), index) for index, text in enumerate(documents)]
    return [{"index": index, name: score} for score, index in sorted(scored, key=lambda one: (-one[0], one[1]))]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        fake: FakeRerankServer = self.server.fake  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake.requests.append(body)
        fake.headers.append({name.lower(): value for name, value in self.headers.items()})
        fake.released.wait()
        status, reply = fake.replies.pop(0) if fake.replies else fake.reply(self.path, body)
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # a client that gave up is what the tests are about
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Quiet."""
