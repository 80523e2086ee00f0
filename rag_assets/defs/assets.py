"""What the four partitioned assets of a corpus have in common. They differ in their bodies only.

A corpus of several shards has these four once for each, on partitions of their own, below the number of the shard.
"""

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.partitions import Shard, partitions_of, shard_label
from rag_assets.health.checks import Check, When, checks_of

_PARTITIONED = ("documents", "chunks", "embeddings", "index")


def partitioned_asset(
    corpus: CorpusSettings,
    name: str,
    *,
    shard: Shard,
    kinds: set[str],
    code_version: str,
    upstream: str | None = None,
    retry_policy: dg.RetryPolicy | None = None,
    pool: str | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """An asset `C/name` with one dynamic partition a document, where one run materializes any number of them."""
    return dg.asset(
        key=stage_key(corpus.name, name, shard),
        partitions_def=partitions_of(corpus.name, shard),
        backfill_policy=dg.BackfillPolicy.single_run(),
        deps=[stage_key(corpus.name, upstream, shard)] if upstream else None,
        group_name=corpus.name if shard is None else f"{corpus.name}_{shard_label(shard)}",
        kinds=kinds,
        owners=list(corpus.owners),
        code_version=code_version,
        retry_policy=retry_policy,
        pool=pool,
        metadata={"source": corpus.source, "dagster/table_name": f"corpora/{corpus.name}/{name}"},
    )


def stage_key(corpus: str, name: str, shard: Shard = None) -> dg.AssetKey:
    """The key of a partitioned asset of `corpus`: `C/name`, or `C/07/name` of a shard."""
    return dg.AssetKey([corpus, name] if shard is None else [corpus, shard_label(shard), name])


def published_key(corpus: str) -> dg.AssetKey:
    """The key of what readers of `corpus` see, one for all shards."""
    return dg.AssetKey([corpus, "published_index"])


def partitioned_keys(corpus: str, shard: Shard = None) -> Sequence[dg.AssetKey]:
    """The partitioned assets of `corpus`, or of a shard of it, in the order of the pipeline."""
    return [stage_key(corpus, name, shard) for name in _PARTITIONED]


def check_keys(corpus: CorpusSettings, when: When | None = None) -> Sequence[dg.AssetCheckKey]:
    """The checks of `corpus` that run at the end of an ingest, or all."""
    return [
        dg.AssetCheckKey(checked_key(corpus, one), one.name) for one in checks_of(corpus) if when in (None, one.when)
    ]


def checked_key(corpus: CorpusSettings, check: Check) -> dg.AssetKey:
    """The asset that `check` is shown on. It looks at the whole corpus: where that has several shards, what readers see."""
    one_of_many = corpus.shards > 1 and check.asset in _PARTITIONED
    return published_key(corpus.name) if one_of_many else dg.AssetKey([corpus.name, check.asset])


def write_retry(corpus: CorpusSettings) -> dg.RetryPolicy:
    """When a step of `corpus` that writes tables is tried again."""
    return dg.RetryPolicy(
        max_retries=corpus.write.max_retries,
        delay=corpus.write.first_wait_seconds,
        backoff=dg.Backoff.EXPONENTIAL,
        jitter=dg.Jitter.PLUS_MINUS,
    )
