"""The job `ask`: a question, read from run configuration, answered from the published index."""

from typing import Any

import dagster as dg
from pydantic import Field

from rag_assets.answering.rendering import to_json, to_markdown
from rag_assets.asking import Found, generate, make_question, rerank, retrieve_from_all, stand_alone
from rag_assets.config import Settings
from rag_assets.conversing.turns import Conversation, continued, turns_of
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.errors import QuestionError
from rag_assets.monitoring.events import tell_answer
from rag_assets.records import Answer

_RERANK_RETRIES = 1


class TurnConfig(dg.Config):
    """An earlier question and its answer."""

    question: str
    answer: str


class QuestionConfig(dg.Config):
    """The configuration of `retrieve`. The root of that of `ask` is the same, where one corpus needs no list."""

    question: str = Field(description="What to answer.")
    corpus: list[str] | None = Field(
        default=None, description="Which corpus, or a list of them, or all; by default the first of corpora.yaml."
    )
    top_k: int | None = Field(default=None, description="How many passages the answer may use.")
    persona: str | None = Field(default=None, description="Who answers.")
    mode: str | None = Field(default=None, description="How passages are found: hybrid, vector or text.")
    filters: list[str] = Field(default=[], description="Only documents such as path=guide/** or date>=2024-01-01.")
    where: str | None = Field(default=None, description="A SQL condition on the columns of the index.")
    diversity: float | None = Field(default=None, description="How unlike each other the passages are to be, 0 to 1.")
    neighbours: int | None = Field(default=None, description="How many chunks before and after each passage to read.")
    history: list[TurnConfig] = Field(default=[], description="What was asked and answered before, oldest first.")
    continues: str | None = Field(
        default=None, description="The run id of the answer that the question follows, or last."
    )
    rerank: bool = Field(default=True, description="Whether the corpus's reranker, if it has one, orders the passages.")


def _root_schema() -> dict[str, dg.Field]:
    """The fields of `QuestionConfig`, with one more way to write `corpus`."""
    fields = dict(QuestionConfig.to_fields_dict())
    names = dg.ScalarUnion(scalar_type=str, non_scalar_schema=[str])
    described = fields["corpus"].description
    return {**fields, "corpus": dg.Field(dg.Noneable(names), is_required=False, description=described)}


def _ranks(before: Found, after: Found) -> list[dg.TableRecord]:
    """Where each passage stood, and where it stands."""
    stood = {(passage.corpus, passage.chunk_id): rank for rank, passage in enumerate(before.passages, start=1)}
    return [
        dg.TableRecord(
            {
                "rank": rank,
                "before": stood.get((passage.corpus, passage.chunk_id), 0),
                "passage": f"{passage.document}:{passage.start_line}",
                "score": passage.score,
            }
        )
        for rank, passage in enumerate(after.passages, start=1)
    ]


def ask_job(settings: Settings) -> dg.JobDefinition:
    """The job `ask`, for any corpus of `settings`."""

    @dg.op(
        name="retrieve",
        retry_policy=dg.RetryPolicy(max_retries=1, delay=1),
        description="Search the published index for passages that may hold the answer.",
    )
    def retrieve_op(context: dg.OpExecutionContext, config: QuestionConfig, store: StoreResource) -> Found:
        with failures_told():
            opened, turns = store.open(), turns_of([turn.model_dump() for turn in config.history])
            if turns and config.continues:
                raise QuestionError("history and continues are both given; give one of them")
            before = continued(opened, config.continues) if config.continues else Conversation(turns)
            question = make_question(
                settings,
                config.question,
                corpus=config.corpus or before.corpora,
                top_k=config.top_k,
                mode=config.mode,
                where=config.where,
                filters=config.filters,
                diversity=config.diversity,
                neighbours=config.neighbours,
                persona=config.persona,
                reranks=config.rerank,
                history=before.turns,
                continues=before.run_id,
            )
            found = retrieve_from_all(opened, settings, stand_alone(settings, question))
        context.add_output_metadata({"passages": len(found.passages), "index_version": found.publication.version})
        return found

    @dg.op(
        name="rerank",
        retry_policy=dg.RetryPolicy(max_retries=_RERANK_RETRIES, delay=1),
        description="Give the order of the passages a second opinion, or keep it where that fails.",
    )
    def rerank_op(context: dg.OpExecutionContext, found: Found) -> Found:
        reranked = rerank(settings.corpus(found.question.corpus), found)
        result = reranked.reranking
        if result.may_pass and context.retry_number < _RERANK_RETRIES:
            raise dg.Failure(description=f"The reranker {result.failure}", allow_retries=True)
        if result.failure:
            context.log.warning("%s", result.notes[0])
        context.add_output_metadata(
            {
                "reranker": result.reranker or "none",
                "seconds": round(reranked.timings_ms["rerank"] / 1000, 3),
                "passages": len(reranked.passages),
                "ranks": dg.MetadataValue.table(_ranks(found, reranked)) if reranked.passages else "none",
            }
        )
        return reranked

    @dg.op(name="generate", description="Answer from the passages, citing them, and keep the answer.")
    def generate_op(context: dg.OpExecutionContext, found: Found, store: StoreResource) -> Answer:
        with failures_told():
            answer = generate(store.open(), settings.corpus(found.question.corpus), found, run_id=context.run_id)
        context.add_output_metadata(
            {
                "answer": dg.MetadataValue.md(to_markdown(answer)),
                "record": dg.MetadataValue.json(to_json(answer)),
                "answered": answer.answered,
                "citations": len(answer.citations),
                "seconds": round(answer.timings_ms["total"] / 1000, 3),
            }
        )
        tell_answer(answer)
        sources = [f"[{cited.marker}] {cited.document}:{cited.start_line}" for cited in answer.citations]
        context.log.info("%s", "\n".join([answer.answer, "", *sources]))
        return answer

    @dg.config_mapping(config_schema=_root_schema())
    def question_at_the_root(root: dict[str, Any]) -> dict[str, Any]:
        corpus = root.get("corpus")
        config = {**root, "corpus": [corpus] if isinstance(corpus, str) else corpus}
        return {"ops": {"retrieve": {"config": config}}}

    @dg.job(
        name="ask",
        config=question_at_the_root,
        executor_def=dg.in_process_executor,
        description="Answer a question from the published index of a corpus, with citations.",
    )
    def ask() -> None:
        generate_op(rerank_op(retrieve_op()))

    return ask
