"""`rag-assets status`: the figures of each corpus as a table for a person, or as JSON for a program."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from rag_assets.run_history import RunSummary
from rag_assets.showing import terminal, visible
from rag_assets.status import CorpusStatus
from rag_assets.storing.health import Health
from rag_assets.wording import count, duration

_RUNS = 3
_SET_ASIDE = 10
_MIB = 1024 * 1024

Runs = Mapping[str, Sequence[RunSummary]]
"""The last runs of each corpus, the newest first."""


def show_status(found: Sequence[CorpusStatus], runs: Runs, *, documents: bool) -> None:
    """Print the figures of each corpus and what needs a person's eye; with `documents`, every document and every reason."""
    console = terminal()
    for one in found:
        console.print(Text(one.corpus, style="bold"))
        for label, value in _rows(one, runs.get(one.corpus, ())):
            console.print(Text(f"  {label:<12}", style="dim") + Text(value, style="not dim"))
    for one in found:
        for text, style in _notes(one, runs.get(one.corpus, ())):
            console.print(Text(visible(text), style=style))
        _show_set_aside(console, one, shown=len(one.set_aside) if documents else _SET_ASIDE)
    if documents:
        console.print(_documents_table(found))


def _rows(one: CorpusStatus, runs: Sequence[RunSummary]) -> Iterator[tuple[str, str]]:
    yield "documents", ", ".join(f"{number:,} {status}" for status, number in one.documents.items())
    if one.published_at is None:
        yield "published", f"never; run: rag-assets ingest {one.corpus}"
    else:
        yield "searchable", f"{count(one.chunks, 'chunk')}, coverage {one.coverage:.1%}"
        yield "published", f"version {one.index_version}, {_moment(one.published_at)}"
    yield "lag", _lag(one)
    outside = count(one.index.unindexed_rows, "row")
    yield (
        "index",
        f"{count(one.fragments, 'fragment')}, {outside} outside its full-text index, {one.bytes / _MIB:,.1f} MiB on disk",
    )
    yield "vectors", f"{one.vectors:,} kept"
    yield "spent", _spent(one)
    if one.health:
        yield "health", _health(one.health)
    for place, run in enumerate(runs[:_RUNS]):
        yield "" if place else "runs", _run(run)


def _moment(moment: datetime) -> str:
    age = (datetime.now(UTC) - moment).total_seconds()
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" + (f", {duration(age)} ago" if age >= 0 else "")


def _lag(one: CorpusStatus) -> str:
    if one.lag_seconds:
        return f"{duration(one.lag_seconds)} since the oldest change that is not searchable"
    if not one.lag.changes:
        return "nothing waits, and nothing changed in the last day"
    half, most, worst = map(duration, (one.lag.p50_seconds, one.lag.p95_seconds, one.lag.worst_seconds))
    took = f"{half} (half), {most} (95 %), {worst} (worst)"
    return f"nothing waits; {count(one.lag.changes, 'change')} of the last day took {took}"


def _spent(one: CorpusStatus) -> str:
    told = (
        f"${one.spent.cost_usd:,.4f} on {count(one.spent.tokens, 'token')}, ${one.spent_this_month_usd:,.4f} this month"
    )
    return f"{told}, ${one.last_spent[1].cost_usd:,.4f} in the last run" if one.last_spent else told


def _health(health: Health) -> str:
    when, failed = _moment(health.measured_at), len(health.failed)
    return (
        f"{failed} of {count(len(health.checks), 'check')} failed, {when}" if failed else f"all checks passed, {when}"
    )


def _run(run: RunSummary) -> str:
    took = f" in {run.seconds:,.1f} s" if run.seconds is not None else ""
    return f"{run.created_at:%Y-%m-%d %H:%M} UTC  {run.run_id[:8]}  {run.job} {run.outcome}{took}"


def _notes(one: CorpusStatus, runs: Sequence[RunSummary]) -> Iterator[tuple[str, str]]:
    """What is not as it is when all is well, each with its colour."""
    if runs and runs[0].reason:
        yield f"{one.corpus}: run {runs[0].run_id[:8]} failed: {runs[0].reason}", "red"
    if one.problem:
        yield one.problem, "red"
    if one.withheld:
        yield f"{one.corpus}: deletions are withheld: {one.withheld}", "yellow"
    if one.held:
        yield f"{one.corpus}: {one.held}", "yellow"
    if one.rolled_back_to is not None:
        yield (
            f"{one.corpus}: a person rolled back to version {one.rolled_back_to}; to go on: rag-assets ingest {one.corpus}",
            "yellow",
        )
    if one.published_generation not in (None, one.generation) and one.rolled_back_to is None:
        yield (
            f"{one.corpus}: a new generation is being built, {one.generation_progress:.1%} of the documents are in it;"
            " readers see the old one",
            "yellow",
        )
    for name, result in one.health.failed.items() if one.health else ():
        yield f"{one.corpus}: {name} failed: {result.summary}", "red" if result.severity == "error" else "yellow"


def _show_set_aside(console: Console, one: CorpusStatus, *, shown: int) -> None:
    for aside in one.set_aside[:shown]:
        console.print(
            Text(f"{visible(aside.document)} is set aside ({aside.stage}): {visible(aside.reason or '')}", style="red")
        )
    more = len(one.set_aside) - shown
    if more > 0:
        console.print(f"{count(more, 'more document')} set aside: rag-assets status {one.corpus} --documents")


def _documents_table(found: Sequence[CorpusStatus]) -> Table:
    table = Table()
    for column in ("corpus", "document", "status", "chunks", "tokens", "title"):
        table.add_column(column, justify="right" if column in ("chunks", "tokens") else "left", overflow="fold")
    for one in found:
        for name, known in sorted(one.known.items()):
            figures = (f"{known.chunks or 0:,}", f"{known.tokens or 0:,}")
            table.add_row(
                escape(one.corpus),
                Text(visible(name).replace("\n", "⏎")),
                known.status,
                *figures,
                Text(visible(known.title or "")),
            )
    return table


def status_as_json(one: CorpusStatus, runs: Sequence[RunSummary], *, documents: bool) -> dict[str, Any]:
    """What `rag-assets status --json` prints of a corpus."""
    last_run, last = one.last_spent or (None, None)
    report: dict[str, Any] = {
        "documents": dict(one.documents),
        "chunks": one.chunks,
        "vectors": one.vectors,
        "embedding": one.embedding[:16],
        "index_version": one.index_version,
        "generation": one.published_generation,
        "configured_generation": one.generation,
        "published_at": one.published_at.isoformat() if one.published_at else None,
        "rolled_back_to": one.rolled_back_to,
        "held": one.held,
        "fragments": one.fragments,
        "unindexed_rows": one.index.unindexed_rows,
        "bytes": one.bytes,
        "lag_seconds": one.lag_seconds,
        "lag_p50_seconds": one.lag.p50_seconds,
        "lag_p95_seconds": one.lag.p95_seconds,
        "lag_worst_seconds": one.lag.worst_seconds,
        "coverage": one.coverage,
        "generation_progress": one.generation_progress,
        "tokens": one.spent.tokens,
        "cost_usd": round(one.spent.cost_usd, 6),
        "cost_this_month_usd": round(one.spent_this_month_usd, 6),
        "last_spent": {"run_id": last_run, "tokens": last.tokens, "cost_usd": round(last.cost_usd, 6)}
        if last
        else None,
        "health": _health_as_json(one.health) if one.health else None,
        "runs": [asdict(run) | {"created_at": run.created_at.isoformat()} for run in runs],
        "failed": [{"document": d.document, "stage": d.stage, "reason": d.reason} for d in one.set_aside],
        "withheld": one.withheld,
        "problem": one.problem,
    }
    if documents:
        report["by_document"] = [_plain(asdict(known)) for _, known in sorted(one.known.items())]
    return report


def _health_as_json(health: Health) -> dict[str, Any]:
    failed = {name: result.summary for name, result in health.failed.items()}
    return {"measured_at": health.measured_at.isoformat(), "checks": len(health.checks), "failed": failed}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
