"""A question becomes an answer: retrieve, rerank, generate, keep. The job `ask` and the command line both walk this path.

Nothing here imports Dagster. Each step takes what the one before returned, so that Dagster can run, time and retry them
one by one.
"""

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import cast, get_args

import pyarrow as pa

from rag_assets.answering.citations import citations_of
from rag_assets.answering.generators import make_generator
from rag_assets.config import CorpusSettings, Settings
from rag_assets.embedding.providers import make_provider
from rag_assets.errors import QuestionError, StoreError
from rag_assets.records import ANSWERS, Answer, Passage
from rag_assets.retrieving.parents import read_parents
from rag_assets.retrieving.search import Mode, Search, search
from rag_assets.storing.publishing import Publication, embedding_for, latest_publication
from rag_assets.storing.stores import Store

MAX_QUESTION_CHARACTERS = 8_000
MAX_TOP_K = 1_000


@dataclass(frozen=True)
class Question:
    """A question as it was asked, checked, with the corpus settings filled in where it says nothing."""

    text: str
    corpus: str
    mode: Mode
    top_k: int
    candidates: int
    where: str | None = None


@dataclass(frozen=True)
class Found:
    """Passages for a question, best first, and the publication that they come from. Times are wall milliseconds."""

    question: Question
    publication: Publication
    embedding_model: str
    passages: Sequence[Passage]
    timings_ms: Mapping[str, float]
    notes: Sequence[str] = field(default_factory=tuple)


def make_question(
    settings: Settings,
    text: str,
    *,
    corpus: str | None = None,
    top_k: int | None = None,
    mode: str | None = None,
    where: str | None = None,
    persona: str | None = None,
) -> Question:
    """Check a question. Raises `QuestionError` that says what is allowed."""
    found = settings.corpus(corpus)
    if not text.strip():
        raise QuestionError("the question is empty; ask something, such as: What is in these documents?")
    if len(text) > MAX_QUESTION_CHARACTERS:
        raise QuestionError(
            f"the question has {len(text):,} characters; at most {MAX_QUESTION_CHARACTERS:,} are allowed. Ask something"
            " shorter, and put long material into the corpus"
        )
    if top_k is not None and not 1 <= top_k <= MAX_TOP_K:
        raise QuestionError(f"top_k {top_k} is not allowed; it is a number from 1 to {MAX_TOP_K:,}")
    if mode is not None and mode not in get_args(Mode):
        raise QuestionError(f"mode {mode!r} is not allowed; allowed: {', '.join(get_args(Mode))}")
    if where is not None and ";" in re.sub(r"'(?:[^']|'')*'", "", where):
        raise QuestionError(
            f"the condition {where!r} holds a semicolon; it is one SQL condition, such as: document LIKE 'guide/%'"
        )
    if persona is not None:
        raise QuestionError(f"there is no persona {persona!r}; this project has none yet: leave the persona out")
    return Question(
        text=_clean(text),
        corpus=found.name,
        mode=cast("Mode", mode) if mode else found.retrieval.mode,
        top_k=top_k or found.retrieval.top_k,
        candidates=found.retrieval.candidates,
        where=where,
    )


def retrieve(store: Store, corpus: CorpusSettings, question: Question) -> Found:
    """Search what is published now. Raises `QuestionError` when nothing was published yet."""
    publication = latest_publication(store, corpus.name)
    if publication is None:
        raise QuestionError(f"corpus {corpus.name} has no published index yet; run: rag-assets ingest {corpus.name}")
    timings: dict[str, float] = {}
    provider = make_provider(embedding_for(corpus, publication))
    wanted = Search(question.text, question.mode, question.top_k, question.candidates, question.where)
    with _timed(timings, "retrieve"):
        passages = search(store, corpus, publication, wanted, provider)
    notes = ()
    return Found(question, publication, provider.name, passages, timings, notes)


def rerank(corpus: CorpusSettings, found: Found) -> Found:
    """Give the passages a second opinion. `none` keeps the order in which retrieval found them."""
    timings: dict[str, float] = dict(found.timings_ms)
    with _timed(timings, "rerank"):
        if corpus.rerank.provider == "none":
            passages = found.passages
    return Found(found.question, found.publication, found.embedding_model, passages, timings, found.notes)


def generate(
    store: Store,
    corpus: CorpusSettings,
    found: Found,
    *,
    run_id: str,
    on_text: Callable[[str], None] | None = None,
) -> Answer:
    """Answer from the passages, and keep the answer with the passages that fed it in the table `answers`."""
    timings: dict[str, float] = dict(found.timings_ms)
    generator = make_generator(corpus.generation)
    with _timed(timings, "generate"):
        passages = read_parents(found.passages)
        generated = generator.generate(found.question.text, passages, on_text=on_text)
    timings["total"] = round(sum(timings.values()), 1)
    citations = citations_of(generated, passages)
    answer = Answer(
        question=found.question.text,
        answer=generated.text,
        answered=generated.answered,
        citations=citations,
        sources=list(dict.fromkeys(citation.document for citation in citations)),
        corpus=corpus.name,
        persona_id=None,
        model=generator.name,
        embedding_model=found.embedding_model,
        index_version=found.publication.version,
        documents_indexed=found.publication.documents,
        chunks_indexed=found.publication.chunks,
        run_id=run_id,
        usage=generated.usage,
        timings_ms=timings,
        notes=[*found.notes, *generated.notes],
    )
    return _kept(store, answer)


def ask(
    store: Store, settings: Settings, question: Question, *, on_text: Callable[[str], None] | None = None
) -> Answer:
    """All steps at once, in this process. The answer's `run_id` is a new random UUID."""
    corpus = settings.corpus(question.corpus)
    found = rerank(corpus, retrieve(store, corpus, question))
    return generate(store, corpus, found, run_id=str(uuid.uuid4()), on_text=on_text)


def _kept(store: Store, answer: Answer) -> Answer:
    """`answer`, kept; where the store cannot be written to, with a note that it was not."""
    try:
        keep(store, answer)
    except (StoreError, OSError) as error:
        return replace(answer, notes=[*answer.notes, f"this answer was not kept: {error}"])
    return answer


def keep(store: Store, answer: Answer) -> None:
    """Add `answer` to the table `answers`."""
    row = asdict(answer) | {"asked_at": datetime.now(UTC), "timings_ms": json.dumps(dict(answer.timings_ms))}
    store.answers().append(pa.Table.from_pylist([row], schema=ANSWERS))


def _clean(text: str) -> str:
    """The question without what no model or table takes: NUL, lone surrogates, white space around it."""
    return text.replace("\x00", " ").encode("utf-8", "replace").decode("utf-8").strip()


@contextmanager
def _timed(timings: dict[str, float], step: str) -> Iterator[None]:
    started = time.perf_counter()
    try:
        yield
    finally:
        timings[step] = round((time.perf_counter() - started) * 1000, 1)
