"""The job `C_remove`: documents lose their partitions, then the rows of the index, then those of the tables."""

import dagster as dg
from pydantic import Field

from rag_assets.config import CorpusSettings
from rag_assets.defs.jobs import CORPUS_TAG
from rag_assets.defs.partitions import delete_keys
from rag_assets.defs.published_index import asked_by_sensor, publication_metadata
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.materializing.index import remove_documents
from rag_assets.storing.publishing import publish


class RemovalConfig(dg.Config):
    """The root of the run configuration of `C_remove`."""

    documents: list[str] = Field(description="Paths of documents, as `rag-assets status --documents` shows them.")
    publish: bool = Field(
        default=True, description="Whether readers lose them at once, or with the publication of a run that follows."
    )


def remove_job_name(corpus: str) -> str:
    """The name of the job that removes documents of `corpus`."""
    return f"{corpus}_remove"


def remove_job(corpus: CorpusSettings) -> dg.JobDefinition:
    """`C_remove` of `corpus`."""

    @dg.op(
        name=f"{corpus.name}_remove_documents",
        description="Delete the partitions of the documents, then their rows, and publish.",
    )
    def remove_op(context: dg.OpExecutionContext, config: RemovalConfig, store: StoreResource) -> None:
        opened = store.open()
        with failures_told():
            # First: who is cut short here is still known, and so found by the next scan, which removes it or gives it back
            # its partition. A partition that nobody knows the document of would stay.
            delete_keys(context.instance, corpus.name, config.documents, shards=corpus.shards)
            remove_documents(opened, corpus, config.documents)
            if config.publish:
                result = publish(opened, corpus, run_id=context.run_id, resume=not asked_by_sensor(context.run))
                metadata = publication_metadata(opened, corpus, result, run_id=context.run_id)
                context.log_event(
                    dg.AssetMaterialization(
                        asset_key=[corpus.name, "published_index"],
                        metadata=metadata | {"removed": len(config.documents)},
                    )
                )
        context.log.info("removed %d documents", len(config.documents))

    @dg.config_mapping
    def documents_at_the_root(config: RemovalConfig) -> dg.RunConfig:
        return dg.RunConfig(ops={f"{corpus.name}_remove_documents": config})

    @dg.job(
        name=remove_job_name(corpus.name),
        config=documents_at_the_root,
        executor_def=dg.in_process_executor,
        tags={CORPUS_TAG: corpus.name},
        description=f"Remove documents of {corpus.name} from the index. Their vectors stay, for texts that come back.",
    )
    def remove() -> None:
        remove_op()

    return remove
