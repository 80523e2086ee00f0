"""The job `C_ingest`: all assets of a corpus, for any number of documents, in one process; and what all jobs that write to
a corpus have in common."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import asset_keys, check_keys

Job = dg.JobDefinition | UnresolvedAssetJobDefinition

# Names the corpus of a run that writes to it: where there are no locks between machines, a limit of the run queue by this
# tag keeps writers apart, see deploy/dagster.yaml.
CORPUS_TAG = "rag_assets/corpus"


def ingest_job_name(corpus: str) -> str:
    """The name of the job that materializes documents of `corpus`."""
    return f"{corpus}_ingest"


def ingest_job(corpus: CorpusSettings) -> UnresolvedAssetJobDefinition:
    """`C_ingest` of `corpus`.

    Its steps share one process: a process a step would pay five times for importing Dagster and loading the model. Of the
    checks only those run that cost nothing beside an ingest; the others run at night.
    """
    return dg.define_asset_job(
        name=ingest_job_name(corpus.name),
        selection=dg.AssetSelection.assets(*asset_keys(corpus)).without_checks()
        | dg.AssetSelection.checks(*check_keys(corpus, "ingest")),
        executor_def=dg.in_process_executor,
        tags={CORPUS_TAG: corpus.name},
        description=f"Read, cut, embed, index and publish documents of {corpus.name}.",
    )
