"""`rag-assets ask --stream`: text as it is written, JSON objects, and what is left when it breaks off."""

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rag_assets.streaming import streaming
from rag_assets_tests.platform import Platform

QUESTION = "Who keeps the lighthouse?"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    platform = Platform(tmp_path_factory.mktemp("streaming"))
    platform.write("harbour.md", "The lighthouse is kept by Amara Osei.")
    platform.ingest()
    return platform


@pytest.fixture
def harbour(shared: Platform) -> Platform:
    """A published page, quoted from."""
    shared.configure(generation={"provider": "extractive"})
    return shared


class Slow(BaseHTTPRequestHandler):
    """Streams the beginning of an answer, and then waits until it is told to go on."""

    go_on = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        delta = {"index": 0, "delta": {"content": "The lighthouse\nis "}, "finish_reason": None}
        self.wfile.write(f"data: {json.dumps({'id': '1', 'choices': [delta]})}\n\n".encode())
        self.wfile.flush()
        self.go_on.wait(60)

    def log_message(self, *args: object) -> None:
        """Quiet."""


def test_json_is_streamed_as_pieces_and_then_the_record(harbour: Platform):
    outcome = harbour.run("ask", QUESTION, "--stream", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    *pieces, last = map(json.loads, outcome.out.splitlines())
    assert {piece["event"] for piece in pieces} == {"text"}
    assert "".join(piece["text"] for piece in pieces) == last["answer"]
    assert last.pop("event") == "answer"
    whole = harbour.ask(QUESTION)
    assert set(last) == set(whole)
    assert last["citations"] == whole["citations"]


def test_text_is_streamed_and_then_its_citations(harbour: Platform):
    streamed, whole = harbour.run("ask", QUESTION, "--stream").out, harbour.run("ask", QUESTION).out
    answer, _, rest = streamed.partition("\n")
    assert whole.startswith(f"{answer}\n")
    assert "[1] harbour.md:1-1" in rest


def test_what_could_command_the_terminal_is_not_streamed():
    written: list[str] = []
    with streaming(written.append, as_json=False) as on_text:
        on_text("a\x1b]0;owned\x07b\n")
    assert "".join(written) == "a\ufffd]0;owned\ufffdb\n"
    with streaming(written.append, as_json=True) as on_text:
        on_text("\x1bé\n")
    assert written[-1] == '{"event": "text", "text": "\\u001bé\\n"}\n'


def test_text_that_breaks_off_ends_its_line():
    for begun, as_json, expected in ((True, False, ["Half", "\n"]), (False, False, []), (True, True, 1)):
        written: list[str] = []
        with pytest.raises(RuntimeError), streaming(written.append, as_json=as_json) as on_text:
            if begun:
                on_text("Half")
            raise RuntimeError
        assert (written if isinstance(expected, list) else len(written)) == expected


@pytest.mark.parametrize("options", [["--stream"], ["--stream", "--json"]])
def test_an_interruption_in_the_middle_is_told_and_nothing_is_kept(harbour: Platform, options: list[str]):
    Slow.go_on.clear()
    kept = harbour.store.answers().read(["question"]).num_rows
    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/v1"
        harbour.configure(generation={"provider": "openai", "base_url": address, "model": "slow"})
        process = subprocess.Popen(
            [sys.executable, "-m", "rag_assets", "ask", QUESTION, *options],
            env={**os.environ, **harbour.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "The lighthouse" in first
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        Slow.go_on.set()
        server.shutdown()
    assert process.returncode == 130
    assert err == "rag-assets: interrupted; the answer is not finished, and is not kept\n"
    assert out.endswith("\n") or "--json" in options
    assert harbour.store.answers().read(["question"]).num_rows == kept
