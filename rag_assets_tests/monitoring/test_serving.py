"""A server for Prometheus, asked as Prometheus asks."""

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from rag_assets.errors import ConfigError, RagAssetsError
from rag_assets.monitoring.serving import metrics_server


@contextmanager
def serving(metrics: Callable[[], str]) -> Iterator[str]:
    with metrics_server(metrics, host="127.0.0.1", port=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_metrics_are_served_as_what_they_are():
    with serving(lambda: "rag_assets_up 1\n") as url:
        assert get(f"{url}/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", "rag_assets_up 1\n")
        assert get(f"{url}/metrics?debug=1")[0] == 200


def test_nothing_else_is_served():
    with serving(lambda: "") as url:
        assert get(url) == (404, "text/plain; charset=utf-8", "metrics are at /metrics\n")


def test_a_configuration_that_became_wrong_is_told_and_the_server_goes_on():
    def metrics() -> str:
        if not asked:
            asked.append(True)
            raise ConfigError("corpora.yaml: wrong")
        return "right\n"

    asked: list[bool] = []
    with serving(metrics) as url:
        assert get(f"{url}/metrics") == (503, "text/plain; charset=utf-8", "corpora.yaml: wrong\n")
        assert get(f"{url}/metrics")[2] == "right\n"


def test_a_port_that_is_taken_is_told_with_the_remedy():
    taken = r"metrics cannot be served on 127\.0\.0\.1:\d+: .*; name another port or host"
    with metrics_server(str, host="127.0.0.1", port=0) as first, pytest.raises(RagAssetsError, match=taken):
        metrics_server(str, host="127.0.0.1", port=first.server_port)
