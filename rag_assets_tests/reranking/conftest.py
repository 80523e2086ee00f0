"""Fixtures of the tests of reranking."""

from collections.abc import Iterator

import pytest

from rag_assets_tests.reranking.rerank_server import FakeRerankServer


@pytest.fixture
def server() -> Iterator[FakeRerankServer]:
    """A rerank endpoint."""
    with FakeRerankServer() as fake:
        yield fake
