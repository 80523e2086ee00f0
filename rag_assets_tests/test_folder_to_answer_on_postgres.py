"""The specification again, with the Dagster instance of deploy/dagster.yaml on a PostgreSQL server."""

from pathlib import Path

import pytest

from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform
from rag_assets_tests.postgres import PostgresServer
from rag_assets_tests.test_folder_to_answer import (  # noqa: F401
    Town,
    test_a_bad_document_is_set_aside_in_a_batch_and_fails_alone_when_it_is_retried,
    test_a_folder_becomes_answers_and_stays_true_while_it_changes,
    test_a_tick_asks_for_a_bounded_number_of_documents,
    test_an_unpartitioned_check_lists_what_is_set_aside,
    test_scattered_changes_become_one_run,
    town,
)


@pytest.fixture
def platform(tmp_path: Path, fake: FakeOpenAI, postgres_server: PostgresServer) -> Platform:
    """A platform whose Dagster instance is a database of its own."""
    return Platform(tmp_path, fake, postgres=postgres_server.new_database())


def test_the_instance_is_on_the_server(town: Town):  # noqa: F811
    from rag_assets.dagster_postgres_storage import BatchedPostgresEventLogStorage

    assert isinstance(town.instance.event_log_storage, BatchedPostgresEventLogStorage)
    assert not list(town.platform.dagster_home.rglob("*.db"))
