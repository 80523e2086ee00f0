"""The asset `C/evaluation`, its check and the job `C_evaluate`: how well the published index answers known questions."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from rag_assets.config import CorpusSettings, EvaluationSettings
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.progress import Heartbeat, reporting
from rag_assets.scoring.comparing import evaluate_published, evaluation_before, falls
from rag_assets.scoring.evaluating import Report
from rag_assets.scoring.rendering import history_as_markdown, known_figures, worst_as_markdown
from rag_assets.storing.evaluations import evaluations
from rag_assets.storing.stores import Store

EVALUATION_VERSION = "1"
_ON_THIS_MACHINE = ("local", "hashing", "onnx", "multilingual", "sentence_transformers")


def evaluation_definitions(corpus: CorpusSettings) -> dg.Definitions:
    """The asset, the check, the job and the schedule of `corpus`; nothing where it names no questions."""
    if corpus.evaluation is None:
        return dg.Definitions()
    job = _evaluate_job(corpus)
    return dg.Definitions(
        assets=[_evaluation_asset(corpus, corpus.evaluation)],
        asset_checks=[_check(corpus, corpus.evaluation)],
        jobs=[job],
        schedules=[_schedule(corpus, corpus.evaluation, job)],
    )


def _key(corpus: CorpusSettings) -> dg.AssetKey:
    return dg.AssetKey([corpus.name, "evaluation"])


def _evaluation_asset(corpus: CorpusSettings, wanted: EvaluationSettings) -> dg.AssetsDefinition:
    @dg.asset(
        name="evaluation",
        key_prefix=corpus.name,
        deps=[dg.AssetKey([corpus.name, "published_index"])],
        group_name=corpus.name,
        kinds={"lancedb"},
        owners=list(corpus.owners),
        code_version=EVALUATION_VERSION,
        metadata={"questions": wanted.questions, "dagster/table_name": f"corpora/{corpus.name}/evaluations"},
    )
    def evaluation(context: dg.AssetExecutionContext, store: StoreResource) -> dg.MaterializeResult[None]:
        """How well the published index finds, answers and cites: questions with known answers, asked of it."""
        opened = store.open()
        with failures_told():
            progress = reporting(Heartbeat(context.log.info))
            report = evaluate_published(opened, corpus, wanted, run_id=context.run.run_id, progress=progress).report
        for warning in report.warnings:
            context.log.warning("%s", warning)
        return dg.MaterializeResult(metadata=_metadata(opened, report))

    return evaluation


def _metadata(store: Store, report: Report) -> dict[str, dg.MetadataValue]:
    """Figures, which Dagster draws over time, the questions that went worst, and a picture of the last evaluations."""
    done = report.evaluation
    metadata: dict[str, dg.MetadataValue] = {
        "index_version": dg.MetadataValue.int(done.index_version),
        "questions": dg.MetadataValue.int(done.answerable + done.unanswerable),
        "top_k": dg.MetadataValue.int(done.top_k),
        **{name: dg.MetadataValue.float(value) for name, value in known_figures(done.figures).items()},
        "worst_questions": dg.MetadataValue.md(worst_as_markdown(done.scores)),
        "history": dg.MetadataValue.md(history_as_markdown(evaluations(store, done.corpus))),
        "dagster/uri": dg.MetadataValue.url(store.evaluations(done.corpus).uri),
    }
    if report.warnings:
        metadata["warnings"] = dg.MetadataValue.md("\n".join(f"* {warning}" for warning in report.warnings))
    return metadata


def _check(corpus: CorpusSettings, wanted: EvaluationSettings) -> dg.AssetChecksDefinition:
    severity = dg.AssetCheckSeverity.ERROR if wanted.block else dg.AssetCheckSeverity.WARN
    told = (
        "A fall is an error: what depends on this asset is not materialized, and a new version that finds less is not"
        " published in the first place."
        if wanted.block
        else "A fall is a warning and holds nothing up; evaluation.block: true makes it an error."
    )

    @dg.asset_check(
        asset=_key(corpus),
        name="retrieval_is_as_good_as_before",
        blocking=wanted.block,
        description=f"No figure fell by more than {wanted.max_drop:g} since the last evaluation of an earlier version with"
        f" the same questions. {told}",
    )
    def retrieval_is_as_good_as_before(store: StoreResource) -> dg.AssetCheckResult:
        kept = [one for one in evaluations(store.open(), corpus.name) if one.held is None]
        before = evaluation_before(kept, kept[0]) if kept else None
        if before is None:
            return dg.AssetCheckResult(
                passed=True, severity=severity, description="There is nothing to compare with yet."
            )
        fallen = falls(before.figures, kept[0].figures, max_drop=wanted.max_drop)
        return dg.AssetCheckResult(
            passed=not fallen,
            severity=severity,
            description="; ".join(map(str, fallen)) or f"As good as version {before.index_version}, or better.",
            metadata={
                "version_before": before.index_version,
                **{fall.figure: fall.now - fall.before for fall in fallen},
            },
        )

    return retrieval_is_as_good_as_before


def _evaluate_job(corpus: CorpusSettings) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        name=f"{corpus.name}_evaluate",
        selection=dg.AssetSelection.assets(_key(corpus)),
        executor_def=dg.in_process_executor,
        description=f"Ask the published index of {corpus.name} questions with known answers, and measure.",
    )


def _schedule(
    corpus: CorpusSettings, wanted: EvaluationSettings, job: UnresolvedAssetJobDefinition
) -> dg.ScheduleDefinition:
    """`C_evaluation_schedule` of `corpus`: every night at five, after the checks.

    It runs by default where questions and answers are made on this machine. A server is paid for each: whoever wants that
    every night turns it on.
    """
    answers_here = corpus.generation.provider == "extractive" or not wanted.answers
    paid = corpus.embedding.provider not in _ON_THIS_MACHINE or not answers_here
    return dg.ScheduleDefinition(
        name=f"{corpus.name}_evaluation_schedule",
        job=job,
        cron_schedule="0 5 * * *",
        default_status=dg.DefaultScheduleStatus.STOPPED if paid else dg.DefaultScheduleStatus.RUNNING,
        description=f"Ask the published index of {corpus.name} its questions every night."
        + (" Stopped by default: a server is asked, and may have to be paid." if paid else ""),
    )
