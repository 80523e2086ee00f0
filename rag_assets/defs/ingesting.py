"""`rag-assets ingest`, `reindex` and `remove`: the jobs of a corpus, executed in this process until nothing is pending.

The runs are those that the sensor asks for, in the same Dagster instance, so the UI shows them. While they run, this
process holds a lock that the sensor looks at; it is released when the process dies.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from typing import Any

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.assets import partitioned_keys, published_key
from rag_assets.defs.jobs import ingest_job_name
from rag_assets.defs.partitions import by_shard, move_to_end, shards_of
from rag_assets.defs.placing import place_partitions
from rag_assets.defs.reindexing import reindex_job_name, report_of
from rag_assets.defs.removing import remove_job_name
from rag_assets.defs.reporting import reason_of
from rag_assets.defs.runs import (
    COMMAND_LINE_TAG,
    backfill_under_way,
    ingest_lock,
    request_is_open,
    runs_under_way,
)
from rag_assets.defs.sensors import Batch, publishing, range_tags
from rag_assets.errors import RagAssetsError
from rag_assets.ingesting import IngestResult, look
from rag_assets.scanning import Scan
from rag_assets.storing.ledger import known_documents, make_pending, set_aside_documents
from rag_assets.storing.publishing import publication_is_due
from rag_assets.storing.stores import Store

_POLL_SECONDS = 1.0
# Our console output is the report; Dagster's own log of each event is in the instance.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True)
class Ingester:
    """Executes the jobs of one corpus in `instance`. `say` receives lines for the person who waits."""

    definitions: dg.Definitions
    instance: dg.DagsterInstance
    store: Store
    corpus: CorpusSettings
    say: Callable[[str], None]

    def ingest(self, *, confirm_deletions: bool = False) -> IngestResult:
        """Scan once, then materialize what is pending, batch by batch, and remove what is gone.

        Raises `SourceError` when the corpus cannot be listed, and `RagAssetsError` with the run's reason when a run fails
        for what is no document's fault; what was done until then stays.
        """
        with self._alone():
            seen = look(self.store, self.corpus, confirm_deletions=confirm_deletions)
            self._place(seen.found)
            make_pending(self.store.documents(self.corpus.name), seen.found.lost)
            batches = self._batches(seen.documents)
            runs = []
            if seen.found.removed:  # first, so that one publication shows what came and what went
                runs.append(self._remove(seen.found.removed, publish=not batches))
            runs += [self._materialize(batch) for batch in batches]
            known = known_documents(self.store.documents(self.corpus.name))
            if publication_is_due(self.store, self.corpus, known=known, resume=True):
                job = ingest_job_name(self.corpus.name, shards_of(self.corpus.shards)[0])
                runs.append(self._execute(job, selection=[published_key(self.corpus.name)]))
        return IngestResult(
            found=seen.found,
            failed=set_aside_documents(known),
            done=[known[name] for name in seen.documents if name in known],
            removed=seen.found.removed,
            runs=runs,
        )

    def remove(self, documents: Sequence[str]) -> str:
        """Remove `documents` and return the id of the run."""
        with self._alone():
            return self._remove(documents)

    def reindex(self, config: Mapping[str, object]) -> Mapping[str, Any]:
        """Execute `C_reindex` with `config`, and return its report with the id of the run as `run_id`.

        Raises `RagAssetsError` when it could not begin or not publish; batches that failed are in the report.
        """
        with self._alone():
            result = self._result_of(reindex_job_name(self.corpus.name), config=dict(config))
        report = report_of(result)
        if report is None:
            raise RagAssetsError(f"corpus {self.corpus.name}: run {result.run_id[:8]} failed: {_reason(result)}")
        return {**report, "run_id": result.run_id}

    def _place(self, found: Scan) -> None:
        pending, gone = set(found.pending), set(found.gone)
        while left := place_partitions(self.instance, self.corpus, found.known, pending=pending, gone=gone).left:
            self.say(f"{left:,} partitions of {self.corpus.name} are still to be moved")

    def _batches(self, documents: Sequence[str]) -> list[Batch]:
        size = self.corpus.max_documents_per_run
        batches = [
            (shard, members[start : start + size])
            for shard, members in by_shard(documents, self.corpus.shards).items()
            for start in range(0, len(members), size)
        ]
        return publishing(batches, size)

    def _materialize(self, batch: Batch) -> str:
        documents = batch.documents
        first, last = move_to_end(self.instance, self.corpus.name, documents, shard=batch.shard)
        job = ingest_job_name(self.corpus.name, batch.shard)
        selection = None if batch.publishes else partitioned_keys(self.corpus.name, batch.shard)
        if len(documents) == 1:
            run_id, problem = self._run(job, partition_key=first, selection=selection)
        else:
            run_id, problem = self._run(job, tags=range_tags(first, last), selection=selection)
        left = known_documents(self.store.documents(self.corpus.name), documents)
        unfinished = [name for name in documents if name not in left or left[name].status == "pending"]
        if problem and (unfinished or len(documents) > 1):
            raise RagAssetsError(f"corpus {self.corpus.name}: run {run_id[:8]} failed: {problem}")
        return run_id

    def _remove(self, documents: Sequence[str], *, publish: bool = True) -> str:
        config = {"documents": list(documents), "publish": publish}
        return self._execute(remove_job_name(self.corpus.name), config=config)

    def _execute(
        self, job: str, *, selection: Sequence[dg.AssetKey] | None = None, config: dict[str, object] | None = None
    ) -> str:
        run_id, problem = self._run(job, selection=selection, config=config)
        if problem:
            raise RagAssetsError(f"corpus {self.corpus.name}: run {run_id[:8]} failed: {problem}")
        return run_id

    def _run(
        self,
        job: str,
        *,
        partition_key: str | None = None,
        tags: dict[str, str] | None = None,
        selection: Sequence[dg.AssetKey] | None = None,
        config: dict[str, object] | None = None,
    ) -> tuple[str, str | None]:
        """Execute `job` and return the run's id and the reason of its failure, None when it succeeded."""
        result = self._result_of(job, partition_key=partition_key, tags=tags, selection=selection, config=config)
        return result.run_id, None if result.success else _reason(result)

    def _result_of(
        self,
        job: str,
        *,
        partition_key: str | None = None,
        tags: dict[str, str] | None = None,
        selection: Sequence[dg.AssetKey] | None = None,
        config: dict[str, object] | None = None,
    ) -> dg.ExecuteInProcessResult:
        # A job whose configuration is mapped takes no settings for its console, so that one writes into the void.
        console = redirect_stderr(StringIO()) if config is not None else nullcontext()
        with console:
            return self.definitions.resolve_job_def(job).execute_in_process(
                instance=self.instance,
                run_config=config if config is not None else _QUIET,
                partition_key=partition_key,
                tags={COMMAND_LINE_TAG: "true", **(tags or {})},
                asset_selection=selection,
                raise_on_error=False,
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other process ingests the corpus, then keep others waiting."""
        name = ingest_lock(self.corpus.name)
        with ExitStack() as held:
            try:
                held.enter_context(self.store.lock(name, timeout_seconds=0))
            except TimeoutError:
                self.say(f"waiting for another `rag-assets ingest` of {self.corpus.name} to end")
                held.enter_context(self.store.lock(name))
            told = False
            while (
                busy := runs_under_way(self.instance, self.store, self.corpus, holding_lock=True)
            ) or request_is_open(self.instance, self.store, self.corpus):
                if busy and not told:
                    self.say(f"waiting for run {busy[0].run_id[:8]} of {self.corpus.name} to end")
                    told = True
                time.sleep(_POLL_SECONDS)
            backfill = backfill_under_way(self.instance, self.corpus)
            if backfill:
                raise RagAssetsError(
                    f"corpus {self.corpus.name}: backfill {backfill} is under way; wait for it, or cancel it in the UI"
                )
            yield


def _reason(result: dg.ExecuteInProcessResult) -> str:
    """What the failed step said."""
    for event in result.all_events:
        if not event.is_step_failure:
            continue
        failure = event.step_failure_data
        if failure.error is not None and failure.error.cls_name == "DagsterExecutionInterruptedError":
            raise KeyboardInterrupt
        reason = reason_of(failure)
        if reason is not None:
            return reason
    return "Dagster gave no reason; look at the run in the UI (make dev)"
