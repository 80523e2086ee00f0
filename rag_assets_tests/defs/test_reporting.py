"""What an asset tells Dagster, and the one private thing of Dagster that it uses."""

import dagster as dg
import pytest

from rag_assets.defs.reporting import partition_metadata, report_together

PARTITIONS = dg.DynamicPartitionsDefinition(name="pages")
RANGE = {"dagster/asset_partition_range_start": "a.md", "dagster/asset_partition_range_end": "c%2Cd.md"}


@dg.asset(partitions_def=PARTITIONS, backfill_policy=dg.BackfillPolicy.single_run())
def pages(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    partition_metadata(context, {"a.md": {"words": 1}, "b.md": {"words": 2}, "c,d.md": {"words": 3}})
    return dg.MaterializeResult(metadata={"pages": 3})


def materialized(instance: dg.DagsterInstance) -> dict[str, dict[str, object]]:
    instance.add_dynamic_partitions("pages", ["a.md", "b.md", "c%2Cd.md"])
    assert dg.materialize([pages], instance=instance, tags=RANGE).success
    found: dict[str, dict[str, object]] = {}
    for record in instance.fetch_materializations(pages.key, limit=10).records:
        assert record.asset_materialization is not None
        metadata = record.asset_materialization.metadata
        found[str(record.partition_key)] = {label: entry.value for label, entry in metadata.items()}
    return found


EXPECTED = {
    "a.md": {"words": 1, "pages": 3},
    "b.md": {"words": 2, "pages": 3},
    "c%2Cd.md": {"words": 3, "pages": 3},
}


def test_each_partition_has_its_own_metadata(monkeypatch: pytest.MonkeyPatch):
    """Fails when Dagster changes what is private: the public call would be used, and be quadratic."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the slow public call was used")

    monkeypatch.setattr(dg.AssetExecutionContext, "add_asset_metadata", refuse)
    with dg.DagsterInstance.ephemeral() as instance:
        assert materialized(instance) == EXPECTED


def test_another_dagster_gets_the_public_call(monkeypatch: pytest.MonkeyPatch):
    from dagster._core.execution.context.metadata_logging import OutputMetadataAccumulator

    original = OutputMetadataAccumulator.with_additional_asset_metadata
    calls: list[str | None] = []

    def renamed(self: OutputMetadataAccumulator, *args: object, **kwargs: object) -> OutputMetadataAccumulator:
        if args:  # our adapter passes positionally, Dagster by name
            raise AttributeError("with_additional_asset_metadata")
        calls.append(str(kwargs.get("partition_key")))
        return original(self, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(OutputMetadataAccumulator, "with_additional_asset_metadata", renamed)
    with dg.DagsterInstance.ephemeral() as instance:
        assert materialized(instance) == EXPECTED
    assert calls == ["a.md", "b.md", "c%2Cd.md"]


@pytest.mark.parametrize("changed", [None, "name", "signature"])
def test_materializations_that_belong_to_no_run_are_written_with_any_dagster(
    monkeypatch: pytest.MonkeyPatch, changed: str | None
):
    """One by one where what is private has changed; together otherwise, which fails when Dagster changes it."""
    from dagster._core import events

    def other(**_: object) -> None:
        raise AssertionError("this signature takes nothing by position")

    if changed == "name":
        monkeypatch.delattr(events, "DagsterEventBatchMetadata")
    elif changed == "signature":
        monkeypatch.setattr(events, "DagsterEventBatchMetadata", other)
    else:
        monkeypatch.delattr(dg.DagsterInstance, "report_runless_asset_event")
    with dg.DagsterInstance.ephemeral() as instance:
        report_together(instance, (dg.AssetMaterialization("pages", partition=key) for key in ("a", "b")))
        assert instance.get_materialized_partitions(dg.AssetKey("pages")) == {"a", "b"}
