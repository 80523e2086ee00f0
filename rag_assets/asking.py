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
from textwrap import shorten
from typing import cast, get_args

import pyarrow as pa

from rag_assets.answering.citations import citations_of
from rag_assets.answering.generator import Generator, Rewritten, SpeaksAsPersona
from rag_assets.answering.generators import make_generator
from rag_assets.answering.personas import Persona, find_persona
from rag_assets.answering.prompts import read_prompts
from rag_assets.config import MAX_NEIGHBOURS, CorpusSettings, NoRerank, OpenAIGeneration, ServerSettings, Settings
from rag_assets.conversing.rewriting import rewrite
from rag_assets.embedding.provider import EmbeddingProvider, Vectors
from rag_assets.embedding.providers import make_provider
from rag_assets.errors import QuestionError, StoreError
from rag_assets.fingerprints import fingerprint, hash_text
from rag_assets.records import ANSWERS, Answer, Passage, Turn
from rag_assets.reranking.reordering import Reranking, reading_depth, reorder
from rag_assets.retrieving.collapsing import collapse
from rag_assets.retrieving.conditions import NOT_ONE_CONDITION, UnknownFieldError, is_one_condition
from rag_assets.retrieving.diversity import Embedded, diversify, pool_size
from rag_assets.retrieving.filters import Filter, parse_filters
from rag_assets.retrieving.fusing import fuse_corpora
from rag_assets.retrieving.neighbours import read_neighbours
from rag_assets.retrieving.parents import read_parents
from rag_assets.retrieving.search import Mode, Search, embed_question, search, vectors_of, weighs
from rag_assets.storing.publishing import Publication, embedding_for, latest_publication
from rag_assets.storing.stores import Store

MAX_QUESTION_CHARACTERS = 8_000
MAX_TOP_K = 1_000
# In so many times as many passages as are read, enough are left when some grow together: of ten with their neighbours, six
# and a half on average.
_RESERVE = 2
ALL_CORPORA = "all"
"""In place of the name of a corpus: every corpus, unless one is called so."""

_NOT_IN_THE_ANSWER = frozenset(ServerSettings.model_fields) | {
    name for name in OpenAIGeneration.model_fields if name.startswith("usd_") or name == "prompts"
}
"""How a server is reached and paid, and where the prompts are: what they say is in the fingerprint by their version."""


@dataclass(frozen=True)
class FollowUp:
    """A question as it was asked in a conversation, what it was rewritten to, and the wall milliseconds of that."""

    asked: str
    rewritten: Rewritten
    milliseconds: float


@dataclass(frozen=True)
class Question:
    """A question as it was asked, checked, with the settings of `corpus` filled in where it says nothing. It is put to
    `others` as well. `depth` passages are found, of which the reranker of `corpus` chooses, unless not `reranks`, and then
    `diversity`. `filters` are those of the question alone: each corpus has its own beside them.

    `history` is what was said before it, oldest first, and `continues` the run id of the answer that it follows. Once
    `stand_alone` was called, `text` needs none of that, and `follow_up` tells what was asked.
    """

    text: str
    corpus: str
    mode: Mode
    top_k: int
    candidates: int
    where: str | None = None
    persona: Persona | None = None
    others: tuple[str, ...] = ()
    reranks: bool = True
    depth: int = 0
    history: tuple[Turn, ...] = ()
    continues: str | None = None
    follow_up: FollowUp | None = None
    filters: tuple[Filter, ...] = ()
    diversity: float = 0.0
    neighbours: int = 0


@dataclass(frozen=True)
class Found:
    """Passages for a question, best first, and the publication that they come from; of several corpora, `publication` is
    the first one's and `publications` holds all of them by corpus. `reserve` are those that follow, for when passages grow
    together with their neighbours or parents. `embedded` are the vectors of the passages by their
    place, where the question asks for diversity. Times are wall milliseconds."""

    question: Question
    publication: Publication
    embedding_model: str
    passages: Sequence[Passage]
    timings_ms: Mapping[str, float]
    notes: Sequence[str] = field(default_factory=tuple)
    publications: Mapping[str, Publication] = field(default_factory=dict)
    reserve: Sequence[Passage] = ()
    reranking: Reranking = field(default_factory=Reranking)
    embedded: Mapping[tuple[str, str], Embedded] = field(default_factory=dict)


def make_question(
    settings: Settings,
    text: str,
    *,
    corpus: str | Sequence[str] | None = None,
    top_k: int | None = None,
    mode: str | None = None,
    where: str | None = None,
    persona: str | None = None,
    reranks: bool = True,
    history: Sequence[Turn] = (),
    continues: str | None = None,
    filters: Sequence[str] = (),
    diversity: float | None = None,
    neighbours: int | None = None,
) -> Question:
    """Check a question. A persona's condition holds where `where` is None. Unless `reranks`, the passages stay in fused
    order. Raises `QuestionError` that says what is allowed, and `ConfigError` where the personas or the prompts cannot be
    read."""
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
        raise QuestionError(f"the condition {shorten(where, 200, placeholder=' …')!r} {NOT_ONE_CONDITION}")
    if diversity is not None and not 0 <= diversity <= 1:
        raise QuestionError(f"diversity {diversity:g} is not allowed; it is a number from 0 (off) to 1")
    if neighbours is not None and not 0 <= neighbours <= MAX_NEIGHBOURS:
        raise QuestionError(f"neighbours {neighbours} is not allowed; it is a number from 0 to {MAX_NEIGHBOURS}")
    speaker = None if persona is None else find_persona(settings, persona)
    top_k = top_k or found.retrieval.top_k
    diversity = found.retrieval.diversity if diversity is None else diversity
    if isinstance(found.generation, OpenAIGeneration):
        read_prompts(found.generation.prompts)  # what is wrong with them is told before anything is paid
    return Question(
        text=_clean(text),
        corpus=found.name,
        mode=cast("Mode", mode) if mode else found.retrieval.mode,
        top_k=top_k,
        candidates=found.retrieval.candidates,
        where=speaker.where if where is None and speaker else where,
        persona=speaker,
        others=others,
        reranks=reranks,
        depth=max(
            _RESERVE * top_k, reading_depth(found.rerank) if reranks else 0, pool_size(top_k) if diversity else 0
        ),
        history=tuple(history),
        continues=continues,
        filters=parse_filters(filters),
        diversity=diversity,
        neighbours=found.retrieval.neighbours if neighbours is None else neighbours,
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


def stand_alone(settings: Settings, question: Question) -> Question:
    """`question` in words that need nothing of its history. Without a history, nothing is done or paid."""
    if not question.history:
        return question
    timings: dict[str, float] = {}
    with _timed(timings, "rewrite"):
        generator = make_generator(settings.corpus(question.corpus).generation)
        rewritten = rewrite(generator, question.text, question.history)
    follow_up = FollowUp(question.text, rewritten, timings["rewrite"])
    return replace(question, text=_clean(rewritten.text) or question.text, follow_up=follow_up)


def retrieve_from_all(store: Store, settings: Settings, question: Question) -> Found:
    """Search what is published now of every corpus of the question, and fuse their rankings. Each is asked in the model of
    its own index; a model embeds the question once.

    A corpus without a publication, or without the field of a filter, is noted. Raises `QuestionError` when that leaves none.
    """
    names = (question.corpus, *question.others)
    if not question.others:
        return retrieve(store, settings.corpus(question.corpus), question)
    vectors: dict[str, Vectors] = {}
    found: dict[str, Found] = {}
    notes = []
    unknown: UnknownFieldError | None = None
    for name in names:
        if latest_publication(store, name) is None:
            notes.append(f"corpus {name} has no published index yet; run: rag-assets ingest {name}")
            continue
        try:
            found[name] = retrieve(store, settings.corpus(name), question, vectors=vectors)
        except UnknownFieldError as error:
            notes.append(f"corpus {name} is passed over: {error}")
            unknown = unknown or error
    if not found and unknown:
        raise unknown
    if not found:
        raise QuestionError(f"corpora {', '.join(names)} have no published index yet; run: rag-assets ingest")
    first = next(iter(found.values()))
    passages = fuse_corpora([one.passages for one in found.values()])
    threshold = settings.corpus(question.corpus).retrieval.collapse
    if threshold is not None:
        passages = collapse(passages, threshold=threshold, at_most=question.depth)
    return replace(
        first,
        embedding_model=", ".join(dict.fromkeys(one.embedding_model for one in found.values())),
        passages=passages[: question.depth],
        embedded={place: one for each in found.values() for place, one in each.embedded.items()},
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
    wanted = Search(question.text, question.mode, question.depth, question.candidates, question.where, question.filters)
    embedded: dict[tuple[str, str], Embedded] = {}
    with _timed(timings, "retrieve"):
        vector = None
        if vectors is not None and publication.table_version and weighs(corpus.retrieval, question.mode, "vector"):
            vector = _shared(vectors, question, provider)
        passages = search(store, corpus, publication, wanted, provider, vector=vector)
        if question.diversity:
            model = fingerprint(dict(provider.identity))
            by_chunk = vectors_of(store, corpus, publication, passages)
            embedded = {(corpus.name, chunk_id): Embedded(model, one) for chunk_id, one in by_chunk.items()}
    publications = {corpus.name: publication}
    return Found(question, publication, provider.name, passages, timings, publications=publications, embedded=embedded)


def _shared(vectors: dict[str, Vectors], question: Question, provider: EmbeddingProvider) -> Vectors:
    """The vector of the question, embedded unless `vectors` has it already."""
    model = fingerprint(dict(provider.identity))
    if model not in vectors:
        vectors[model] = embed_question(question.text, provider)
    return vectors[model]


def rerank(corpus: CorpusSettings, found: Found) -> Found:
    """The best `top_k` passages, in the order of the reranker of `corpus`. Where there is none, or the question wants none,
    or it fails, which a note tells, they are in the order in which retrieval found them."""
    timings: dict[str, float] = dict(found.timings_ms)
    question = found.question
    with _timed(timings, "rerank"):
        settings = corpus.rerank if question.reranks else NoRerank()
        passages, reranking = reorder(settings, question.text, found.passages)
        settled = settle(replace(found, passages=passages))
    return replace(
        found,
        passages=settled[: question.top_k],
        reserve=settled[question.top_k :],
        timings_ms=timings,
        notes=[*found.notes, *reranking.notes],
        reranking=reranking,
    )


def settle(found: Found) -> Sequence[Passage]:
    """The `top_k` passages that the question is answered from, best first, and as many in reserve: unlike ones, where it
    asks for diversity."""
    question = found.question
    return diversify(found.passages, found.embedded, diversity=question.diversity, top_k=_RESERVE * question.top_k)


def read_wider(store: Store, found: Found) -> tuple[Sequence[Passage], Sequence[str]]:
    """The passages as an answer reads them, with their parents or neighbours, and a note where those are gone. Where some
    grew together, others of the reserve follow, so that there are as many."""
    wider, notes = _widened(store, found, found.passages)
    if len(wider) < len(found.passages) and found.reserve:
        more, _ = _widened(store, found, found.reserve)
        wider = [*wider, *(one for one in more if not any(_overlap(one, other) for other in wider))]
    return wider[: len(found.passages)], notes


def _widened(store: Store, found: Found, passages: Sequence[Passage]) -> tuple[Sequence[Passage], Sequence[str]]:
    count = found.question.neighbours
    if not count:
        return read_parents(passages), ()
    try:
        return read_neighbours(store, found.publications, passages, count=count), ()
    except StoreError as error:
        return read_parents(passages), (f"The chunks around the passages could not be read: {error}",)


def _overlap(one: Passage, other: Passage) -> bool:
    same = (one.corpus, one.document) == (other.corpus, other.document)
    return same and one.start_char < other.end_char and other.start_char < one.end_char


def generate(
    store: Store,
    corpus: CorpusSettings,
    found: Found,
    *,
    run_id: str,
    on_text: Callable[[str], None] | None = None,
) -> Answer:
    """Answer from the passages, and keep the answer with the passages that fed it in the table `answers`."""
    question, follow_up = found.question, found.question.follow_up
    timings: dict[str, float] = {**({"rewrite": follow_up.milliseconds} if follow_up else {}), **found.timings_ms}
    rewritten = follow_up.rewritten if follow_up else Rewritten(question.text)
    asked = follow_up.asked if follow_up else question.text
    persona = question.persona
    generator, notes = _speaking(make_generator(corpus.generation), persona)
    with _timed(timings, "generate"):
        passages, unread = read_wider(store, found)
        generated = generator.generate(question.text, passages, on_text=on_text)
    timings["total"] = round(sum(timings.values()), 1)
    citations = citations_of(generated, passages)
    answer = Answer(
        question=asked,
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
        usage=rewritten.usage + found.reranking.usage + generated.usage,
        timings_ms=timings,
        notes=list(
            dict.fromkeys([*rewritten.notes, *found.notes, *_filter_noted(question), *unread, *notes, *generated.notes])
        ),
        prompt_version=generated.prompt_version or rewritten.prompt_version,
        fingerprint=_fingerprint(corpus, found, passages, generated.prompt_version),
        index_versions={name: one.version for name, one in found.publications.items()},
        reranker=found.reranking.reranker,
        standalone_question=question.text if question.text != asked else None,
        continues=question.continues,
        markers_removed=generated.markers_removed,
        quotations_unfounded=generated.quotations_unfounded,
    )
    return _kept(store, answer)


def ask(
    store: Store, settings: Settings, question: Question, *, on_text: Callable[[str], None] | None = None
) -> Answer:
    """All steps at once, in this process. The answer's `run_id` is a new random UUID."""
    corpus = settings.corpus(question.corpus)
    found = rerank(corpus, retrieve_from_all(store, settings, stand_alone(settings, question)))
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


def _fingerprint(corpus: CorpusSettings, found: Found, passages: Sequence[Passage], prompt_version: str | None) -> str:
    """What the answer was made from. How a server is reached and paid is not part of it."""
    question, settings = found.question, corpus.generation.model_dump(mode="json")
    return fingerprint(
        {
            "question": question.follow_up.asked if question.follow_up else question.text,
            "standalone_question": question.text,
            "passages": [[passage.chunk_id, hash_text(passage.text)] for passage in passages],
            "prompts": prompt_version,
            "persona": question.persona.instructions if question.persona else None,
            "rerank": found.reranking.identity,
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
    record = asdict(answer)
    beside = {
        "citation_corpora": [citation.corpus for citation in answer.citations],
        "citation_also_in": [citation["also_in"] for citation in record["citations"]],
    }
    row = record | {"asked_at": datetime.now(UTC)} | beside | as_json
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
