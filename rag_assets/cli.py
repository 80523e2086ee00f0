"""The command line. `search`, `ask` and `status` read the tables directly; only `ingest` and `remove` import Dagster.

Exit status: 0 done; 1 could not run, with one line on stderr; 2 ran, but documents are set aside.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rag_assets.config import CorpusSettings, Settings, load_settings
from rag_assets.errors import QuestionError, RagAssetsError
from rag_assets.progress import Heartbeat, listening
from rag_assets.storing.stores import Store

if TYPE_CHECKING:
    from rag_assets.defs.ingesting import Ingester
    from rag_assets.ingesting import IngestResult
    from rag_assets.status import CorpusStatus
    from rag_assets.storing.publishing import Publication

app = typer.Typer(
    name="rag-assets",
    help="Answers with citations, from documents that keep changing.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Corpus = Annotated[str | None, typer.Argument(help="A corpus of corpora.yaml; by default all.", show_default=False)]
CorpusOption = Annotated[
    str | None, typer.Option("--corpus", "-c", help="A corpus of corpora.yaml; by default the first.")
]
TopK = Annotated[int | None, typer.Option("--top-k", "-k", help="How many passages.")]
Where = Annotated[str | None, typer.Option(help="A SQL condition on the columns of the index.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
SearchMode = Annotated[
    Literal["hybrid", "vector", "text"] | None, typer.Option("--mode", "-m", help="How passages are found.")
]


def main() -> None:
    """Run the command line and exit with its status. Expected problems are one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no é still gets its answer
    try:
        status = app(standalone_mode=False)
    except RagAssetsError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _complain("interrupted; what was embedded is kept, and the next ingest goes on from there")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        say = getattr(error, "format_message", None)  # a wrong option or argument, as typer tells it
        if os.environ.get("RAG_ASSETS_DEBUG") and say is None:
            raise
        hint = "see rag-assets --help" if say else "set RAG_ASSETS_DEBUG=1 to see where it happened"
        _fail(f"{say() if say else f'unexpected {type(error).__name__}: {error}'} ({hint})")
    sys.exit(status or 0)


@app.command()
def ingest(
    corpus: Corpus = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; pay and change nothing.")] = False,
    confirm_deletions: Annotated[
        bool, typer.Option("--confirm-deletions", help="Believe that the documents that vanished are meant to be gone.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Bring the index up to date with the corpus folder."""
    settings = load_settings()
    reports = {}
    for chosen in _corpora(settings, corpus):
        started = time.monotonic()
        if dry_run:
            report = _dry_run(settings, chosen, confirm_deletions=confirm_deletions)
        else:
            report = _ingest(settings, chosen, confirm_deletions=confirm_deletions)
        report["seconds"] = round(time.monotonic() - started, 3)
        reports[chosen.name] = report
        if not as_json:
            _print_report(chosen.name, report)
    if as_json:
        _print_json(_together(reports))
    return 2 if any(report["failed"] for report in reports.values()) else 0


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="The folder with the documents.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the configuration that is there.")] = False,
) -> int:
    """Write a corpora.yaml for a folder, here or where RAG_ASSETS_CONFIG says."""
    from rag_assets.config import CONFIG_FILE
    from rag_assets.starting import write_dagster_settings, write_first_config

    named = os.environ.get("RAG_ASSETS_CONFIG")
    path = Path(named).expanduser().absolute() if named else Path.cwd() / CONFIG_FILE
    name = write_first_config(path, folder, overwrite=force)
    if not os.environ.get("DAGSTER_HOME") and write_dagster_settings(path.parent):
        typer.echo(f"{path.parent / 'dagster.yaml'}: settings of the Dagster instance")
    typer.echo(f"{path}: corpus {name} is {folder}; next: rag-assets ingest")
    return 0


@app.command()
def remove(
    documents: Annotated[list[str], typer.Argument(help="Paths as `rag-assets status --documents` shows them.")],
    *,
    corpus: CorpusOption = None,
    as_json: AsJson = False,
) -> int:
    """Remove documents from the index."""
    from rag_assets.reading.source import open_source
    from rag_assets.storing.ledger import known_documents

    settings = load_settings()
    chosen = settings.corpus(corpus)
    store = Store(settings.home)
    known = known_documents(store.documents(chosen.name), documents)
    missing = [name for name in documents if name not in known]
    if missing:
        raise QuestionError(
            f"corpus {chosen.name} has no document {missing[0]!r}; rag-assets status {chosen.name} --documents lists them"
        )
    with _progress_bar() as say, _ingester(settings, chosen, say) as ingester:
        run_id = ingester.remove(documents)
    still_there = sorted(set(documents) & set(open_source(chosen).list().entries))
    if as_json:
        _print_json(
            {"corpus": chosen.name, "removed": list(documents), "still_in_source": still_there, "run_id": run_id}
        )
    else:
        typer.echo(f"{chosen.name}: {len(documents)} removed")
    for name in still_there:
        _complain(f"{name} is still in {chosen.source}, and the next ingest brings it back; exclude or delete it")
    return 0


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    corpus: CorpusOption = None,
    top_k: TopK = None,
    mode: SearchMode = None,
    where: Where = None,
    as_json: AsJson = False,
) -> int:
    """Show the passages that match best."""
    from rag_assets.asking import make_question, rerank, retrieve

    settings = load_settings()
    question = make_question(settings, query, corpus=corpus, top_k=top_k, mode=mode, where=where)
    chosen = settings.corpus(question.corpus)
    found = rerank(chosen, retrieve(Store(settings.home), chosen, question))
    if as_json:
        results = [{**asdict(passage), "heading_path": list(passage.heading_path)} for passage in found.passages]
        _print_json(
            {"query": query, "corpus": chosen.name, "index_version": found.publication.version, "results": results}
        )
        return 0
    from rag_assets.showing import show_passages

    show_passages(found.passages)
    return 0


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What to answer.")],
    *,
    corpus: CorpusOption = None,
    top_k: TopK = None,
    mode: SearchMode = None,
    where: Where = None,
    persona: Annotated[str | None, typer.Option(help="Who answers.")] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print the answer as it is written.")] = False,
    as_json: AsJson = False,
) -> int:
    """Answer a question, with citations."""
    from rag_assets import asking
    from rag_assets.answering.rendering import to_json
    from rag_assets.showing import show_answer

    settings = load_settings()
    asked = asking.make_question(
        settings, question, corpus=corpus, top_k=top_k, mode=mode, where=where, persona=persona
    )
    streaming = stream and not as_json
    on_text: Callable[[str], None] | None = (lambda text: typer.echo(text, nl=False)) if streaming else None
    answer = asking.ask(Store(settings.home), settings, asked, on_text=on_text)
    if as_json:
        _print_json(to_json(answer))
    else:
        show_answer(answer, streamed=streaming)
    return 0


@app.command()
def status(
    corpus: Corpus = None,
    *,
    documents: Annotated[bool, typer.Option("--documents", help="List every document.")] = False,
    as_json: AsJson = False,
) -> int:
    """Say what is indexed, what is set aside and why."""
    from rag_assets.showing import show_status
    from rag_assets.status import status_of

    settings = load_settings()
    store = Store(settings.home)
    found = [status_of(store, chosen) for chosen in _corpora(settings, corpus)]
    if as_json:
        _print_json(_together({one.corpus: _status_report(one, documents=documents) for one in found}))
    else:
        show_status(found, documents=documents)
    return 0


@app.command()
def versions(corpus: Corpus = None, *, as_json: AsJson = False) -> int:
    """List what was published, and what changed with it."""
    from rag_assets.showing import show_versions
    from rag_assets.storing.publishing import kept_versions, publications

    settings = load_settings()
    store = Store(settings.home)
    reports = {}
    for chosen in _corpora(settings, corpus):
        found = publications(store, chosen.name)
        kept = kept_versions(store, chosen.name, found)
        if not as_json:
            show_versions(chosen.name, found, kept)
        reports[chosen.name] = {"versions": [_version_report(one, kept=one.version in kept) for one in found]}
    if as_json:
        _print_json(_together(reports))
    return 0


@app.command()
def rollback(
    version: Annotated[int | None, typer.Argument(help="The version to go back to; by default the one before.")] = None,
    *,
    corpus: CorpusOption = None,
    as_json: AsJson = False,
) -> int:
    """Let readers see an older version, until the next ingest."""
    from rag_assets.storing.publishing import rollback as go_back

    settings = load_settings()
    chosen = settings.corpus(corpus)
    after = go_back(Store(settings.home), chosen.name, version)
    if as_json:
        _print_json({"corpus": chosen.name, **_version_report(after, kept=True)})
    else:
        typer.echo(
            f"{chosen.name}: readers see version {after.changes['rolled_back_to']} again, as version {after.version}; to"
            f" go on: rag-assets ingest {chosen.name}"
        )
    return 0


@app.command()
def diff(
    before: Annotated[int, typer.Argument(metavar="V1", help="The older version.")],
    after: Annotated[int, typer.Argument(metavar="V2", help="The newer version.")],
    *,
    corpus: CorpusOption = None,
    as_json: AsJson = False,
) -> int:
    """Say which documents differ between two versions."""
    from rag_assets.showing import show_changes
    from rag_assets.storing.publishing import changes_between, find_kept

    settings = load_settings()
    store, chosen = Store(settings.home), settings.corpus(corpus)
    old, new = (find_kept(store, chosen.name, version) for version in (before, after))
    found = changes_between(store, chosen.name, old, new)
    if as_json:
        _print_json({"corpus": chosen.name, "from": before, "to": after, **asdict(found)})
    else:
        show_changes(found)
    return 0


def _version_report(one: "Publication", *, kept: bool) -> dict[str, Any]:
    return {
        "version": one.version,
        "action": one.action,
        "published_at": one.published_at.isoformat(),
        "run_id": one.run_id,
        "generation": one.generation,
        "documents": one.documents,
        "chunks": one.chunks,
        "changes": dict(one.changes),
        "kept": kept,
    }


def _corpora(settings: Settings, name: str | None) -> Sequence[CorpusSettings]:
    return list(settings.corpora.values()) if name is None else [settings.corpus(name)]


@contextmanager
def _ingester(settings: Settings, corpus: CorpusSettings, say: Callable[[str], None]) -> "Iterator[Ingester]":
    """An ingester in the Dagster instance of `DAGSTER_HOME`. Dagster takes seconds to import, so it is imported here."""
    home = Path(os.environ.get("DAGSTER_HOME") or _dagster_home(settings)).absolute()
    home.mkdir(parents=True, exist_ok=True)
    os.environ["DAGSTER_HOME"] = str(home)

    import dagster as dg

    from rag_assets import dagster_storage  # noqa: F401  # sets the batch size of the events of runs
    from rag_assets.defs.code_location import build_definitions
    from rag_assets.defs.ingesting import Ingester

    with dg.DagsterInstance.get() as instance:
        yield Ingester(
            definitions=build_definitions(settings),
            instance=instance,
            store=Store(settings.home),
            corpus=corpus,
            say=say,
        )


def _dagster_home(settings: Settings) -> Path:
    """The nearest folder with a `dagster.yaml` at or above the working folder or the configuration, else that of the
    configuration."""
    starts = (Path.cwd(), settings.path.parent)
    for folder in (folder for start in starts for folder in (start, *start.parents)):
        if (folder / "dagster.yaml").is_file():
            return folder
    return settings.path.parent


def _ingest(settings: Settings, corpus: CorpusSettings, *, confirm_deletions: bool) -> dict[str, Any]:
    """Ingest `corpus`. When there is nothing to do, that is found out and reported without Dagster."""
    from rag_assets.ingesting import IngestResult, look

    first = look(Store(settings.home), corpus, confirm_deletions=confirm_deletions)
    if first.idle:
        return _ingest_report(IngestResult(found=first.found, failed=first.failed))
    with _progress_bar() as say, _ingester(settings, corpus, say) as ingester:
        return _ingest_report(ingester.ingest(confirm_deletions=confirm_deletions))


def _dry_run(settings: Settings, corpus: CorpusSettings, *, confirm_deletions: bool) -> dict[str, Any]:
    from rag_assets.embedding.providers import make_provider
    from rag_assets.estimating import estimate
    from rag_assets.progress import report
    from rag_assets.reading.source import open_source
    from rag_assets.scanning import scan

    store = Store(settings.home)
    source = open_source(corpus)
    found = scan(store, corpus, source, confirm_deletions=confirm_deletions)
    with _progress_bar():
        provider = make_provider(corpus.embedding)
        expected = estimate(store, corpus, source, provider, found.pending, progress=report)
    return {
        "dry_run": True,
        "scanned": found.scanned,
        "added": len(found.added),
        "changed": len(found.changed),
        "removed": len(found.removed),
        "unchanged": found.unchanged,
        "failed": [
            *({"document": d.document, "stage": d.stage, "reason": d.reason} for d in found.failed),
            *({"document": name, "stage": "read", "reason": e.reason} for name, e in expected.failed.items()),
        ],
        "chunks": expected.chunks,
        "texts_embedded": expected.texts_embedded,
        "texts_reused": expected.texts_reused,
        "tokens": expected.tokens,
        "cost_usd": round(expected.cost_usd, 6),
        "over_budget": corpus.max_cost_per_run is not None and expected.cost_usd > corpus.max_cost_per_run,
        "withheld": found.withheld,
        "passed_over": [{"document": name, "reason": reason} for name, reason in found.refused],
        "runs": [],
    }


def _ingest_report(result: "IngestResult") -> dict[str, Any]:
    found, done = result.found, result.done
    return {
        "scanned": found.scanned,
        "added": len(found.added),
        "changed": len(found.changed),
        "removed": len(result.removed),
        "unchanged": found.unchanged,
        "failed": [{"document": d.document, "stage": d.stage, "reason": d.reason} for d in result.failed],
        "chunks": sum(d.chunks or 0 for d in done if d.status == "indexed"),
        "texts_embedded": sum(d.texts_embedded or 0 for d in done),
        "texts_reused": sum(d.texts_reused or 0 for d in done),
        "tokens": sum(d.tokens_embedded or 0 for d in done),
        "cost_usd": round(sum((d.cost_usd or 0.0 for d in done), 0.0), 6),
        "withheld": found.withheld,
        "passed_over": [{"document": name, "reason": reason} for name, reason in found.refused],
        "runs": list(result.runs),
    }


def _status_report(one: "CorpusStatus", *, documents: bool) -> dict[str, Any]:
    report: dict[str, Any] = {
        "documents": dict(one.documents),
        "chunks": one.chunks,
        "vectors": one.vectors,
        "index_version": one.index_version,
        "generation": one.published_generation,
        "configured_generation": one.generation,
        "published_at": one.published_at.isoformat() if one.published_at else None,
        "rolled_back_to": one.rolled_back_to,
        "fragments": one.fragments,
        "lag_seconds": one.lag_seconds,
        "coverage": one.coverage,
        "tokens": one.spent.tokens,
        "cost_usd": round(one.spent.cost_usd, 6),
        "failed": [{"document": d.document, "stage": d.stage, "reason": d.reason} for d in one.set_aside],
        "withheld": one.withheld,
        "problem": one.problem,
    }
    if documents:
        report["by_document"] = [_document_report(known) for _, known in sorted(one.known.items())]
    return report


def _document_report(known: Any) -> dict[str, Any]:
    values = asdict(known)
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in values.items()}


def _together(reports: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """One corpus: its report. Several: numbers and lists summed up, with each report under `corpora`."""
    if len(reports) == 1:
        name, report = next(iter(reports.items()))
        return {"corpus": name, **report}
    total: dict[str, Any] = {}
    for key in next(iter(reports.values())):
        values = [report[key] for report in reports.values()]
        if key == "documents":
            total[key] = {status: sum(value[status] for value in values) for status in values[0]}
        elif key in ("coverage", "published_at"):
            known = [value for value in values if value is not None]
            total[key] = min(known) if known else None
        elif key == "lag_seconds":
            total[key] = max(values)
        elif all(isinstance(value, bool) for value in values):
            total[key] = any(values)
        elif all(isinstance(value, list) for value in values):
            total[key] = [item for value in values for item in value]
        elif key not in ("index_version",) and all(isinstance(value, int | float) for value in values):
            total[key] = sum(values)
        else:
            total[key] = values[0] if len(set(map(str, values))) == 1 else None
    return {**total, "corpora": reports}


def _print_report(corpus: str, report: dict[str, Any]) -> None:
    verb = "would be " if report.get("dry_run") else ""
    typer.echo(
        f"{corpus}: {report['scanned']:,} documents scanned; {report['added']:,} {verb}added, {report['changed']:,}"
        f" {verb}changed, {report['removed']:,} {verb}removed, {report['unchanged']:,} unchanged,"
        f" {len(report['failed']):,} set aside"
    )
    if not report["scanned"] and not report["withheld"]:
        _complain(f"{corpus}: no file of its source is included; look at corpora.{corpus}.source and .include")
    if report["added"] or report["changed"]:
        typer.echo(
            f"{corpus}: {report['chunks']:,} chunks; {report['texts_embedded']:,} texts {verb}embedded"
            f" ({report['tokens']:,} tokens{_price(report['cost_usd'])}), {report['texts_reused']:,} {verb}reused;"
            f" {report['seconds']:.1f} s"
        )
    if report.get("over_budget"):
        _complain(f"{corpus}: that is more than max_cost_per_run, and a run of it all would be refused")
    for failed in report["failed"]:
        _complain(f"{failed['document']} is set aside ({failed['stage']}): {failed['reason']}")
    for over in report["passed_over"]:
        _complain(f"{over['document']} is passed over: {over['reason']}")
    if report["withheld"]:
        _complain(
            f"deletions are withheld: {report['withheld']}. If they are meant to be gone:"
            f" rag-assets ingest {corpus} --confirm-deletions"
        )


def _price(cost_usd: float) -> str:
    return f", ${cost_usd:,.4f}" if cost_usd else ""


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def _complain(line: str) -> None:
    """One line on stderr, without characters that could command the terminal."""
    from rag_assets.showing import visible

    typer.echo(f"rag-assets: {visible(' '.join(line.split()))}", err=True)


def _fail(message: str) -> None:
    """End with status 1. A configuration may hold several problems, each on a line."""
    for line in message.splitlines():
        _complain(line)
    sys.exit(1)


@contextmanager
def _progress_bar() -> Iterator[Callable[[str], None]]:
    """Draw the progress of the stages on a terminal; elsewhere only say what is said. Yields a way to say something."""
    if not sys.stderr.isatty():
        with listening(Heartbeat(_complain)):
            yield _complain
        return
    from rag_assets.showing import progress_bar

    with progress_bar() as say:
        yield say
