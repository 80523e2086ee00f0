"""The batched event log on PostgreSQL holds what the stock one holds, and both read each other's tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
import yaml

from rag_assets_tests.platform import REPOSITORY, Platform
from rag_assets_tests.postgres import PASSWORD, PostgresServer
from rag_assets_tests.test_dagster_storage import KEYS, materialize, reads_counted, things, what_it_knows

Database = dict[str, str]


@pytest.fixture(autouse=True)
def _batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "5")


@pytest.fixture
def database(postgres_server: PostgresServer) -> Database:
    return postgres_server.new_database()


@contextmanager
def instance_on(database: Database, folder: Path, *, event_log: str) -> Iterator[dg.DagsterInstance]:
    """The instance of deploy/dagster.yaml, with the stock event log where `event_log` is `stock`."""
    settings = yaml.safe_load((REPOSITORY / "deploy" / "dagster.yaml").read_text(encoding="utf-8"))
    if event_log == "stock":
        settings["event_log_storage"] |= {"module": "dagster_postgres", "class": "PostgresEventLogStorage"}
    folder.mkdir(exist_ok=True)
    (folder / "dagster.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    with mock.patch.dict("os.environ", database), dg.DagsterInstance.from_config(str(folder)) as instance:
        yield instance


def test_batches_leave_what_the_stock_storage_leaves(tmp_path: Path, postgres_server: PostgresServer):
    with instance_on(postgres_server.new_database(), tmp_path, event_log="stock") as stock:
        expected = what_it_knows(stock, materialize(stock))
    with instance_on(postgres_server.new_database(), tmp_path, event_log="batched") as batched:
        assert what_it_knows(batched, materialize(batched)) == expected
    assert expected["partitions"] == KEYS
    assert expected["planned"]


def test_either_storage_reads_what_the_other_wrote(tmp_path: Path, database: Database):
    with instance_on(database, tmp_path, event_log="batched") as batched:
        run_id = materialize(batched)
        expected = what_it_knows(batched, run_id)
    with instance_on(database, tmp_path, event_log="stock") as stock:
        assert what_it_knows(stock, run_id) == expected
        materialize(stock)
    with instance_on(database, tmp_path, event_log="batched") as batched:
        assert len(batched.fetch_materializations(things.key, limit=100).records) == 2 * len(KEYS)


def test_planned_events_are_written_in_batches_too(tmp_path: Path, database: Database):
    """The stock storage opens connections for each planned event: bookkeeping would be six times as slow."""
    with instance_on(database, tmp_path, event_log="batched") as batched:
        storage: Any = batched.event_log_storage
        sizes: list[int] = []
        store_event_batch = storage.store_event_batch

        def counting(events: Any) -> None:
            sizes.append(len(events))
            with mock.patch.object(storage, "store_event", side_effect=AssertionError("one by one")):
                store_event_batch(events)

        with mock.patch.object(storage, "store_event_batch", counting):
            materialize(batched)
    assert sum(sizes) >= 2 * len(KEYS)
    assert max(sizes) == 5


def test_keys_are_read_again_only_when_they_have_changed(tmp_path: Path, database: Database):
    with instance_on(database, tmp_path, event_log="batched") as instance, reads_counted(instance) as reads:
        assert instance.get_dynamic_partitions("things") == []
        instance.add_dynamic_partitions("others", ["o"])
        instance.add_dynamic_partitions("things", ["c", "a", "b"])
        for _ in range(3):
            assert instance.get_dynamic_partitions("things") == ["c", "a", "b"]
        assert reads == ["things"] * 2
        with instance_on(database, tmp_path, event_log="stock") as elsewhere:
            elsewhere.delete_dynamic_partition("things", "c")
            elsewhere.add_dynamic_partitions("things", ["c"])
            assert elsewhere.get_dynamic_partitions("things") == ["a", "b", "c"]
        for _ in range(3):
            assert instance.get_dynamic_partitions("things") == ["a", "b", "c"]
        assert reads == ["things"] * 3


def test_the_password_is_not_kept_in_the_instance(database: Database, platform: Platform):
    """What Dagster hands to other processes names the variable, so each of them needs it."""
    with instance_on(database, platform.dagster_home, event_log="batched") as instance:
        assert PASSWORD not in str(instance.get_ref().to_dict())
