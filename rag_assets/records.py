"""The records that travel between stages, and the Arrow schema of every table. Nothing else defines a column.

A document becomes chunks, chunks become vectors, chunk and vector become an index row, an index row that was found
becomes a passage, and passages become an answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import pyarrow as pa

from rag_assets.errors import Stage
from rag_assets.fingerprints import hash_text

Status = Literal["pending", "indexed", "empty", "failed"]

_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Document:
    """One source file as text.

    `text` has LF line ends, no U+FEFF, no NUL and no lone surrogate; every offset anywhere counts code points in it.
    `first_line` is the line (from 1) of the source at which `text` begins: more than 1 after front matter.
    `lossy` is true when bytes could not be decoded with certainty. `page_starts` are the offsets at which the pages of a
    paged format begin, the first page first; empty where there are no pages.
    """

    document: str
    title: str
    mime: str
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)
    first_line: int = 1
    lossy: bool = False
    page_starts: Sequence[int] = ()

    @property
    def text_hash(self) -> str:
        """SHA-256 of the text."""
        return hash_text(self.text)


@dataclass(frozen=True)
class Span:
    """A half-open range of code points in a document's text, and the headings above it, outermost first.

    `parent` is the wider range that an answer reads in its place, where a strategy makes one.
    """

    start: int
    end: int
    heading_path: tuple[str, ...] = ()
    parent: tuple[int, int] | None = None


@dataclass(frozen=True)
class Parent:
    """The wider passage around a chunk, which an answer reads in its place. `text` is exactly the document's range."""

    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int


@dataclass(frozen=True)
class Chunk:
    """A passage of a document, small enough for the embedder. `text` is exactly `document.text[start_char:end_char]`.

    Lines count from 1 in the source file, pages from 1; no page where the format has none. `tokens` counts in the tokenizer
    of the chunking settings.
    """

    chunk_id: str
    document: str
    ordinal: int
    text: str
    text_hash: str
    tokens: int
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    heading_path: tuple[str, ...] = ()
    start_page: int | None = None
    end_page: int | None = None
    parent_chunk_id: str | None = None
    parent: Parent | None = None


@dataclass(frozen=True)
class Place:
    """Where a passage stands that says nearly the same as another one."""

    document: str
    chunk_id: str
    start_line: int
    end_line: int
    corpus: str = ""


@dataclass(frozen=True)
class Passage:
    """An index row that a search found.

    `score` orders the results (higher is better; its scale depends on the search mode and the reranker). `similarity` is
    the cosine to the question in the index's own model, None where only full text found the row; `text_score` is BM25, None
    where only vectors found it. `also_in` are passages
    that say nearly the same, where those are collapsed.
    """

    chunk_id: str
    document: str
    ordinal: int
    text: str
    title: str
    source_uri: str
    heading_path: tuple[str, ...]
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    score: float
    similarity: float | None = None
    text_score: float | None = None
    start_page: int | None = None
    end_page: int | None = None
    parent_chunk_id: str | None = None
    parent: Parent | None = None
    corpus: str = ""
    also_in: Sequence[Place] = ()

    @property
    def place(self) -> tuple[str, str]:
        """What tells it from every other passage: corpus and chunk id."""
        return self.corpus, self.chunk_id


@dataclass(frozen=True)
class Citation:
    """A passage that an answer points at with `[marker]`. `text` is the passage as the reader was given it."""

    marker: int
    document: str
    source_uri: str
    heading_path: tuple[str, ...]
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    text: str
    score: float
    chunk_id: str
    start_page: int | None = None
    end_page: int | None = None
    corpus: str = ""
    also_in: Sequence[Place] = ()


@dataclass(frozen=True)
class Turn:
    """An earlier question of a conversation, in the form that stands alone where that is known, and its answer."""

    question: str
    answer: str


@dataclass(frozen=True)
class Usage:
    """What a model call consumed, in tokens as the provider counts them, and US dollars (0.0 for local models)."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost_usd + other.cost_usd,
        )


@dataclass(frozen=True)
class Answer:
    """A question, its answer, and everything needed to audit it later. `timings_ms` holds wall time by step.

    `prompt_version` says which prompts a model was sent, None where none was. `fingerprint` is the same for two answers
    that were made from the same: question, passages, prompts, persona, model and settings. Of several corpora, `corpus`
    holds the names, `index_version` is that of the first, and `index_versions` has them all; documents and chunks are
    summed up. `reranker` is what put the passages in order, with eight digits of all that decides its scores; None where
    they are in fused order.

    `question` is as it was asked; `standalone_question` is what was searched for in its place, where a follow-up was
    rewritten, and `continues` the run id of the answer that it follows. `markers_removed` counts the markers that pointed
    at no passage, `quotations_unfounded` the quotations that no cited passage holds.
    """

    question: str
    answer: str
    answered: bool
    citations: Sequence[Citation]
    sources: Sequence[str]
    corpus: str
    persona_id: str | None
    model: str
    embedding_model: str
    index_version: int
    documents_indexed: int
    chunks_indexed: int
    run_id: str
    usage: Usage
    timings_ms: Mapping[str, float]
    notes: Sequence[str] = ()
    prompt_version: str | None = None
    fingerprint: str | None = None
    index_versions: Mapping[str, int] = field(default_factory=dict)
    reranker: str | None = None
    standalone_question: str | None = None
    continues: str | None = None
    markers_removed: int = 0
    quotations_unfounded: int = 0

    @property
    def num_sources(self) -> int:
        """How many documents the answer cites."""
        return len(self.sources)


@dataclass(frozen=True)
class QuestionScore:
    """What became of one question with a known answer.

    `rank` is where the answer was found, from 1; None where it was not. The ranking measures are None where nothing
    answers, those of the answer where none was made. `citations_right` of the `citations` point at the known answer;
    `citation_recall` is 1.0 where together they hold all of it. `found` are the documents found, best first.
    """

    id: str
    question: str
    answerable: bool
    rank: int | None
    recall_at_5: float | None
    recall_at_k: float | None
    ndcg_at_10: float | None
    reciprocal_rank: float | None
    answered: bool | None
    citations: int | None
    citations_right: int | None
    citation_recall: float | None
    found: Sequence[str]
    latency_ms: float
    cost_usd: float


@dataclass(frozen=True)
class Figures:
    """What an evaluation measured, over all its questions. Shares and measures are 0 to 1, higher is better; None where
    no question could tell. Latencies are wall milliseconds of a question."""

    recall_at_5: float | None
    recall_at_k: float | None
    ndcg_at_10: float | None
    mrr: float | None
    answerable_accuracy: float | None
    unanswerable_accuracy: float | None
    citation_precision: float | None
    citation_recall: float | None
    latency_p50_ms: float
    latency_p95_ms: float
    cost_usd: float


@dataclass(frozen=True)
class Evaluation:
    """One run of a set of questions on one version of an index: `generation` and `table_version` name its rows.

    `questions_hash` tells whether two evaluations asked the same and looked equally deep (`top_k`). `held` says why a
    candidate was not published; None for what was.
    """

    evaluated_at: datetime
    corpus: str
    run_id: str
    index_version: int
    generation: str
    table_version: int
    embedding_model: str
    answer_model: str | None
    questions: str
    questions_hash: str
    top_k: int
    answerable: int
    unanswerable: int
    figures: Figures
    scores: Sequence[QuestionScore] = ()
    held: str | None = None


DOCUMENTS = pa.schema(
    [
        pa.field("document", pa.string(), nullable=False),
        ("title", pa.string()),
        ("mime", pa.string()),
        ("text", pa.large_string()),
        ("text_hash", pa.string()),
        ("metadata", pa.string()),
        ("first_line", pa.int32()),
        ("lossy", pa.bool_()),
        ("page_starts", pa.list_(pa.int64())),
        ("source_uri", pa.string()),
        ("byte_hash", pa.string()),
        ("bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("revision", pa.string()),
        ("read_at", _TIME),
        ("text_since", _TIME),
        ("reader", pa.string()),
        ("status", pa.string()),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("retryable", pa.bool_()),
        ("attempts", pa.int32()),
        ("attempted_at", _TIME),
        ("generation", pa.string()),
        ("chunks", pa.int32()),
        ("tokens", pa.int64()),
        ("tokens_embedded", pa.int64()),
        ("texts_embedded", pa.int32()),
        ("texts_reused", pa.int32()),
        ("cost_usd", pa.float64()),
        ("indexed_at", _TIME),
        ("run_id", pa.string()),
    ]
)

_PARENT = pa.struct(
    [
        ("text", pa.string()),
        ("start_char", pa.int64()),
        ("end_char", pa.int64()),
        ("start_line", pa.int32()),
        ("end_line", pa.int32()),
    ]
)

CHUNKS = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("document", pa.string(), nullable=False),
        ("ordinal", pa.int32()),
        ("text", pa.string()),
        ("text_hash", pa.string()),
        ("tokens", pa.int32()),
        ("start_char", pa.int64()),
        ("end_char", pa.int64()),
        ("start_line", pa.int32()),
        ("end_line", pa.int32()),
        ("heading_path", pa.list_(pa.string())),
        ("start_page", pa.int32()),
        ("end_page", pa.int32()),
        ("parent_chunk_id", pa.string()),
        ("parent", _PARENT),
        ("document_hash", pa.string()),
        ("chunking", pa.string()),
    ]
)

PUBLICATIONS = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        ("generation", pa.string()),
        ("table_version", pa.int64()),
        ("published_at", _TIME),
        ("run_id", pa.string()),
        ("action", pa.string()),
        ("documents", pa.int64()),
        ("chunks", pa.int64()),
        ("embedding", pa.string()),
        ("summary", pa.string()),
    ]
)

_CITATION = pa.struct(
    [
        ("marker", pa.int32()),
        ("document", pa.string()),
        ("source_uri", pa.string()),
        ("heading_path", pa.list_(pa.string())),
        ("start_char", pa.int64()),
        ("end_char", pa.int64()),
        ("start_line", pa.int32()),
        ("end_line", pa.int32()),
        ("text", pa.string()),
        ("score", pa.float64()),
        ("chunk_id", pa.string()),
        ("start_page", pa.int32()),
        ("end_page", pa.int32()),
    ]
)

_PLACE = pa.struct(
    [
        ("document", pa.string()),
        ("chunk_id", pa.string()),
        ("start_line", pa.int32()),
        ("end_line", pa.int32()),
        ("corpus", pa.string()),
    ]
)

# What came to a citation later is beside them: a column inside `citations` cannot be added to a table that is there.
ANSWERS = pa.schema(
    [
        ("asked_at", _TIME),
        ("question", pa.string()),
        ("answer", pa.string()),
        ("answered", pa.bool_()),
        ("citations", pa.list_(_CITATION)),
        ("sources", pa.list_(pa.string())),
        ("corpus", pa.string()),
        ("persona_id", pa.string()),
        ("model", pa.string()),
        ("embedding_model", pa.string()),
        ("index_version", pa.int64()),
        ("documents_indexed", pa.int64()),
        ("chunks_indexed", pa.int64()),
        ("run_id", pa.string()),
        (
            "usage",
            pa.struct([("prompt_tokens", pa.int64()), ("completion_tokens", pa.int64()), ("cost_usd", pa.float64())]),
        ),
        ("timings_ms", pa.string()),
        ("notes", pa.list_(pa.string())),
        ("prompt_version", pa.string()),
        ("fingerprint", pa.string()),
        ("index_versions", pa.string()),
        ("citation_corpora", pa.list_(pa.string())),
        ("citation_also_in", pa.list_(pa.list_(_PLACE))),
        ("reranker", pa.string()),
        ("standalone_question", pa.string()),
        ("continues", pa.string()),
        ("markers_removed", pa.int32()),
        ("quotations_unfounded", pa.int32()),
    ]
)


SPEND = pa.schema(
    [
        ("spent_at", _TIME),
        ("corpus", pa.string()),
        ("run_id", pa.string()),
        ("model", pa.string()),
        ("requests", pa.int64()),
        ("texts", pa.int64()),
        ("tokens", pa.int64()),
        ("cost_usd", pa.float64()),
    ]
)
"""What a run paid for embeddings, in one row or several. `cost_usd` is at the price that was in force."""

_QUESTION_SCORE = pa.struct(
    [
        ("id", pa.string()),
        ("question", pa.string()),
        ("answerable", pa.bool_()),
        ("rank", pa.int32()),
        ("recall_at_5", pa.float64()),
        ("recall_at_k", pa.float64()),
        ("ndcg_at_10", pa.float64()),
        ("reciprocal_rank", pa.float64()),
        ("answered", pa.bool_()),
        ("citations", pa.int32()),
        ("citations_right", pa.int32()),
        ("citation_recall", pa.float64()),
        ("found", pa.list_(pa.string())),
        ("latency_ms", pa.float64()),
        ("cost_usd", pa.float64()),
    ]
)

EVALUATIONS = pa.schema(
    [
        ("evaluated_at", _TIME),
        ("corpus", pa.string()),
        ("run_id", pa.string()),
        ("index_version", pa.int64()),
        ("generation", pa.string()),
        ("table_version", pa.int64()),
        ("embedding_model", pa.string()),
        ("answer_model", pa.string()),
        ("questions", pa.string()),
        ("questions_hash", pa.string()),
        ("top_k", pa.int32()),
        ("answerable", pa.int32()),
        ("unanswerable", pa.int32()),
        *((name, pa.float64()) for name in Figures.__dataclass_fields__),
        ("scores", pa.list_(_QUESTION_SCORE)),
        ("held", pa.string()),
    ]
)


HEALTH = pa.schema(
    [
        ("measured_at", _TIME),
        ("corpus", pa.string()),
        ("run_id", pa.string()),
        ("index_version", pa.int64()),
        ("generation", pa.string()),
        ("documents", pa.int64()),
        ("lag_p50_seconds", pa.float64()),
        ("lag_p95_seconds", pa.float64()),
        ("lag_worst_seconds", pa.float64()),
        ("documents_late", pa.int64()),
        ("chunks_expected", pa.int64()),
        ("chunks_indexed", pa.int64()),
        ("coverage", pa.float64()),
        ("documents_uncovered", pa.int64()),
        ("documents_failed", pa.int64()),
        ("error_rate", pa.float64()),
        ("rows_compared", pa.int64()),
        ("rows_disagreeing", pa.int64()),
        ("agreement", pa.float64()),
        ("unindexed_share", pa.float64()),
        ("fragments", pa.int64()),
        ("bytes", pa.int64()),
        ("live_bytes", pa.int64()),
        ("spent_this_month_usd", pa.float64()),
        ("answer_rate", pa.float64()),
        ("checks", pa.string()),
        ("seconds", pa.float64()),
    ]
)
"""How healthy a corpus was, one row a measurement. Shares are 0 to 1; a figure is null where it could not be told. `checks`
is JSON: what each check found, by its name."""

UNNEEDED = pa.schema([pa.field("text_hash", pa.string(), nullable=False), ("since", _TIME)])
"""Texts whose vector nothing needs, and when maintenance first saw that."""


def vectors_schema(dimensions: int) -> pa.Schema:
    """One row a text: its SHA-256 (64 hexadecimal digits) and its vector (`dimensions` float32)."""
    return pa.schema(
        [
            pa.field("text_hash", pa.string(), nullable=False),
            pa.field("vector", pa.list_(pa.float32(), dimensions), nullable=False),
            ("tokens", pa.int32()),
        ]
    )


def index_schema(dimensions: int) -> pa.Schema:
    """What readers search: a chunk, its vector, and what a citation or a filter needs of its document.

    `modified` is when the file was last written before it was read, null where its source does not tell; `metadata` are the
    labels of its front matter, `field=value`; `space_after` is the white space between this chunk and the next;
    `searched_text` is what full text searches, the text below its title and headings.
    """
    return pa.schema(
        [
            *CHUNKS,
            pa.field("title", pa.string()),
            pa.field("mime", pa.string()),
            pa.field("source_uri", pa.string()),
            pa.field("modified", _TIME),
            pa.field("metadata", pa.list_(pa.string())),
            pa.field("space_after", pa.string()),
            pa.field("searched_text", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), dimensions), nullable=False),
        ]
    )


__all__ = [
    "ANSWERS",
    "CHUNKS",
    "DOCUMENTS",
    "EVALUATIONS",
    "HEALTH",
    "PUBLICATIONS",
    "SPEND",
    "UNNEEDED",
    "Answer",
    "Chunk",
    "Citation",
    "Document",
    "Evaluation",
    "Figures",
    "Parent",
    "Passage",
    "Place",
    "QuestionScore",
    "Span",
    "Stage",
    "Status",
    "Turn",
    "Usage",
    "index_schema",
    "vectors_schema",
]
