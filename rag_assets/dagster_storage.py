"""Dagster's SQLite event log with batched writes and cached partition keys. Named in `dagster.yaml`; the schema is
the stock one.

Dagster hands materialization and planned events over in batches once `DAGSTER_EVENT_BATCH_SIZE` is set. The SQLite storage
inherits a loop of one connection and one commit an event. Measured with four partitioned assets: 66 ms of CPU a document
before, 11 after (docs/benchmarks.md). To go back, delete `event_log_storage` from `dagster.yaml`: the files are the same.
The same for PostgreSQL is in `dagster_postgres_storage.py`.
"""

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from sqlalchemy.engine import Connection

from rag_assets.partition_key_cache import CachedPartitionKeys

# Read by Dagster at every call. Everyone who opens the instance imports this module first: a run, the daemon that plans
# its materializations, the webserver.
os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", "500")

_COUNT = "SELECT count(*), max(id) FROM dynamic_partitions WHERE partitions_def_name = ?"
_ADDED_AT = """
    SELECT create_timestamp, create_timestamp < datetime('now', '-1 second') FROM dynamic_partitions WHERE id = ?
"""


class BatchedSqliteEventLogStorage(CachedPartitionKeys, SqliteEventLogStorage):
    """`SqliteEventLogStorage` that writes a batch of events in one transaction for each of its two databases."""

    @classmethod
    def config_type(cls) -> Any:
        """`base_dir` may be left out: the place of the stock storage, so that this file serves in any `DAGSTER_HOME`."""
        return {"base_dir": dg.Field(dg.StringSource, is_required=False)}

    @classmethod
    def from_config_value(  # type: ignore[override]  # the parent names its own class here
        cls, inst_data: ConfigurableClassData | None, config_value: dict[str, str]
    ) -> "BatchedSqliteEventLogStorage":
        """Called by Dagster with the `config` of `dagster.yaml`."""
        return cls(inst_data=inst_data, base_dir=config_value.get("base_dir") or _default_base_dir())

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Write `events`, all of one run."""
        rows = [self._event_to_row(event) for event in events]
        with self.run_connection(events[0].run_id) as conn:
            conn.execute(SqlEventLogStorageTable.insert(), rows)
        asset_events = [
            (event, row) for event, row in zip(events, rows, strict=True) if event.dagster_event_type in ASSET_EVENTS
        ]
        if asset_events:
            self._mirror(asset_events)
        for event in events:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                with self.index_connection() as conn:
                    event_id = _ids(conn, [self._event_to_row(event)])[0]
                self.store_asset_check_event(event, event_id)

    def read_keys(self, conn: Connection, partitions_def_name: str) -> list[str]:
        """See `CachedPartitionKeys`."""
        query = "SELECT partition FROM dynamic_partitions WHERE partitions_def_name = ? ORDER BY id"
        # Past SQLAlchemy, whose rows take three times as long: 250 ms for 100,000 keys.
        return [key for (key,) in _cursor(conn).execute(query, (partitions_def_name,))]

    def stamp_of_keys(self, conn: Connection, partitions_def_name: str) -> Hashable | None:
        """Their number, and the id of the last one with the second in which it was added.

        SQLite gives each row the id after the highest. So the last key is another one after any addition, or the same id
        has come again in a later second. Keys of this second and the one before have no stamp.
        """
        count, last = _cursor(conn).execute(_COUNT, (partitions_def_name,)).fetchone()
        if last is None:
            return count, None, None
        row = _cursor(conn).execute(_ADDED_AT, (last,)).fetchone()
        if row is None:  # another process deleted it between the two statements
            return None
        added_at, is_over = row
        return (count, last, added_at) if is_over else None

    def _mirror(self, events: Sequence[tuple[EventLogEntry, Mapping[str, Any]]]) -> None:
        """Write asset events to the database that all runs share."""
        with self.index_transaction() as conn:
            ids = _ids(conn, [row for _, row in events])
            asset_events = [event for event, _ in events]
            self._store_asset_event_tags(conn, asset_events, ids)
            for event, event_id in last_of_each_asset(asset_events, ids):
                self._store_asset_event(conn, event, event_id)


def last_of_each_asset(events: Sequence[EventLogEntry], ids: Sequence[int]) -> list[tuple[EventLogEntry, int]]:
    """The last event of each type of each asset, with its id: what the row of an asset is updated with. Ordered by asset,
    so that two runs lock the rows of their assets in one order."""
    last: dict[tuple[str, str], tuple[EventLogEntry, int]] = {}
    for event, event_id in zip(events, ids, strict=True):
        asset_key = event.get_dagster_event().asset_key
        if asset_key is not None:
            last[asset_key.to_string(), event.get_dagster_event().event_type_value] = (event, event_id)
    return [last[key] for key in sorted(last)]


def _ids(conn: Connection, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Insert `rows` into the event log and return their ids. SQLite has one writer at a time and gives each row the next id,
    so that the last one tells all. To ask for them makes a statement of every row, which takes ten times as long."""
    conn.execute(SqlEventLogStorageTable.insert(), rows)
    last = int(conn.exec_driver_sql("SELECT last_insert_rowid()").scalar_one())
    return list(range(last - len(rows) + 1, last + 1))


def _cursor(conn: Connection) -> Any:
    return conn.connection.cursor()


def _default_base_dir() -> str:
    # Without a home, the dagster.yaml that named this class is in the working folder, which all processes of `dagster dev`
    # share. A temporary folder would be another one in each of them: the daemon would not see what a sensor added.
    return str(Path(os.environ.get("DAGSTER_HOME") or Path.cwd()) / "history" / "runs")
