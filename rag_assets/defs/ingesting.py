"""`rag-assets ingest`, `reindex` and `remove`: the jobs of a corpus, executed in this process until nothing is pending.

The runs are those that the sensor asks for, in the same Dagster instance, so the UI shows them. While they run, this
process holds a lock that the sensor looks at; it is released when the process dies.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any

import dagster as dg

from rag_assets.config import CorpusSettings
from rag_assets.defs.partitions import by_shard
from rag_assets.defs.placing import place_partitions
from rag_assets.defs.reindexing import reindex_job_name, report_of
from rag_assets.defs.removing import remove_job_name
from rag_assets.defs.reporting import reason_of
from rag_assets.defs.run_requests import Batch, ingest_request, publication_request, publishing
from rag_assets.defs.runs import (
    COMMAND_LINE_TAG,
    backfill_under_way,
    ingest_lock,
    request_is_open,
    runs_under_way,
)
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
            with _frozen():
                runs += [self._materialize(batch, seen.found) for batch in batches]
            runs += self._publish()
            known = known_documents(self.store.documents(self.corpus.name))
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
            request = dg.RunRequest(job_name=reindex_job_name(self.corpus.name), run_config=dict(config))
            result = self._result_of(request)
        report = report_of(result)
        if report is None:
            raise self._failed(result)
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

    def _materialize(self, batch: Batch, found: Scan) -> str:
        request = ingest_request(self.instance, self.corpus, batch, presence=found.presence)
        result = self._result_of(request)
        failure = None if result.success else self._failed(result)
        left = known_documents(self.store.documents(self.corpus.name), batch.documents)
        unfinished = [name for name in batch.documents if name not in left or left[name].status == "pending"]
        if failure and (unfinished or len(batch.documents) > 1):
            if unfinished:  # it did not come to publish, and others have left that to it
                with suppress(RagAssetsError):  # the reason of the first failure is the one to be told
                    self._publish()
            raise failure
        return result.run_id

    def _publish(self) -> list[str]:
        """Publish what earlier runs left to a later one, and return the id of the run, where there is anything."""
        if not publication_is_due(self.store, self.corpus, resume=True, beside_pending=True):
            return []
        return [self._execute(publication_request(self.corpus))]

    def _remove(self, documents: Sequence[str], *, publish: bool = True) -> str:
        config = {"documents": list(documents), "publish": publish}
        return self._execute(dg.RunRequest(job_name=remove_job_name(self.corpus.name), run_config=config))

    def _execute(self, request: dg.RunRequest) -> str:
        result = self._result_of(request)
        if not result.success:
            raise self._failed(result)
        return result.run_id

    def _failed(self, result: dg.ExecuteInProcessResult) -> RagAssetsError:
        """What to raise for a run that failed. Raises `KeyboardInterrupt` itself where a person interrupted it."""
        return RagAssetsError(f"corpus {self.corpus.name}: run {result.run_id[:8]} failed: {_reason(result)}")

    def _result_of(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """Execute the run that `request` describes, which names a job, in this process."""
        job = self.definitions.resolve_job_def(str(request.job_name))
        if request.asset_selection:
            checks = None if request.asset_check_keys is None else set(request.asset_check_keys)
            job = job.get_subset(asset_selection=set(request.asset_selection), asset_check_selection=checks)
        # A job whose configuration is mapped takes no settings for its console, so that one writes into the void.
        mapped = job.config_mapping is not None
        with redirect_stderr(StringIO()) if mapped else nullcontext():
            return job.execute_in_process(
                instance=self.instance,
                run_config=request.run_config if mapped else _QUIET,
                partition_key=request.partition_key,
                tags={COMMAND_LINE_TAG: "true", **request.tags},
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
                if not told:
                    whom = (
                        f"run {busy[0].run_id[:8]} of {self.corpus.name} to end"
                        if busy
                        else "a run that the sensor asked for"
                    )
                    self.say(f"waiting for {whom}")
                    told = True
                time.sleep(_POLL_SECONDS)
            backfill = backfill_under_way(self.instance, self.corpus)
            if backfill:
                raise RagAssetsError(
                    f"corpus {self.corpus.name}: backfill {backfill} is under way; wait for it, or cancel it in the UI"
                )
            yield


@contextmanager
def _frozen() -> Iterator[None]:
    """Spare what is there from garbage collection meanwhile: to look through all that is known of 40,000 documents took a
    tenth of the time of each run."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


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
