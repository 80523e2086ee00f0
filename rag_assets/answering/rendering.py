"""An answer as Markdown for the Dagster UI, and as JSON for programs.

Documents are hostile here: nothing that a passage or a model wrote may open a tag, a link, an image or a fence that it
does not close.
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from rag_assets.records import Answer, Citation

_FENCE_LINE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)")
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def to_markdown(answer: Answer) -> str:
    """Question, answer, numbered citations with the quoted text, and one line that says what made the answer."""
    parts = [f"**{_words(answer.question)}**"]
    parts += [f"*Asked as: {_words(answer.standalone_question)}*"] if answer.standalone_question else []
    parts.append(_prose(answer.answer))
    several = len(answer.index_versions) > 1
    parts += [_citation(citation, citation.corpus if several else "") for citation in answer.citations]
    parts += [f"*Note: {_words(note)}*" for note in answer.notes]
    return "\n\n".join([*parts, f"---\n\n{_made_with(answer)}"]) + "\n"


def to_json(answer: Answer) -> dict[str, object]:
    """The record with `num_sources`, made of strings, numbers, lists and dictionaries only."""
    return {
        "question": answer.question,
        "answer": answer.answer,
        "answered": answer.answered,
        "citations": [
            {**asdict(one), "heading_path": list(one.heading_path), "also_in": [asdict(place) for place in one.also_in]}
            for one in answer.citations
        ],
        "sources": list(answer.sources),
        "num_sources": answer.num_sources,
        "corpus": answer.corpus,
        "persona_id": answer.persona_id,
        "model": answer.model,
        "embedding_model": answer.embedding_model,
        "index_version": answer.index_version,
        "documents_indexed": answer.documents_indexed,
        "chunks_indexed": answer.chunks_indexed,
        "run_id": answer.run_id,
        "usage": asdict(answer.usage),
        "timings_ms": dict(answer.timings_ms),
        "notes": list(answer.notes),
        "prompt_version": answer.prompt_version,
        "fingerprint": answer.fingerprint,
        "index_versions": dict(answer.index_versions),
        "reranker": answer.reranker,
        "standalone_question": answer.standalone_question,
        "continues": answer.continues,
        "markers_removed": answer.markers_removed,
        "quotations_unfounded": answer.quotations_unfounded,
    }


def _citation(citation: Citation, corpus: str) -> str:
    path = " › ".join(_words(heading) for heading in citation.heading_path)
    page = f"page {citation.start_page}, " if citation.start_page is not None else ""
    where = f"{page}lines {citation.start_line}–{citation.end_line}, score {citation.score:.3f}"
    twins = ", ".join(dict.fromkeys(_code(one.document) for one in citation.also_in))
    also_in = f"also in {twins}" if twins else ""
    title = " — ".join(part for part in (_words(corpus), _code(citation.document), path, where, also_in) if part)
    return f"**\\[{citation.marker}\\]** {title}\n\n{_fenced(citation.text.strip())}"


def _made_with(answer: Answer) -> str:
    times = ", ".join(f"{_words(step)} {milliseconds:.0f} ms" for step, milliseconds in answer.timings_ms.items())
    facts = [
        f"corpus {_code(answer.corpus)}",
        *([f"persona {_code(answer.persona_id)}"] if answer.persona_id else []),
        f"model {_code(answer.model)}",
        f"embedding {_code(answer.embedding_model)}",
        *([f"reranker {_code(answer.reranker)}"] if answer.reranker else []),
        f"index version {_versions(answer)}",
        f"{answer.documents_indexed} documents, {answer.chunks_indexed} chunks",
        f"{answer.usage.prompt_tokens} + {answer.usage.completion_tokens} tokens, ${answer.usage.cost_usd:.4f}",
        *([times] if times else []),
    ]
    return " · ".join(facts)


def _versions(answer: Answer) -> str:
    if len(answer.index_versions) < 2:
        return str(answer.index_version)
    return ", ".join(f"{version} of {_code(corpus)}" for corpus, version in answer.index_versions.items())


def _fenced(text: str, language: str = "text") -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    """An inline code span of one line, whatever `text` holds."""
    line = " ".join(text.split()) or "-"
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    return f"{ticks} {line} {ticks}" if "`" in line else f"{ticks}{line}{ticks}"


def _words(text: str) -> str:
    """One line of plain words: every character that Markdown may act on is escaped."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~:-])", r"\\\1", line)


def _prose(text: str) -> str:
    """An answer with its lists, emphasis and code, and without tags, links, images, tables and headings of its own."""
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    """Code blocks are written anew at the margin: there, nothing before or inside them can end them early."""
    lines = iter(text.splitlines())
    for line in lines:
        opening = _FENCE_LINE.fullmatch(line)
        if opening is None:
            yield _inert(line)
            continue
        code: list[str] = []
        for inner in lines:
            if inner.strip().startswith(opening["mark"]) and not inner.strip().strip(opening["mark"][0]):
                break
            code.append(inner)
        language = re.match(r"[\w+-]*", opening["info"].strip())
        yield _fenced(textwrap.dedent("\n".join(code)), language.group() if language else "")


def _inert(line: str) -> str:
    out: list[str] = []
    start = 0
    for code in _INLINE_CODE.finditer(line):
        out += [_disarmed(line[start : code.start()]), code.group()]
        start = code.end()
    prose = "".join([*out, _disarmed(line[start:])])
    return re.sub(r"^(\s*)(#|=+\s*$|-{2,}\s*$)", r"\1\\\2", prose)


def _disarmed(text: str) -> str:
    """Prose outside code. A lone backtick is escaped, or it could pair with one on another line."""
    text = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"(`|\||!(?=\[)|\](?=[(\[:]))", r"\\\1", text)
