"""Messages to a webhook: a real local server takes them, and nothing that it does is a failure of the work."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rag_assets.config import NotifySettings
from rag_assets.notifying import notify

VARIABLE = "TEAM_WEBHOOK"


class Webhook:
    """Keeps what it is sent; answers with `statuses` in turn, the last of them again and again."""

    def __init__(self) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.statuses: Sequence[int] = [200]
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.received.append((self.headers["Content-Type"], body))
                self.send_response(webhook.statuses[min(len(webhook.received), len(webhook.statuses)) - 1])
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/services/T0/B0/secret"


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    webhook = Webhook()
    thread = threading.Thread(target=webhook.server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv(VARIABLE, webhook.url)
    yield webhook
    webhook.server.shutdown()
    webhook.server.server_close()
    thread.join()


def settings(**keys: Any) -> NotifySettings:
    return NotifySettings(webhook_env=VARIABLE, first_wait_seconds=0.01, **keys)


def test_a_message_is_one_post_of_a_text(webhook: Webhook):
    assert notify(settings(), "run 1 failed: zwölf") is None
    assert webhook.received == [("application/json", {"text": "run 1 failed: zwölf"})]


def test_nobody_is_told_where_nobody_is_named(webhook: Webhook):
    assert notify(None, "run 1 failed") is None
    assert webhook.received == []


def test_what_may_pass_is_tried_again(webhook: Webhook):
    webhook.statuses = [503, 429, 200]
    assert notify(settings(max_retries=2), "run 1 failed") is None
    assert len(webhook.received) == 3


def test_it_gives_up_and_says_why(webhook: Webhook):
    webhook.statuses = [503]
    problem = notify(settings(max_retries=1), "run 1 failed")
    assert problem == "nobody was told: the webhook of TEAM_WEBHOOK answers 503"
    assert len(webhook.received) == 2


def test_a_refusal_is_not_tried_again(webhook: Webhook):
    webhook.statuses = [404]
    problem = notify(settings(), "run 1 failed")
    assert problem == "nobody was told: the webhook of TEAM_WEBHOOK answers 404; check its address"
    assert len(webhook.received) == 1


def test_a_long_message_is_cut(webhook: Webhook):
    notify(settings(), "x" * 10_000)
    assert len(webhook.received[0][1]["text"]) == 3_000


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "nobody was told: the environment variable TEAM_WEBHOOK of notify.webhook_env is not set"),
        (
            "hooks.example/secret",
            "nobody was told: TEAM_WEBHOOK holds no address of a webhook, such as https://…",
        ),
        ("http://127.0.0.1:9/secret", "nobody was told: the webhook of TEAM_WEBHOOK cannot be reached (ConnectError)"),
        ("http://[::1/secret", "nobody was told: TEAM_WEBHOOK holds no address of a webhook, such as https://…"),
    ],
)
def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch, address: str, problem: str):
    """The address is a secret, so that no message repeats it."""
    monkeypatch.setenv(VARIABLE, address)
    assert notify(settings(max_retries=0), "run 1 failed") == problem
