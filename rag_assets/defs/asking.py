"""The job `ask`: a question, read from run configuration, answered from the published index."""

from typing import Any

import dagster as dg
from pydantic import Field

from rag_assets.answering.rendering import to_json, to_markdown
from rag_assets.asking import Found, generate, make_question, rerank, retrieve_from_all
from rag_assets.config import Settings
from rag_assets.defs.reporting import failures_told
from rag_assets.defs.resources import StoreResource
from rag_assets.records import Answer


class QuestionConfig(dg.Config):
    """The configuration of `retrieve`. The root of that of `ask` is the same, where one corpus needs no list."""

    question: str = Field(description="What to answer.")
    corpus: list[str] | None = Field(
        default=None, description="Which corpus, or a list of them, or all; by default the first of corpora.yaml."
    )
    top_k: int | None = Field(default=None, description="How many passages the answer may use.")
    persona: str | None = Field(default=None, description="Who answers.")
    mode: str | None = Field(default=None, description="How passages are found: hybrid, vector or text.")
    where: str | None = Field(default=None, description="A SQL condition on the columns of the index.")


def _root_schema() -> dict[str, dg.Field]:
    """The fields of `QuestionConfig`, with one more way to write `corpus`."""
    fields = dict(QuestionConfig.to_fields_dict())
    names = dg.ScalarUnion(scalar_type=str, non_scalar_schema=[str])
    described = fields["corpus"].description
    return {**fields, "corpus": dg.Field(dg.Noneable(names), is_required=False, description=described)}


def ask_job(settings: Settings) -> dg.JobDefinition:
    """The job `ask`, for any corpus of `settings`."""

    @dg.op(
        name="retrieve",
        retry_policy=dg.RetryPolicy(max_retries=1, delay=1),
        description="Search the published index for passages that may hold the answer.",
    )
    def retrieve_op(context: dg.OpExecutionContext, config: QuestionConfig, store: StoreResource) -> Found:
        with failures_told():
            question = make_question(
                settings,
                config.question,
                corpus=config.corpus,
                top_k=config.top_k,
                mode=config.mode,
                where=config.where,
                persona=config.persona,
            )
            found = retrieve_from_all(store.open(), settings, question)
        context.add_output_metadata({"passages": len(found.passages), "index_version": found.publication.version})
        return found

    @dg.op(name="rerank", description="Give the order of the passages a second opinion.")
    def rerank_op(found: Found) -> Found:
        with failures_told():
            return rerank(settings.corpus(found.question.corpus), found)

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
