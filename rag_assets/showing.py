"""What a person sees on the terminal: passages, answers, tables of versions and progress bars, drawn with rich."""

import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from textwrap import indent

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from rag_assets.answering.personas import Persona
from rag_assets.progress import listening
from rag_assets.records import Answer, Citation, Passage
from rag_assets.scoring.comparing import Standing
from rag_assets.scoring.rendering import known_figures, worst_rows
from rag_assets.storing.comparing import Changes
from rag_assets.storing.publishing import Publication
from rag_assets.wording import count

_SHOWN_CHARACTERS = 400
_WORST = 10
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def terminal() -> Console:
    """Standard output. What is not a terminal gets whole lines: they are searched and cut there, not looked at."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=10_000)


def visible(text: str) -> str:
    """`text` with control characters, which could command the terminal, as U+FFFD; lines and tabs stay."""
    return _CONTROL.sub("\ufffd", text)


def show_passages(passages: Sequence[Passage], *, corpora: Sequence[str]) -> None:
    """Print passages, best first, or that there are none; with their corpus where several of `corpora` were asked."""
    console = terminal()
    if not passages:
        console.print("nothing was found")
    for rank, passage in enumerate(passages, start=1):
        console.print(
            Text(f"{rank}. ", style="bold")
            + _place(passage, corpora)
            + Text(f"  score {passage.score:.3f}", style="dim")
        )
        _print_indented(console, Text(_shorten(passage.text)), by=3)
        console.print()


def show_answer(answer: Answer, *, streamed: bool = False) -> None:
    """Print an answer and its citations. When it was streamed, its text is on the terminal already."""
    console = terminal()
    console.print() if streamed else console.print(Text(visible(answer.answer)))
    if answer.standalone_question:
        console.print(Text(f"\nasked as: {visible(answer.standalone_question)}", style="dim"))
    if answer.citations:
        console.print()
    for citation in answer.citations:
        console.print(Text(f"[{citation.marker}] ", style="bold") + _place(citation, list(answer.index_versions)))
        _print_indented(console, Text(_shorten(citation.text), style="dim"), by=4)
    for note in answer.notes:
        console.print(Text(f"note: {visible(note)}", style="yellow"))
    speaker = f" as {answer.persona_id}" if answer.persona_id else ""
    reranker = f", reranked by {answer.reranker}" if answer.reranker else ""
    console.print(
        Text(
            f"\n{_versions(answer)}: {count(answer.documents_indexed, 'document')},"
            f" {count(answer.chunks_indexed, 'chunk')}; {answer.model}{speaker}{reranker},"
            f" {answer.timings_ms.get('total', 0) / 1000:.2f} s",
            style="dim",
        )
    )


def show_personas(known: Sequence[Persona]) -> None:
    """Print who can answer."""
    table = Table()
    for column in ("id", "name", "phase", "category", "role"):
        table.add_column(column, overflow="fold")
    for one in known:
        table.add_row(*(Text(visible(text)) for text in (one.id, one.name, one.phase, one.category, one.role)))
    terminal().print(table)


def show_versions(corpus: str, found: Sequence[Publication], kept: Collection[int]) -> None:
    """Print the versions of a corpus, the newest first, and what changed with each."""
    console = terminal()
    if not found:
        console.print(Text(f"{corpus}: nothing is published yet; run: rag-assets ingest {corpus}"))
        return
    table = Table(title=Text(corpus), title_justify="left")
    for column in ("version", "published (UTC)", "what", "documents", "chunks", "run", "rows"):
        table.add_column(column, justify="right" if column in ("version", "documents", "chunks") else "left")
    for number, one in enumerate(found):
        rows = "shown" if number == 0 else "kept" if one.version in kept else "reclaimed"
        table.add_row(
            str(one.version),
            f"{one.published_at:%Y-%m-%d %H:%M:%S}",
            _what_changed(one),
            f"{one.documents:,}",
            f"{one.chunks:,}",
            one.run_id[:8],
            rows,
        )
    console.print(table)


def _what_changed(one: Publication) -> str:
    if one.is_rollback:
        return f"rolled back to {one.changes['rolled_back_to']}"
    counts = [f"{one.changes[name]:,} {name}" for name in ("added", "changed", "removed") if one.changes.get(name)]
    return ", ".join(counts) or "nothing that readers see"


def show_changes(found: Changes) -> None:
    """Print which documents came (+), changed (~) and went (-)."""
    console = terminal()
    for sign, style, names in (
        ("+", "green", found.added),
        ("~", "yellow", found.changed),
        ("-", "red", found.removed),
    ):
        for name in names:
            console.print(Text(f"{sign} {visible(name)}", style=style))
    if not (found.added or found.changed or found.removed):
        console.print("no document differs")


def show_standing(standing: Standing) -> None:
    """Print the figures of an evaluation beside those of the version before, and the questions that went worst."""
    console = terminal()
    now, before = standing.report.evaluation, standing.before
    counts = f"{count(now.answerable, 'question')} with an answer, {now.unanswerable:,} without"
    console.print(Text(f"{now.corpus} version {now.index_version}: {counts}", style="bold"))
    table = Table("figure")
    for column in ("now", *([f"version {before.index_version}"] if before else [])):
        table.add_column(column, justify="right")
    fallen = {fall.figure for fall in standing.fallen}
    for name, value in known_figures(now.figures).items():
        label = name.replace("_at_k", f"_at_{now.top_k}")
        was = [_figure(name, getattr(before.figures, name))] if before else []
        table.add_row(label, _figure(name, value), *was, style="red" if name in fallen else None)
    console.print(table)
    head, *rows = worst_rows(now.scores, _WORST)
    if rows:
        console.print(Text("The questions that went worst", style="bold"))
        worst = Table(*(Column(name, overflow="fold") for name in head))
        for row in rows:
            worst.add_row(*(Text(visible(cell)) for cell in row))
        console.print(worst)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if name.endswith("_ms") else f"${value:,.4f}" if name.endswith("_usd") else f"{value:.3f}"


@contextmanager
def progress_bar() -> Iterator[Callable[[str], None]]:
    """Draw one bar a stage on stderr while work is done. Yields a function that prints a line above the bars."""
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # This stream, also while a run has its own console turned away.
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def step(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        with listening(step):
            yield lambda line: bars.console.print(Text(line))


def _print_indented(console: Console, text: Text, *, by: int) -> None:
    """Print `text` with blanks before each line; on a terminal also before the lines that it wraps to."""
    if console.is_terminal:
        console.print(Padding(text, (0, 0, 0, by)))
    else:
        console.print(Text(indent(text.plain, " " * by)))


def _versions(answer: Answer) -> str:
    versions = answer.index_versions or {answer.corpus: answer.index_version}
    return ", ".join(f"{corpus} version {version}" for corpus, version in versions.items())


def _place(where: Passage | Citation, corpora: Sequence[str]) -> Text:
    corpus = f"{where.corpus}: " if len(corpora) > 1 else ""
    place = (
        Text(corpus)
        + Text(visible(where.document).replace("\n", "⏎"), style="cyan")
        + Text(f":{where.start_line}-{where.end_line}")
    )
    if where.start_page is not None:
        place += Text(f" page {where.start_page}")
    place += Text("  " + visible(" > ".join(where.heading_path)), style="italic")
    if where.also_in:
        twins = dict.fromkeys(f"{one.corpus}: {one.document}" if corpus else one.document for one in where.also_in)
        place += Text("  also in " + visible(", ".join(twins)).replace("\n", "⏎"), style="dim")
    return place


def _shorten(text: str) -> str:
    text = visible(text.strip())
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS].rstrip()} …"
