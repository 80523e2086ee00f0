"""A question becomes an answer: retrieve, rerank, generate, keep. The job `ask` and the command line both walk this path.

Nothing here imports Dagster. Each step takes what the one before returned, so that Dagster can run, time and retry them
one by one.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import cast, get_args

import pyarrow as pa

from rag_assets.answering.citations import citations_of
from rag_assets.answering.generator import Generator, SpeaksAsPersona
from rag_assets.answering.generators import make_generator
from rag_assets.answering.personas import Persona, find_persona, is_one_condition
from rag_assets.config import CorpusSettings, OpenAIGeneration, ServerSettings, Settings
from rag_assets.embedding.provider import EmbeddingProvider, Vectors
from rag_assets.embedding.providers import make_provider
from rag_assets.errors import QuestionError, StoreError
from rag_assets.fingerprints import fingerprint, hash_text
from rag_assets.records import ANSWERS, Answer, Passage
from rag_assets.retrieving.parents import read_parents
from rag_assets.retrieving.search import Mode, Search, embed_question, fuse_corpora, search
from rag_assets.storing.publishing import Publication, embedding_for, latest_publication
from rag_assets.storing.stores import Store

MAX_QUESTION_CHARACTERS = 8_000
MAX_TOP_K = 1_000
ALL_CORPORA = "all"
"""In place of the name of a corpus: every corpus, unless one is called so."""

_NOT_IN_THE_ANSWER = frozenset(ServerSettings.model_fields) | {
    name for name in OpenAIGeneration.model_fields if name.startswith("usd_")
}


@dataclass(frozen=True)
class Question:
    """A question as it was asked, checked, with the settings of `corpus` filled in where it says nothing. It is put to
    `others` as well."""

    text: str
    corpus: str
    mode: Mode
    top_k: int
    candidates: int
    where: str | None = None
    persona: Persona | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Passages for a question, best first, and the publication that they come from; of several corpora, `publication` is
    the first one's and `publications` holds all of them by corpus. Times are wall milliseconds."""

    question: Question
    publication: Publication
    embedding_model: str
    passages: Sequence[Passage]
    timings_ms: Mapping[str, float]
    notes: Sequence[str] = field(default_factory=tuple)
    publications: Mapping[str, Publication] = field(default_factory=dict)


def make_question(
    settings: Settings,
    text: str,
    *,
    corpus: str | Sequence[str] | None = None,
    top_k: int | None = None,
    mode: str | None = None,
    where: str | None = None,
    persona: str | None = None,
) -> Question:
    """Check a question. A persona's condition holds where `where` is None. Raises `QuestionError` that says what is
    allowed, and `ConfigError` where the personas cannot be read."""
    found, others = _named(settings, corpus)
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
    if where is not None and not is_one_condition(where):
        raise QuestionError(
            f"the condition {where!r} holds a semicolon; it is one SQL condition, such as: document LIKE 'guide/%'"
        )
    speaker = None if persona is None else find_persona(settings, persona)
    return Question(
        text=_clean(text),
        corpus=found.name,
        mode=cast("Mode", mode) if mode else found.retrieval.mode,
        top_k=top_k or found.retrieval.top_k,
        candidates=found.retrieval.candidates,
        where=speaker.where if where is None and speaker else where,
        persona=speaker,
        others=others,
    )


def _named(settings: Settings, corpora: str | Sequence[str] | None) -> tuple[CorpusSettings, tuple[str, ...]]:
    """The first of the corpora that are asked, and the names of the others, each once."""
    names = list(settings.corpora) if corpora is None else [corpora] if isinstance(corpora, str) else list(corpora)
    if ALL_CORPORA in names and ALL_CORPORA not in settings.corpora:
        names = list(settings.corpora)
    elif corpora is None or not names:
        names = [settings.corpus(None).name]
    first, *others = dict.fromkeys(settings.corpus(name).name for name in names)
    return settings.corpus(first), tuple(others)


def retrieve_from_all(store: Store, settings: Settings, question: Question) -> Found:
    """Search what is published now of every corpus of the question, and fuse their rankings. Each is asked in the model of
    its own index; a model embeds the question once.

    A corpus without a publication is noted. Raises `QuestionError` when none has one.
    """
    names = (question.corpus, *question.others)
    if not question.others:
        return retrieve(store, settings.corpus(question.corpus), question)
    vectors: dict[str, Vectors] = {}
    found: dict[str, Found] = {}
    notes = []
    for name in names:
        if latest_publication(store, name) is None:
            notes.append(f"corpus {name} has no published index yet; run: rag-assets ingest {name}")
        else:
            found[name] = retrieve(store, settings.corpus(name), question, vectors=vectors)
    if not found:
        raise QuestionError(f"corpora {', '.join(names)} have no published index yet; run: rag-assets ingest")
    first = next(iter(found.values()))
    return replace(
        first,
        embedding_model=", ".join(dict.fromkeys(one.embedding_model for one in found.values())),
        passages=fuse_corpora([one.passages for one in found.values()])[: question.top_k],
        timings_ms={"retrieve": round(sum(one.timings_ms["retrieve"] for one in found.values()), 1)},
        notes=notes,
        publications={name: one.publication for name, one in found.items()},
    )


def retrieve(
    store: Store, corpus: CorpusSettings, question: Question, *, vectors: dict[str, Vectors] | None = None
) -> Found:
    """Search what is published now of one corpus. `vectors` are those of the question, by the fingerprint of the model,
    where they are to be shared. Raises `QuestionError` when nothing was published yet."""
    publication = latest_publication(store, corpus.name)
    if publication is None:
        raise QuestionError(f"corpus {corpus.name} has no published index yet; run: rag-assets ingest {corpus.name}")
    timings: dict[str, float] = {}
    provider = make_provider(embedding_for(corpus, publication))
    wanted = Search(question.text, question.mode, question.top_k, question.candidates, question.where)
    with _timed(timings, "retrieve"):
        vector = _shared(vectors, question, provider) if vectors is not None and publication.table_version else None
        passages = search(store, corpus, publication, wanted, provider, vector=vector)
    publications = {corpus.name: publication}
    return Found(question, publication, provider.name, passages, timings, publications=publications)


def _shared(vectors: dict[str, Vectors], question: Question, provider: EmbeddingProvider) -> Vectors | None:
    """The vector of the question, embedded unless `vectors` has it already; None where nothing is searched by it."""
    if question.mode == "text":
        return None
    model = fingerprint(dict(provider.identity))
    if model not in vectors:
        vectors[model] = embed_question(question.text, provider)
    return vectors[model]


def rerank(corpus: CorpusSettings, found: Found) -> Found:
    """Give the passages a second opinion. `none` keeps the order in which retrieval found them."""
    timings: dict[str, float] = dict(found.timings_ms)
    with _timed(timings, "rerank"):
        if corpus.rerank.provider == "none":
            passages = found.passages
    return replace(found, passages=passages, timings_ms=timings)


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
    persona = found.question.persona
    generator, notes = _speaking(make_generator(corpus.generation), persona)
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
        sources=[document for _, document in dict.fromkeys((one.corpus, one.document) for one in citations)],
        corpus=", ".join(found.publications),
        persona_id=persona.id if persona else None,
        model=generator.name,
        embedding_model=found.embedding_model,
        index_version=found.publication.version,
        documents_indexed=sum(one.documents for one in found.publications.values()),
        chunks_indexed=sum(one.chunks for one in found.publications.values()),
        run_id=run_id,
        usage=generated.usage,
        timings_ms=timings,
        notes=[*found.notes, *_filter_noted(found.question), *notes, *generated.notes],
        prompt_version=generated.prompt_version,
        fingerprint=_fingerprint(corpus, found.question, passages, generated.prompt_version),
        index_versions={name: one.version for name, one in found.publications.items()},
    )
    return _kept(store, answer)


def ask(
    store: Store, settings: Settings, question: Question, *, on_text: Callable[[str], None] | None = None
) -> Answer:
    """All steps at once, in this process. The answer's `run_id` is a new random UUID."""
    corpus = settings.corpus(question.corpus)
    found = rerank(corpus, retrieve_from_all(store, settings, question))
    return generate(store, corpus, found, run_id=str(uuid.uuid4()), on_text=on_text)


def _speaking(generator: Generator, persona: Persona | None) -> tuple[Generator, Sequence[str]]:
    """`generator` as `persona`, and a note where it has no prompt that could say so."""
    if persona is None:
        return generator, ()
    if isinstance(generator, SpeaksAsPersona):
        return generator.speaking_as(persona.instructions), ()
    return generator, (f"{generator.name} sends no prompt, so the persona {persona.id} changes nothing in its words.",)


def _filter_noted(question: Question) -> Iterator[str]:
    if question.persona and question.persona.where and question.where == question.persona.where:
        yield f"The persona {question.persona.id} reads only where {question.where}"


def _fingerprint(
    corpus: CorpusSettings, question: Question, passages: Sequence[Passage], prompt_version: str | None
) -> str:
    """What the answer was made from. How a server is reached and paid is not part of it."""
    settings = corpus.generation.model_dump(mode="json")
    return fingerprint(
        {
            "question": question.text,
            "passages": [[passage.chunk_id, hash_text(passage.text)] for passage in passages],
            "prompts": prompt_version,
            "persona": question.persona.instructions if question.persona else None,
            "generation": {name: value for name, value in settings.items() if name not in _NOT_IN_THE_ANSWER},
        }
    )


def _kept(store: Store, answer: Answer) -> Answer:
    """`answer`, kept; where the store cannot be written to, with a note that it was not."""
    try:
        keep(store, answer)
    except (StoreError, OSError) as error:
        return replace(answer, notes=[*answer.notes, f"this answer was not kept: {error}"])
    return answer


def keep(store: Store, answer: Answer) -> None:
    """Add `answer` to the table `answers`."""
    as_json = {name: json.dumps(dict(getattr(answer, name))) for name in ("timings_ms", "index_versions")}
    corpora = [citation.corpus for citation in answer.citations]
    row = asdict(answer) | {"asked_at": datetime.now(UTC), "citation_corpora": corpora} | as_json
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
