"""Dagster's SQLite event log with batched writes. Named in `dagster.yaml`; the schema is the stock one.

Dagster hands materialization and planned events over in batches once `DAGSTER_EVENT_BATCH_SIZE` is set, and PostgreSQL
storage writes them in one transaction. The SQLite storage inherits a loop of one connection and one commit an event.
Measured with four partitioned assets: 66 ms of CPU a document before, 11 after (docs/benchmarks.md). To go back, delete
`event_log_storage` from `dagster.yaml`: the files are the same.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS, DagsterEventType
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData

# Read by Dagster at every call. Everyone who opens the instance imports this module first: a run, the daemon that plans
# its materializations, the webserver.
os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", "500")


class BatchedSqliteEventLogStorage(SqliteEventLogStorage):
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
        with self.run_connection(events[0].run_id) as conn:
            conn.execute(SqlEventLogStorageTable.insert(), [self._event_to_row(event) for event in events])
        asset_events = [event for event in events if event.dagster_event_type in ASSET_EVENTS]
        if asset_events:
            self._mirror(asset_events)
        for event in events:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                with self.index_connection() as conn:
                    event_id = _inserted_id(conn.execute(self.prepare_insert_event(event)))
                self.store_asset_check_event(event, event_id)

    def _mirror(self, events: Sequence[EventLogEntry]) -> None:
        """Write asset events to the database that all runs share, and update each asset once, by its last events."""
        last: dict[tuple[str, DagsterEventType | None], tuple[EventLogEntry, int]] = {}
        with self.index_transaction() as conn:
            ids = [_inserted_id(conn.execute(self.prepare_insert_event(event))) for event in events]
            self._store_asset_event_tags(conn, events, ids)
            for event, event_id in zip(events, ids, strict=True):
                asset_key = event.get_dagster_event().asset_key
                if asset_key is not None:
                    last[asset_key.to_string(), event.dagster_event_type] = (event, event_id)
            for event, event_id in last.values():
                self._store_asset_event(conn, event, event_id)


def _inserted_id(result: Any) -> int:
    return int(result.inserted_primary_key[0])


def _default_base_dir() -> str:
    home = os.environ.get("DAGSTER_HOME")
    if home:
        return str(Path(home) / "history" / "runs")
    # Without a home Dagster keeps all state of the process in a temporary folder, and so do we.
    folder = tempfile.mkdtemp(prefix="rag_assets_events_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
