"""Topics: chunks end where neighbouring sentences drift apart in meaning. For long prose without headings.

Each sentence is embedded with the embedded model, whatever embeds the chunks of the corpus, so nothing is paid. Between
two sentences stands a similarity: the cosine of the mean of the sentences before with the mean of those after, as far as
`_REACH` goes. A topic ends where it is lower than at both neighbours and among the lowest `break_percentile` percent
within `_AROUND` places. That is TextTiling (Hearst, 1997) with embeddings. Nothing looks further than that, so an edit
changes the topics around it and no others.
"""

import functools
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from rag_assets.chunking.limits import Limits
from rag_assets.chunking.packing import Seam, line_starts, seams
from rag_assets.chunking.paragraphs import Paragraph, outline_of, paragraphs_of
from rag_assets.chunking.sentences import sentence_seams
from rag_assets.chunking.units import Unit, pack_units
from rag_assets.config import LocalEmbedding
from rag_assets.embedding.local import CODE_VERSION as MODEL_VERSION
from rag_assets.embedding.local import LocalProvider
from rag_assets.embedding.provider import Vectors
from rag_assets.records import Document, Span

VERSION = f"1.{MODEL_VERSION}"

_REACH = 3
_AROUND = 10
_AT_ONCE = 256


def split_topics(document: Document, limits: Limits) -> Iterator[Span]:
    """Topics, packed as `units` says. A heading begins a topic; a block with code is one sentence."""
    paragraphs = paragraphs_of(document.text, outline_of(document))
    units = [unit for section in _sections(paragraphs) for unit in _topics(limits, section)]
    return pack_units(limits, units, len(document.text))


def embed_sentences(texts: Sequence[str]) -> Vectors:
    """Unit vectors of shape (texts, 384), from the embedded model."""
    model = _model()
    parts = [model.embed(texts[at : at + _AT_ONCE], "document").vectors for at in range(0, len(texts), _AT_ONCE)]
    return np.concatenate(parts)


@functools.cache
def _model() -> LocalProvider:
    return LocalProvider(LocalEmbedding())


def _sections(paragraphs: Iterator[Paragraph]) -> Iterator[list[Paragraph]]:
    section: list[Paragraph] = []
    for paragraph in paragraphs:
        if section and paragraph.body > paragraph.start:
            yield section
            section = []
        section.append(paragraph)
    if section:
        yield section


def _topics(limits: Limits, section: Sequence[Paragraph]) -> Iterator[Unit]:
    sentences = [seam for paragraph in section for seam in _sentences(limits, paragraph)]
    ends = [*(seam.position for seam in sentences[1:]), section[-1].end]
    texts = [limits.text[seam.position : end].strip() for seam, end in zip(sentences, ends, strict=True)]
    starts = [0, *_drops(texts, percentile=limits.settings.break_percentile), len(sentences)]
    level = len(section[0].path)
    for first, beyond in pairwise(starts):
        yield Unit(sentences[first].position, section[0].path, level, seams=sentences[first:beyond])


def _sentences(limits: Limits, paragraph: Paragraph) -> Iterator[Seam]:
    if paragraph.code:
        return seams(limits, paragraph.start, paragraph.end, rank=0, splitters=((2, line_starts),))
    return sentence_seams(limits, paragraph.start, paragraph.end, rank=0)


def _drops(texts: Sequence[str], *, percentile: int) -> list[int]:
    """The sentences that begin a topic, but for the first."""
    told = [index for index, text in enumerate(texts) if text]
    if len(told) < 3:
        return []
    vectors = embed_sentences([texts[index] for index in told])
    similarity = [_similarity(vectors, place) for place in range(1, len(told))]
    drops = []
    for place, value in enumerate(similarity):
        around = similarity[max(0, place - _AROUND) : place + _AROUND + 1]
        lower = value < min(similarity[max(0, place - 1) : place] + similarity[place + 1 : place + 2])
        if lower and sum(other < value for other in around) < len(around) * percentile / 100:
            drops.append(told[place + 1])
    return drops


def _similarity(vectors: Vectors, place: int) -> float:
    before = vectors[max(0, place - _REACH) : place].mean(axis=0, dtype=np.float64)
    after = vectors[place : place + _REACH].mean(axis=0, dtype=np.float64)
    return float(before @ after / (np.linalg.norm(before) * np.linalg.norm(after)))
