"""Dagster's PostgreSQL event log with batched writes and cached partition keys. Named in `deploy/dagster.yaml`; the schema
is the stock one.

The stock storage writes a batch of materializations at once, and every planned event with connections of its own: four
assets, a handful of connections a document. Measured with four partitioned assets: 42 ms of CPU a document before, 7 after
(docs/decisions/0002-batched-event-log.md). To go back, name `PostgresEventLogStorage` of `dagster_postgres` instead: the
tables are the same. Needs the extra `postgres`, and is imported by nobody but Dagster.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._serdes import ConfigurableClassData
from dagster_postgres import PostgresEventLogStorage
from dagster_postgres.utils import get_token_provider_from_config, pg_url_from_config
from sqlalchemy import text
from sqlalchemy.engine import Connection

from rag_assets.dagster_storage import last_of_each_asset
from rag_assets.partition_key_cache import CachedPartitionKeys


class BatchedPostgresEventLogStorage(CachedPartitionKeys, PostgresEventLogStorage):
    """`PostgresEventLogStorage` that writes a batch of any events in one statement, and each asset's row once."""

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> "BatchedPostgresEventLogStorage":
        """Called by Dagster with the `config` of `dagster.yaml`, which is that of the stock storage."""
        return cls(
            inst_data=inst_data,
            postgres_url=pg_url_from_config(config_value),
            should_autocreate_tables=config_value.get("should_autocreate_tables", True),
            token_provider=get_token_provider_from_config(config_value),
        )

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Write `events`. As in the stock storage, that an asset failed to materialize is not kept."""
        kept = [event for event in events if not event.get_dagster_event().is_asset_failed_to_materialize]
        if not kept:
            return
        # Ids come in the order of the rows. The insert is committed at once, as the stock one: who reads on from the last
        # id it saw would miss rows that become visible later.
        insert = SqlEventLogStorageTable.insert().returning(SqlEventLogStorageTable.c.id, sort_by_parameter_order=True)
        with self._connect() as conn:
            rows = [self._event_to_row(event) for event in kept]
            numbered = list(zip(kept, map(int, conn.execute(insert, rows).scalars()), strict=True))
        asset_events = [(event, number) for event, number in numbered if event.dagster_event_type in ASSET_EVENTS]
        if asset_events:
            of_assets = [event for event, _ in asset_events]
            ids = [number for _, number in asset_events]
            with self.index_transaction() as conn:
                self._store_asset_event_tags(conn, of_assets, ids)
                for event, number in last_of_each_asset(of_assets, ids):
                    self._store_asset_event(conn, event, number)
        for event, number in numbered:
            if event.dagster_event_type in ASSET_CHECK_EVENTS:
                self.store_asset_check_event(event, number)

    def read_keys(self, conn: Connection, partitions_def_name: str) -> list[str]:
        """See `CachedPartitionKeys`."""
        query = text("SELECT partition FROM dynamic_partitions WHERE partitions_def_name = :name ORDER BY id")
        return list(conn.execute(query, {"name": partitions_def_name}).scalars())

    def stamp_of_keys(self, conn: Connection, partitions_def_name: str) -> Hashable | None:
        """Their number, and the sum of the hashes of their ids, which PostgreSQL never gives twice."""
        query = text(
            "SELECT count(*), sum(hashint8(id::bigint)) FROM dynamic_partitions WHERE partitions_def_name = :name"
        )
        return tuple(conn.execute(query, {"name": partitions_def_name}).one())
