"""The job `C_estimate`: what an ingest would do and cost, before anything is paid."""

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import EmbeddersResource, StoreResource
from rag_assets.estimating import estimate
from rag_assets.ingesting import look
from rag_assets.progress import Heartbeat
from rag_assets.reading.source import open_source


def estimate_job_name(corpus: str) -> str:
    """The name of the job that estimates an ingest of `corpus`."""
    return f"{corpus}_estimate"


def estimate_job(corpus: CorpusSettings) -> dg.JobDefinition:
    """`C_estimate` of `corpus`."""

    @dg.op(
        name=f"{corpus.name}_estimate_ingest",
        description="Read and cut what is new or changed, and count what has no vector yet. Nothing is sent or kept.",
        out=dg.Out(dict),
    )
    def estimate_op(
        context: dg.OpExecutionContext, store: StoreResource, embedders: EmbeddersResource
    ) -> dg.Output[dict[str, int | float | str]]:
        opened = store.open()
        with failures_told():
            documents = look(opened, corpus).documents
            provider = embedders.open(corpus.embedding)
            heartbeat = Heartbeat(context.log.info)
            found = estimate(opened, corpus, open_source(corpus), provider, documents, progress=heartbeat)
        figures: dict[str, int | float | str] = {
            "documents": len(documents),
            "unreadable": len(found.failed),
            "chunks": found.chunks,
            "texts_embedded": found.texts_embedded,
            "texts_reused": found.texts_reused,
            "tokens": found.tokens,
            "cost_usd": found.cost_usd,
            "model": provider.name,
        }
        context.log.info(
            "%d documents would send %d texts (%d tokens) to %s for about $%.4f",
            len(documents),
            found.texts_embedded,
            found.tokens,
            provider.name,
            found.cost_usd,
        )
        if corpus.max_cost_per_run is not None and found.cost_usd > corpus.max_cost_per_run:
            context.log.warning("that is more than max_cost_per_run, $%.4f", corpus.max_cost_per_run)
        return dg.Output(figures, metadata=dict(figures))

    @dg.job(
        name=estimate_job_name(corpus.name),
        executor_def=dg.in_process_executor,
        description=f"Tell how many texts, tokens and US dollars an ingest of {corpus.name} would take; pay nothing.",
    )
    def estimate_ingest() -> None:
        estimate_op()

    return estimate_ingest
