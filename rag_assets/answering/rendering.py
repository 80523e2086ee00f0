"""An answer as Markdown for the Dagster UI, and as JSON for programs.

Documents are hostile here: nothing that a passage or a model wrote may open a tag, a link, an image or a fence that it
does not close.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict

from rag_assets.records import Answer, Citation

_FENCE_LINE = re.compile(r"^[ \t]*(`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_ACTIVE = re.compile(r"[\\<>&|]|!(?=\[)|\](?=[(\[:])|(?<=\w)(?:://)|^[ \t]*(?:#{1,6}(?=\s)|[=-]{2,}[ \t]*$|>)")


def to_markdown(answer: Answer) -> str:
    """Question, answer, numbered citations with the quoted text, and one line that says what the answer was made with."""
    parts = [f"**{_words(answer.question)}**", _prose(answer.answer)]
    parts += [_citation(citation) for citation in answer.citations]
    parts += [f"*Note: {_words(note)}*" for note in answer.notes]
    return "\n\n".join([*parts, f"---\n\n{_made_with(answer)}"]) + "\n"


def to_json(answer: Answer) -> dict[str, object]:
    """The record with `num_sources`, made of strings, numbers, lists and dictionaries only."""
    return {
        "question": answer.question,
        "answer": answer.answer,
        "answered": answer.answered,
        "citations": [asdict(citation) | {"heading_path": list(citation.heading_path)} for citation in answer.citations],
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
    }


def _citation(citation: Citation) -> str:
    path = " › ".join(_words(heading) for heading in citation.heading_path)
    where = f"lines {citation.start_line}–{citation.end_line}, score {citation.score:.3f}"
    title = " — ".join(part for part in (_code(citation.document), path, where) if part)
    return f"**\\[{citation.marker}\\]** {title}\n\n{_fenced(citation.text)}"


def _made_with(answer: Answer) -> str:
    times = ", ".join(f"{_words(step)} {milliseconds:.0f} ms" for step, milliseconds in answer.timings_ms.items())
    facts = [
        f"corpus {_code(answer.corpus)}",
        f"model {_code(answer.model)}",
        f"embedding {_code(answer.embedding_model)}",
        f"index version {answer.index_version}",
        f"{answer.documents_indexed} documents, {answer.chunks_indexed} chunks",
        f"{answer.usage.prompt_tokens} + {answer.usage.completion_tokens} tokens, ${answer.usage.cost_usd:.4f}",
        *([times] if times else []),
    ]
    return f"<sub>{' · '.join(facts)}</sub>"


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.strip()}\n{fence}"


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
    """An answer with its lists, code and emphasis, and without tags, links, images and headings of its own."""
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    fence = ""
    for line in text.splitlines():
        mark = _FENCE_LINE.match(line)
        if fence:
            yield line
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark and (mark[1][0] == "~" or "`" not in line[mark.end() :]):
            fence = mark[1]
            yield line
        else:
            yield _inert(line)
    if fence:
        yield fence


def _inert(line: str) -> str:
    out: list[str] = []
    start = 0
    for code in _INLINE_CODE.finditer(line):
        out += [_disarm(line[start : code.start()]), code.group()]
        start = code.end()
    return "".join([*out, _disarm(line[start:])])


def _disarm(text: str) -> str:
    return _ACTIVE.sub(lambda match: _escaped(match.group()), text)


def _escaped(found: str) -> str:
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    stripped = found.strip()
    if stripped in entities:
        return found.replace(stripped, entities[stripped])
    return found.replace(stripped, f"\\{stripped}") if stripped != "://" else found
