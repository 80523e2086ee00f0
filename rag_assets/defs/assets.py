"""What the four partitioned assets of a corpus have in common. They differ in their bodies only."""

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.partitions import partitions_of
from rag_assets.health.checks import When, checks_of


def partitioned_asset(
    corpus: CorpusSettings,
    name: str,
    *,
    kinds: set[str],
    code_version: str,
    upstream: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    pool: str | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """An asset `C/name` with one dynamic partition a document, where one run materializes any number of them."""
    return dg.asset(
        name=name,
        key_prefix=corpus.name,
        partitions_def=partitions_of(corpus.name),
        backfill_policy=dg.BackfillPolicy.single_run(),
        deps=[dg.AssetKey([corpus.name, upstream])] if upstream else None,
        group_name=corpus.name,
        kinds=kinds,
        owners=list(corpus.owners),
        code_version=code_version,
        retry_policy=retry_policy,
        pool=pool,
        metadata={"source": corpus.source, "dagster/table_name": f"corpora/{corpus.name}/{name}"},
    )


def asset_keys(corpus: CorpusSettings) -> Sequence[dg.AssetKey]:
    """The assets of `corpus`, in the order of the pipeline."""
    names = ("documents", "chunks", "embeddings", "index", "published_index")
    return [dg.AssetKey([corpus.name, name]) for name in names]


def check_keys(corpus: CorpusSettings, when: When | None = None) -> Sequence[dg.AssetCheckKey]:
    """The checks of `corpus` that run at the end of an ingest, or all."""
    return [
        dg.AssetCheckKey(dg.AssetKey([corpus.name, one.asset]), one.name)
        for one in checks_of(corpus)
        if when in (None, one.when)
    ]


def write_retry(corpus: CorpusSettings) -> dg.RetryPolicy:
    """When a step of `corpus` that writes tables is tried again."""
    return dg.RetryPolicy(
        max_retries=corpus.write.max_retries,
        delay=corpus.write.first_wait_seconds,
        backoff=dg.Backoff.EXPONENTIAL,
        jitter=dg.Jitter.PLUS_MINUS,
    )
