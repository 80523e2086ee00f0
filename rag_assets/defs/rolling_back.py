"""The job `C_rollback`: readers see an older version of the index again."""

import dagster as dg
from pydantic import Field

from rag_assets.config import CorpusSettings
from rag_assets.defs.jobs import CORPUS_TAG
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.storing.publishing import rollback


class RollbackConfig(dg.Config):
    """The root of the run configuration of `C_rollback`."""

    version: int | None = Field(
        default=None,
        description="The version to go back to, as `rag-assets versions` lists them; by default the one before.",
    )


def rollback_job(corpus: CorpusSettings) -> dg.JobDefinition:
    """`C_rollback` of `corpus`."""

    @dg.op(name=f"{corpus.name}_roll_back", description="Point readers at an older version, whose rows are kept.")
    def rollback_op(context: dg.OpExecutionContext, config: RollbackConfig, store: StoreResource) -> None:
        with failures_told():
            after = rollback(store.open(), corpus.name, config.version)
        context.log_event(
            dg.AssetMaterialization(
                asset_key=[corpus.name, "published_index"],
                metadata={
                    "index_version": after.version,
                    "rolled_back_to": after.changes["rolled_back_to"],
                    "documents": after.documents,
                    "chunks": after.chunks,
                    "generation": after.generation,
                },
            )
        )

    @dg.config_mapping
    def version_at_the_root(config: RollbackConfig) -> dg.RunConfig:
        return dg.RunConfig(ops={f"{corpus.name}_roll_back": config})

    @dg.job(
        name=f"{corpus.name}_rollback",
        config=version_at_the_root,
        executor_def=dg.in_process_executor,
        tags={CORPUS_TAG: corpus.name},
        description=f"Let readers of {corpus.name} see an older version, until a person ingests again.",
    )
    def roll_back() -> None:
        rollback_op()

    return roll_back
