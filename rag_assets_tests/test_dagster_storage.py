"""The batched event log holds what the stock one holds, and both read each other's files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
import yaml
from dagster._core.storage.event_log import SqliteEventLogStorage

from rag_assets.dagster_storage import BatchedSqliteEventLogStorage
from rag_assets_tests.platform import REPOSITORY, Platform

PARTITIONS = dg.DynamicPartitionsDefinition(name="things")
KEYS = [f"thing{number}" for number in range(7)]


@dg.asset(partitions_def=PARTITIONS, backfill_policy=dg.BackfillPolicy.single_run(), code_version="1")
def things(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"count": len(context.partition_keys)}, tags={"colour": "red"})


@dg.asset_check(asset=things)
def things_are_fine() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


DEFINITIONS = dg.Definitions(
    assets=[things], asset_checks=[things_are_fine], jobs=[dg.define_asset_job("make", selection="things")]
)


def instance_with(folder: Path, storage: type[SqliteEventLogStorage]) -> dg.DagsterInstance:
    folder.mkdir(exist_ok=True)
    settings = {
        "telemetry": {"enabled": False},
        "event_log_storage": {
            "module": storage.__module__,
            "class": storage.__name__,
            "config": {"base_dir": str(folder / "history" / "runs")},
        },
    }
    (folder / "dagster.yaml").write_text(yaml.safe_dump(settings))
    return dg.DagsterInstance.from_config(str(folder))


def materialize(instance: dg.DagsterInstance) -> str:
    instance.add_dynamic_partitions("things", KEYS)
    tags = {"dagster/asset_partition_range_start": KEYS[0], "dagster/asset_partition_range_end": KEYS[-1]}
    result = DEFINITIONS.resolve_job_def("make").execute_in_process(instance=instance, tags=tags)
    assert result.success
    return result.run_id


def what_it_knows(instance: dg.DagsterInstance, run_id: str) -> dict[str, Any]:
    """What the UI asks for, without ids and times."""
    records = instance.get_records_for_run(run_id, limit=1000).records
    materializations = instance.fetch_materializations(things.key, limit=100).records
    check = dg.AssetCheckKey(things.key, "things_are_fine")
    latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([check])[check]
    asset = instance.get_asset_records([things.key])[0].asset_entry
    assert asset.last_materialization is not None
    return {
        "events": [record.event_log_entry.dagster_event_type for record in records],
        "materialized": sorted(instance.get_materialized_partitions(things.key)),
        "partitions": sorted(str(record.partition_key) for record in materializations),
        "metadata": [record.asset_materialization.metadata["count"].value for record in materializations],  # type: ignore[union-attr]
        "tags": [record.asset_materialization.tags["colour"] for record in materializations],  # type: ignore[index,union-attr]
        # Dagster materializes the partitions of a run in no particular order.
        "last_of_asset": asset.last_materialization.get_dagster_event().partition in KEYS,
        "last_run": asset.last_run_id == run_id,
        "check": latest.status.value,
        "planned": instance.event_log_storage.get_latest_planned_materialization_info(things.key) is not None,
    }


@pytest.fixture(autouse=True)
def _batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "5")


def test_batches_leave_what_the_stock_storage_leaves(tmp_path: Path):
    with instance_with(tmp_path / "stock", SqliteEventLogStorage) as stock:
        expected = what_it_knows(stock, materialize(stock))
    with instance_with(tmp_path / "batched", BatchedSqliteEventLogStorage) as batched:
        assert isinstance(batched.event_log_storage, BatchedSqliteEventLogStorage)
        assert what_it_knows(batched, materialize(batched)) == expected
    assert expected["partitions"] == KEYS
    assert expected["last_of_asset"]


def test_either_storage_reads_what_the_other_wrote(tmp_path: Path):
    with instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as batched:
        run_id = materialize(batched)
        expected = what_it_knows(batched, run_id)
    with instance_with(tmp_path / "home", SqliteEventLogStorage) as stock:
        assert what_it_knows(stock, run_id) == expected
        materialize(stock)
    with instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as batched:
        assert len(batched.fetch_materializations(things.key, limit=100).records) == 2 * len(KEYS)


def test_keys_come_in_the_order_in_which_they_were_added(tmp_path: Path):
    def keys_of(storage: type[SqliteEventLogStorage]) -> list[str]:
        with instance_with(tmp_path / storage.__name__, storage) as instance:
            instance.add_dynamic_partitions("others", ["b", "o"])
            instance.add_dynamic_partitions("things", ["c", "a", "b"])
            instance.delete_dynamic_partition("things", "c")
            instance.add_dynamic_partitions("things", ["c", "a"])
            assert instance.get_dynamic_partitions("nothing") == []
            return list(instance.get_dynamic_partitions("things"))

    assert keys_of(BatchedSqliteEventLogStorage) == keys_of(SqliteEventLogStorage) == ["a", "b", "c"]


def age_keys(instance: dg.DagsterInstance, *, seconds: int = 5) -> None:
    """Make all partition keys look as if they had been added some seconds ago."""
    storage: Any = instance.event_log_storage
    with storage.index_connection() as conn:
        older = f"datetime(create_timestamp, '-{seconds} seconds')"
        conn.exec_driver_sql(f"UPDATE dynamic_partitions SET create_timestamp = {older}")


@contextmanager
def reads_counted(instance: dg.DagsterInstance) -> Iterator[list[str]]:
    """The names of the definitions whose keys are read from the database."""
    storage: Any = instance.event_log_storage
    names: list[str] = []
    read_keys = storage.read_keys

    def counting(conn: Any, name: str) -> Any:
        names.append(name)
        return read_keys(conn, name)

    with mock.patch.object(storage, "read_keys", counting):
        yield names


def test_keys_are_read_again_only_when_they_have_changed(tmp_path: Path):
    with instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as instance:
        instance.add_dynamic_partitions("things", ["a", "b", "c"])
        instance.add_dynamic_partitions("others", ["o"])
        with reads_counted(instance) as reads:
            for _ in range(3):
                assert instance.get_dynamic_partitions("things") == ["a", "b", "c"]
            assert reads == ["things"] * 3  # they may be replaced within this second
            age_keys(instance)
            for _ in range(3):
                assert instance.get_dynamic_partitions("things") == ["a", "b", "c"]
            assert reads == ["things"] * 4
            with instance_with(tmp_path / "home", SqliteEventLogStorage) as elsewhere:
                elsewhere.delete_dynamic_partition("things", "b")
            assert instance.get_dynamic_partitions("things") == ["a", "c"]
            assert instance.get_dynamic_partitions("things") == ["a", "c"]
            assert reads == ["things"] * 5
            assert instance.get_dynamic_partitions("nothing") == []


def test_keys_that_took_the_places_of_others_are_seen(tmp_path: Path):
    """SQLite gives ids again: as many keys, the same last id and the same last key."""
    with instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as instance:
        instance.add_dynamic_partitions("things", ["a", "b", "c"])
        age_keys(instance)
        assert instance.get_dynamic_partitions("things") == ["a", "b", "c"]
        with instance_with(tmp_path / "home", SqliteEventLogStorage) as elsewhere:
            elsewhere.delete_dynamic_partition("things", "b")
            elsewhere.delete_dynamic_partition("things", "c")
            elsewhere.add_dynamic_partitions("things", ["d", "c"])
        assert instance.get_dynamic_partitions("things") == ["a", "d", "c"]


def test_keys_that_come_while_others_are_read_are_not_kept_when_they_go_again(tmp_path: Path):
    with (
        instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as instance,
        instance_with(tmp_path / "home", SqliteEventLogStorage) as elsewhere,
    ):
        instance.add_dynamic_partitions("things", ["a", "b"])
        age_keys(instance)
        storage: Any = instance.event_log_storage
        read_keys = storage.read_keys

        def read_late(conn: Any, name: str) -> Any:
            elsewhere.add_dynamic_partitions("things", ["short-lived"])
            return read_keys(conn, name)

        with mock.patch.object(storage, "read_keys", read_late):
            assert instance.get_dynamic_partitions("things") == ["a", "b", "short-lived"]
        elsewhere.delete_dynamic_partition("things", "short-lived")
        assert instance.get_dynamic_partitions("things") == ["a", "b"]


def test_what_a_caller_does_to_its_keys_is_not_seen_by_the_next(tmp_path: Path):
    with instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as instance:
        instance.add_dynamic_partitions("things", ["a", "b"])
        age_keys(instance)
        for _ in range(2):
            keys = instance.get_dynamic_partitions("things")
            assert keys == ["a", "b"]
            list.clear(keys)


def test_tags_of_a_batch_belong_to_the_events_of_the_batch(tmp_path: Path):
    """They are kept beside the events, by their ids, which SQLite is not asked for one by one."""
    with instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as batched:
        materialize(batched)
        materialize(batched)
        records = batched.fetch_materializations(things.key, limit=100).records
        assert len(records) == 2 * len(KEYS)
        for record in records:
            assert record.asset_materialization is not None
            [tags] = batched.event_log_storage.get_event_tags_for_asset(things.key, filter_event_id=record.storage_id)
            assert tags.items() <= dict(record.asset_materialization.tags or {}).items()
            assert "dagster/data_version" in tags


def test_dagster_hands_over_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Fails when Dagster stops to batch, or batches under another setting: bookkeeping would be six times as slow."""
    sizes: list[int] = []
    store_event_batch = BatchedSqliteEventLogStorage.store_event_batch

    def counting(self: BatchedSqliteEventLogStorage, events: Any) -> None:
        sizes.append(len(events))
        store_event_batch(self, events)

    monkeypatch.setattr(BatchedSqliteEventLogStorage, "store_event_batch", counting)
    with instance_with(tmp_path / "home", BatchedSqliteEventLogStorage) as batched:
        materialize(batched)
    assert sum(sizes) >= 2 * len(KEYS)
    assert max(sizes) == 5


def test_importing_the_package_turns_batches_on():
    assert int(os.environ["DAGSTER_EVENT_BATCH_SIZE"]) > 0


def test_our_dagster_yaml_works_in_another_home(platform: Platform):
    with platform.instance() as instance:
        assert isinstance(instance.event_log_storage, BatchedSqliteEventLogStorage)
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
    assert yaml.safe_load((REPOSITORY / "dagster.yaml").read_text())["event_log_storage"]["config"] == {}
    platform.write("a.md", "Some text.")
    platform.ingest()
    assert (platform.dagster_home / "history" / "runs" / "index.db").exists()
