"""A local HTTP server that speaks OpenAI's protocol, refuses what OpenAI refuses, and fails on command.

Vectors are hashed bags of words (`rag_assets.embedding.hashing`), so texts that share words are near. It also runs as a
process of its own, so that a test can kill its client and count what was sent:

    python -m rag_assets_tests.fakes --port 8001 --log embedded.jsonl
"""

import argparse
import base64
import json
import re
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from rag_assets.embedding.hashing import hashed_bags
from rag_assets.embedding.provider import Vectors

Malformation = Literal[
    "fewer_vectors",  # the last vector is missing
    "shuffled",  # in reverse, each with its right `index`: legal, and counted as embedded
    "no_index",  # in order, without `index`
    "same_index",  # every `index` is 0
    "no_usage",  # legal for many servers
    "nan",
    "zero",
    "wrong_size",  # every vector is one number short
    "mixed_sizes",  # the last vector is one number short
    "truncated_json",
    "not_json",
    "reset",  # the connection is cut without a reply
    "stall",  # half of the reply, then nothing
]
_LEGAL: set[Malformation] = {"shuffled", "no_index", "no_usage"}


@dataclass(frozen=True)
class Request:
    """What a client sent: `path` such as `/v1/embeddings`, the parsed `body`, `headers` with lower-case names."""

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Refusal:
    """An error as OpenAI writes it."""

    status: int
    message: str
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        kinds = {401: "invalid_request_error", 429: "requests", 500: "server_error"}
        kind = self.code if self.code == "insufficient_quota" else kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


class FakeOpenAI:
    """`with FakeOpenAI() as fake:` serves `fake.base_url` until the block ends. Attributes may be set at any time."""

    def __init__(
        self,
        *,
        dimensions: int = 64,
        latency_seconds: float = 0.0,
        chat_reply: str | Callable[[list[dict[str, Any]]], str] = "This is the fake's answer [1].",
        port: int = 0,
        log: Path | None = None,
    ) -> None:
        self.dimensions = dimensions
        self.latency_seconds = latency_seconds
        self.chat_reply = chat_reply
        self.api_key: str | None = None  # when set, any other key is refused with 401
        self.count_tokens: Callable[[str], int] = lambda text: len(text) // 4
        self.max_inputs = 2048
        self.max_tokens = 300_000
        self.max_tokens_per_input = 8192
        self.vectors_of: Callable[[Sequence[str], int], Vectors] = hashed_bags
        self.embedded_texts: list[str] = []
        self.requests: list[Request] = []
        self._log = log
        self._refused_substring: str | None = None
        self._failures: list[tuple[str, Refusal]] = []
        self._malformations: list[Malformation] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and cut every open connection."""
        self._server.shutdown()
        self._server.server_close()
        self._server.cut_connections()

    def fail_next(
        self,
        status: int,
        *,
        code: str | None = None,
        message: str = "The fake was told to fail.",
        headers: Mapping[str, str] | None = None,
        times: int = 1,
        path: str = "/embeddings",
    ) -> None:
        """Answer the next `times` requests whose path ends in `path` with this error."""
        with self._lock:
            self._failures += [(path, Refusal(status, message, code, headers or {}))] * times

    def malform_next(self, how: Malformation, *, times: int = 1) -> None:
        """Spoil the next `times` embeddings that would have succeeded."""
        with self._lock:
            self._malformations += [how] * times

    def refuse_texts_with(self, substring: str | None) -> None:
        """400 for any embeddings request with an input that holds `substring`; None accepts everything again."""
        self._refused_substring = substring

    def recover(self) -> None:
        """Forget every failure that was asked for."""
        with self._lock:
            self._failures.clear()
            self._malformations.clear()
        self._refused_substring = None

    def requests_to(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.path.endswith(path)]

    # What the handler asks, in the order of a request.

    def receive(self, request: Request) -> Refusal | None:
        with self._lock:
            self.requests.append(request)
            for number, (path, refusal) in enumerate(self._failures):
                if request.path.endswith(path):
                    del self._failures[number]
                    return refusal
        if self.api_key is not None and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return Refusal(401, "Incorrect API key provided.", "invalid_api_key")
        return None

    def refuse_inputs(self, texts: Sequence[str]) -> Refusal | None:
        tokens = [self.count_tokens(text) for text in texts]
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            return Refusal(400, "'$.input' is invalid: inputs must not be empty.")
        if len(texts) > self.max_inputs:
            return Refusal(400, f"'input' must have at most {self.max_inputs} items, not {len(texts)}.")
        if max(tokens) > self.max_tokens_per_input:
            return Refusal(
                400,
                f"This model's maximum context length is {self.max_tokens_per_input} tokens, however you requested"
                f" {max(tokens)} tokens. Please reduce your prompt.",
            )
        if sum(tokens) > self.max_tokens:
            return Refusal(
                400,
                f"Requested {sum(tokens)} tokens, max {self.max_tokens} tokens per request.",
                "max_tokens_per_request",
            )
        if self._refused_substring is not None and any(self._refused_substring in text for text in texts):
            return Refusal(400, "The input was refused by the content filter.")
        return None

    def next_malformation(self) -> Malformation | None:
        with self._lock:
            return self._malformations.pop(0) if self._malformations else None

    def count_embedded(self, texts: Sequence[str]) -> None:
        with self._lock:
            self.embedded_texts += texts
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(text) + "\n" for text in texts)

    def reply_to(self, messages: list[dict[str, Any]]) -> str:
        return self.chat_reply if isinstance(self.chat_reply, str) else self.chat_reply(messages)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], fake: FakeOpenAI) -> None:
        self.fake = fake
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        for connection in list(self._connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the client was faster
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or gave up waiting, is what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        fake = self.server.fake
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refusal = fake.receive(Request(self.path, body, {name.lower(): value for name, value in self.headers.items()}))
        time.sleep(fake.latency_seconds)
        if refusal is not None:
            self._refuse(refusal)
        elif self.path.endswith("/embeddings"):
            self._embed(body)
        elif self.path.endswith("/chat/completions"):
            self._chat(body)
        else:
            self._refuse(Refusal(404, f"Unknown request URL: POST {self.path}.", "unknown_url"))

    def do_GET(self) -> None:
        if self.path.endswith("/models"):
            self._send(200, {"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "rag_assets"}]})
        else:
            self._refuse(Refusal(404, f"Unknown request URL: GET {self.path}.", "unknown_url"))

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def _embed(self, body: dict[str, Any]) -> None:
        fake = self.server.fake
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        refusal = fake.refuse_inputs(texts)
        if refusal is not None:
            self._refuse(refusal)
            return
        vectors = fake.vectors_of(texts, body.get("dimensions") or fake.dimensions)
        how = fake.next_malformation()
        if how is None or how in _LEGAL:
            fake.count_embedded(texts)
        if how == "reset":
            self._reset()
        elif how == "stall":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"object": "list", "data": [')
            self.wfile.flush()
            self.rfile.read(1)  # until the client gives up
            self.close_connection = True
        elif how == "truncated_json":
            self._send_bytes(200, b'{"object": "list", "data": [{"object": "embedding", "ind')
        elif how == "not_json":
            self._send_bytes(200, b"<html>Welcome</html>", content_type="text/html")
        else:
            tokens = sum(map(fake.count_tokens, texts))
            reply = {
                "object": "list",
                "model": body.get("model"),
                "data": _data(vectors, encoding=body.get("encoding_format", "float"), how=how),
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
            if how == "no_usage":
                del reply["usage"]
            self._send(200, reply)

    def _chat(self, body: dict[str, Any]) -> None:
        text = self.server.fake.reply_to(body["messages"])
        count = self.server.fake.count_tokens
        prompt_tokens = sum(count(str(message.get("content"))) for message in body["messages"])
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": count(text)}
        usage["total_tokens"] = sum(usage.values())
        head = {"id": "chatcmpl-fake", "created": 0, "model": body.get("model")}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            self._send(200, {**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        head["object"] = "chat.completion.chunk"
        wants_usage = (body.get("stream_options") or {}).get("include_usage")
        deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
        deltas += [({"content": piece}, None) for piece in _pieces(text)]
        deltas += [({}, "stop")]
        events: list[dict[str, Any]] = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for delta, reason in deltas
        ]
        if wants_usage:
            events = [{**event, "usage": None} for event in events] + [{**head, "choices": [], "usage": usage}]
        self._stream(events)

    def _stream(self, events: list[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for data in [*map(json.dumps, events), "[DONE]"]:
            self.wfile.write(f"data: {data}\n\n".encode())
            self.wfile.flush()

    def _refuse(self, refusal: Refusal) -> None:
        self._send(refusal.status, refusal.body, headers=refusal.headers)

    def _send(self, status: int, body: dict[str, Any], *, headers: Mapping[str, str] | None = None) -> None:
        self._send_bytes(status, json.dumps(body).encode(), headers=headers)

    def _send_bytes(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


def _data(vectors: Vectors, *, encoding: str, how: Malformation | None) -> list[dict[str, Any]]:
    rows = list(vectors.copy())
    if how == "nan":
        rows[-1][0] = np.nan
    elif how == "zero":
        rows[-1][:] = 0.0
    elif how == "wrong_size":
        rows = [row[:-1] for row in rows]
    elif how == "mixed_sizes":
        rows[-1] = rows[-1][:-1]
    items = [
        {"object": "embedding", "index": number, "embedding": _encode(row, encoding)} for number, row in enumerate(rows)
    ]
    if how == "fewer_vectors":
        items.pop()
    elif how == "shuffled":
        items.reverse()
    elif how == "no_index":
        items = [{name: value for name, value in item.items() if name != "index"} for item in items]
    elif how == "same_index":
        items = [{**item, "index": 0} for item in items]
    return items


def _encode(row: Vectors, encoding: str) -> str | list[float]:
    if encoding == "base64":
        return base64.b64encode(row.astype("<f4").tobytes()).decode()
    return [float(number) for number in row]


def _pieces(text: str) -> list[str]:
    """A word each, and a half of a character in UTF-16 where `text` has halves."""
    return re.split(r"(?<= )|(?=[\ud800-\udfff])", text)


def main() -> None:
    """Serve until the process is told to end."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one; the address is printed")
    parser.add_argument("--log", type=Path, help="every embedded text is appended to this file as a line of JSON")
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--latency-seconds", type=float, default=0.0)
    parser.add_argument("--refuse-texts-with")
    parser.add_argument("--chat-reply", default="This is the fake's answer [1].")
    options = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with FakeOpenAI(
        port=options.port,
        log=options.log,
        dimensions=options.dimensions,
        latency_seconds=options.latency_seconds,
        chat_reply=options.chat_reply,
    ) as fake:
        fake.refuse_texts_with(options.refuse_texts_with)
        print(fake.base_url, flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
