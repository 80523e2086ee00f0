"""The command line. Most commands read the tables directly; those that execute jobs import Dagster.

Exit status: 0 done; 1 could not run, with one line on stderr; 2 ran, but documents are set aside.
"""

import json
import logging
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from rag_assets.caching import machine_lock
from rag_assets.config import CorpusSettings, Settings, load_settings
from rag_assets.errors import QuestionError, RagAssetsError
from rag_assets.monitoring import logs
from rag_assets.progress import Heartbeat, listening
from rag_assets.storing.stores import Store
from rag_assets.totals import together
from rag_assets.wording import count as counted

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from rag_assets.defs.ingesting import Ingester
    from rag_assets.doctoring import Finding, Repair
    from rag_assets.ingesting import IngestResult
    from rag_assets.storing.publishing import Publication

app = typer.Typer(
    name="rag-assets",
    help="Answers with citations, from documents that keep changing.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

_INTERRUPTED = 130
_log = logging.getLogger(__name__)
_RUNS_TOLD = 10

Corpus = Annotated[str | None, typer.Argument(help="A corpus of corpora.yaml; by default all.", show_default=False)]
CorpusOption = Annotated[
    str | None, typer.Option("--corpus", "-c", help="A corpus of corpora.yaml; by default the first.")
]
CorporaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--corpus",
        "-c",
        help="A corpus of corpora.yaml, by default the first; several times, or all.",
        show_default=False,
    ),
]
TopK = Annotated[int | None, typer.Option("--top-k", "-k", help="How many passages.")]
Where = Annotated[str | None, typer.Option(help="A SQL condition on the columns of the index.")]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        metavar="FIELD=VALUE",
        help="Only documents such as path=guide/** or date>=2024-01-01; several times, all hold.",
        show_default=False,
    ),
]
Diversity = Annotated[
    float | None, typer.Option(metavar="0..1", help="How unlike each other the passages are to be.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
NoRerank = Annotated[bool, typer.Option("--no-rerank", help="Keep the order in which the passages were found.")]
SearchMode = Annotated[
    Literal["hybrid", "vector", "text"] | None, typer.Option("--mode", "-m", help="How passages are found.")
]


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer hands it over so
    if asked:
        from importlib.metadata import version

        typer.echo(f"rag-assets {version('rag-assets')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answers with citations, from documents that keep changing."""


def main() -> None:
    """Run the command line and exit with its status. Expected problems are one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no é still gets its answer
    try:
        logs.log_to(sys.stderr, logs.style())
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except RagAssetsError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        say = getattr(error, "format_message", None)  # a wrong option or argument, as typer tells it
        if os.environ.get("RAG_ASSETS_DEBUG") and say is None:
            raise
        hint = "see rag-assets --help" if say else "set RAG_ASSETS_DEBUG=1 to see where it happened"
        _fail(f"{say() if say else f'unexpected {type(error).__name__}: {error}'} ({hint})")
    if status == _INTERRUPTED:  # typer tells it by the status alone
        _complain("interrupted; what was embedded is kept, and the next ingest goes on from there")
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
    from rag_assets.storing.publishing import held_back

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
        if not dry_run:
            _tell_ingest(chosen.name, report)
        if not as_json:
            _print_report(chosen.name, report)
        if held := held_back(Store(settings.home), chosen):
            _complain(f"{chosen.name}: {held}")
    if as_json:
        _print_json(together(reports))
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
def reindex(
    corpus: Corpus = None,
    *,
    documents: Annotated[str | None, typer.Option(metavar="GLOB", help="Only documents whose path matches.")] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only what was set aside, or begun and not finished.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also documents that are current.")] = False,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also current documents that were indexed before then (UTC)."),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Documents a batch; by default max_documents_per_run.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Make documents again, in batches: those that are not current, or others as well."""
    from rag_assets.reindexing import Reindexed, choose, refuse_no_match, scope_of, time_to_go_on_with

    settings = load_settings()
    store = Store(settings.home)
    scope = scope_of(failed=failed, everything=everything, older_than=older_than)
    choices = {
        chosen.name: choose(store, chosen, scope=scope, documents=documents) for chosen in _corpora(settings, corpus)
    }
    refuse_no_match(list(choices), documents, sum(choice.matched for choice in choices.values()))
    config = {
        "documents": documents,
        "failed": failed,
        "all": everything,
        "older_than": older_than,
        "batch_size": batch,
    }
    if everything:
        _complain(f"if this is stopped, --older-than {time_to_go_on_with()} instead of --all goes on with it")
    reports = {}
    for name, choice in choices.items():
        started = time.monotonic()
        if choice.idle:
            report: dict[str, Any] = {**Reindexed(choice).report(), "waiting": None, "run_id": None}
        else:
            with _progress_bar() as say, _ingester(settings, settings.corpus(name), say) as ingester:
                report = dict(ingester.reindex(config))
        report["seconds"] = round(time.monotonic() - started, 3)
        reports[name] = report
        if not as_json:
            _print_reindexed(name, report)
    if as_json:
        _print_json(together(reports))
    return 2 if any(report["failed"] or report["failed_batches"] for report in reports.values()) else 0


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
        typer.echo(f"{chosen.name}: {counted(len(documents), 'document')} removed")
    for name in still_there:
        _complain(f"{name} is still in {chosen.source}, and the next ingest brings it back; exclude or delete it")
    return 0


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    *,
    corpus: CorporaOption = None,
    top_k: TopK = None,
    mode: SearchMode = None,
    filters: Filters = None,
    where: Where = None,
    diversity: Diversity = None,
    no_rerank: NoRerank = False,
    as_json: AsJson = False,
) -> int:
    """Show the passages that match best."""
    from rag_assets.asking import make_question, rerank, retrieve_from_all

    settings = load_settings()
    question = make_question(
        settings,
        query,
        corpus=corpus,
        top_k=top_k,
        mode=mode,
        where=where,
        filters=filters or (),
        diversity=diversity,
        reranks=not no_rerank,
    )
    found = rerank(settings.corpus(question.corpus), retrieve_from_all(Store(settings.home), settings, question))
    if as_json:
        results = [
            {**asdict(one), "heading_path": list(one.heading_path), "also_in": [asdict(place) for place in one.also_in]}
            for one in found.passages
        ]
        versions = {name: one.version for name, one in found.publications.items()}
        report = {"query": query, "corpus": ", ".join(versions), "index_version": found.publication.version}
        made = {"index_versions": versions, "reranker": found.reranking.reranker, "notes": list(found.notes)}
        _print_json({**report, **made, "results": results})
        return 0
    from rag_assets.showing import show_passages

    show_passages(found.passages, corpora=list(found.publications))
    for note in found.notes:
        _complain(note)
    return 0


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="What to answer.")],
    *,
    corpus: CorporaOption = None,
    top_k: TopK = None,
    mode: SearchMode = None,
    filters: Filters = None,
    where: Where = None,
    diversity: Diversity = None,
    neighbours: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many chunks before and after each passage to read.", show_default=False),
    ] = None,
    persona: Annotated[str | None, typer.Option(help="Who answers; rag-assets personas lists them.")] = None,
    no_rerank: NoRerank = False,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="What was asked and answered before; - is standard input."),
    ] = None,
    continued: Annotated[
        str | None, typer.Option("--continue", metavar="RUN_ID", help="Go on from this answer, or from the last.")
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Print the answer as it is written.")] = False,
    as_json: AsJson = False,
) -> int:
    """Answer a question, with citations."""
    from rag_assets import asking
    from rag_assets.answering.rendering import to_json
    from rag_assets.conversing.turns import conversation_of
    from rag_assets.monitoring.events import tell_answer
    from rag_assets.showing import show_answer
    from rag_assets.streaming import event, streaming

    settings = load_settings()
    store = Store(settings.home)
    before = conversation_of(store, history=history, continues=continued)
    asked = asking.make_question(
        settings,
        question,
        corpus=corpus or before.corpora,
        top_k=top_k,
        mode=mode,
        where=where,
        filters=filters or (),
        diversity=diversity,
        neighbours=neighbours,
        persona=persona,
        reranks=not no_rerank,
        history=before.turns,
        continues=before.run_id,
    )
    try:
        with streaming(partial(typer.echo, nl=False), as_json=as_json) as on_text:
            answer = asking.ask(store, settings, asked, on_text=on_text if stream else None)
    except KeyboardInterrupt:
        _complain("interrupted; the answer is not finished, and is not kept")
        sys.exit(_INTERRUPTED)
    tell_answer(answer)
    if as_json and stream:
        typer.echo(event("answer", **to_json(answer)), nl=False)
    elif as_json:
        _print_json(to_json(answer))
    else:
        show_answer(answer, streamed=stream)
    return 0


@app.command()
def personas(*, as_json: AsJson = False) -> int:
    """List who can answer."""
    from rag_assets.answering.personas import known_personas
    from rag_assets.showing import show_personas

    known = known_personas(load_settings())
    if as_json:
        shown = {"id", "name", "phase", "category", "role", "where"}
        _print_json({"personas": [one.model_dump(include=shown) | {"file": str(file)} for one, file in known.values()]})
    else:
        show_personas([one for one, _ in known.values()])
    return 0


@app.command()
def status(
    corpus: Corpus = None,
    *,
    documents: Annotated[bool, typer.Option("--documents", help="List every document, and every reason.")] = False,
    as_json: AsJson = False,
) -> int:
    """Say what is indexed, what is set aside and why, how far readers are behind, and what it cost."""
    from rag_assets.dashboard import show_status, status_as_json
    from rag_assets.run_history import last_runs
    from rag_assets.status import status_of

    settings = load_settings()
    store, home = Store(settings.home), _dagster_home(settings)
    found = [status_of(store, chosen) for chosen in _corpora(settings, corpus)]
    runs = {one.corpus: last_runs(home, one.corpus, count=_RUNS_TOLD) for one in found}
    if as_json:
        _print_json(together({one.corpus: status_as_json(one, runs[one.corpus], documents=documents) for one in found}))
    else:
        show_status(found, runs, documents=documents)
    return 0


@app.command()
def metrics(
    *,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a file, all at once; by default standard output.")
    ] = None,
    serve: Annotated[
        int | None, typer.Option(metavar="PORT", min=0, max=65_535, help="Serve /metrics until interrupted.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to serve on.")] = "127.0.0.1",
) -> int:
    """Print the figures of all corpora for Prometheus, write them to a file, or serve them."""
    from rag_assets.monitoring.observing import Observer
    from rag_assets.monitoring.serving import metrics_server

    observer = Observer()
    if serve is not None:
        load_settings()  # one that is wrong is told at once
        with metrics_server(observer.metrics, host=host, port=serve) as server, suppress(KeyboardInterrupt):
            _complain(f"serving http://{host}:{server.server_port}/metrics", level=logging.INFO)
            server.serve_forever()
        return 0
    text = observer.metrics()
    if output is None:
        typer.echo(text, nl=False)
    else:
        _replace_file(output, text)
    return 0


def _replace_file(path: Path, text: str) -> None:
    """Write `text` to `path` so that nobody ever reads half of it."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise RagAssetsError(f"{path}: cannot be written: {error.strerror}; name another file with --output") from None


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
        _print_json(together(reports))
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


@app.command()
def maintain(corpus: Corpus = None, *, as_json: AsJson = False) -> int:
    """Compact the tables, and delete what nothing needs any more."""
    from uuid import uuid4

    from rag_assets.storing.maintaining import maintain as look_after

    settings = load_settings()
    store = Store(settings.home)
    reports = {}
    for chosen in _corpora(settings, corpus):
        report = look_after(store, settings.corpora, chosen, run_id=str(uuid4())).figures
        reports[chosen.name] = report
        if not as_json:
            _print_maintained(chosen.name, report)
    if as_json:
        _print_json(together(reports))
    return 0


@app.command()
def doctor(
    corpus: Corpus = None,
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended, then ingest.")] = False,
    as_json: AsJson = False,
) -> int:
    """Look whether the tables are whole and agree, and say what mends them."""
    from rag_assets.doctoring import diagnose_home
    from rag_assets.mending import mend_damage

    settings = load_settings()
    store, chosen = Store(settings.home), _corpora(settings, corpus)
    seen = diagnose_home(store, settings)
    if fix:
        mend_damage(seen)
    left = diagnose_home(store, settings) if fix else seen
    ingests = {}
    if not any(one.kind == "home_not_writable" for one in seen):
        for one in chosen:
            examined = _doctor(settings, one, fix=fix)
            seen, left = [*seen, *examined.seen], [*left, *examined.left]
            if examined.ingested is not None:
                ingests[one.name] = _ingest_report(examined.ingested)
            if examined.ended_rollback is not None:
                version = examined.ended_rollback
                _complain(
                    f"{one.name}: the rollback to version {version} has ended, readers see the newest version; to go back"
                    f" again: rag-assets rollback --corpus {one.name} {version}"
                )
    if as_json:
        mended = {"left": list(map(_finding_report, left)), "ingests": ingests} if fix else {}
        _print_json({"healthy": not left, "findings": list(map(_finding_report, seen)), **mended})
    else:
        _print_findings(seen, left)
    return 2 if left else 0


@app.command()
def purge(
    corpus: Annotated[str | None, typer.Argument(help="A corpus that is no longer in corpora.yaml.")] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Delete the tables of a corpus that is no longer configured; without a name, list those that are left."""
    from rag_assets.doctoring import has_dagster_instance
    from rag_assets.purging import left_over
    from rag_assets.purging import purge as delete

    settings = load_settings()
    store = Store(settings.home)
    found = left_over(store, settings.corpora)
    if corpus is None:
        if as_json:
            _print_json({"corpora": found})
        else:
            typer.echo("\n".join(found) or "every corpus that has tables is configured")
        return 0
    if corpus in settings.corpora:
        raise QuestionError(f"corpus {corpus} is configured; remove it from {settings.path} first")
    if corpus not in found:
        raise QuestionError(f"there are no tables of a corpus {corpus!r}; rag-assets purge lists those that are left")
    if not yes and not sys.stdin.isatty():
        raise QuestionError(f"nobody can be asked here; to delete {store.corpus_uri(corpus)}, say --yes")
    if not yes and not typer.confirm(f"Delete {store.corpus_uri(corpus)} for good?"):
        return 0
    delete(store, corpus)
    partitions = _delete_partitions(settings, corpus) if has_dagster_instance(_dagster_home(settings)) else 0
    if as_json:
        _print_json({"corpus": corpus, "purged": store.corpus_uri(corpus), "partitions": partitions})
    else:
        typer.echo(
            f"{corpus}: its tables and {counted(partitions, 'partition')} are deleted; answers and vectors stay (rag-assets"
            " maintain reclaims vectors that nobody uses)"
        )
    return 0


def _doctor(settings: Settings, corpus: CorpusSettings, *, fix: bool) -> "Repair":
    """Examine `corpus` and, with `fix`, mend it. Without a Dagster instance, Dagster is only needed to mend."""
    from rag_assets.doctoring import Repair, diagnose, diagnose_dagster_home, has_dagster_instance

    home, store = _dagster_home(settings), Store(settings.home)
    seen = []
    if not has_dagster_instance(home):
        seen = diagnose(store, corpus)
        seen += [] if any(one.name == "documents" for one in seen) else diagnose_dagster_home(home, store, corpus)
        if not fix or not seen:
            return Repair(seen, seen)
        from rag_assets.starting import write_dagster_settings

        home.mkdir(parents=True, exist_ok=True)
        write_dagster_settings(home)
    with _progress_bar() as say, _ingester(settings, corpus, say) as ingester:
        from rag_assets.defs.doctoring import examine, repair

        if fix:
            mended = repair(ingester)
            return replace(mended, seen=[*seen, *mended.seen])
        found = examine(ingester.instance, store, corpus)
        return Repair(found, found)


def _delete_partitions(settings: Settings, corpus: str) -> int:
    """Delete the partitions of a corpus that is not configured, and return their number."""
    with _instance(settings) as instance:
        from rag_assets.defs.partitions import delete_sets

        return delete_sets(instance, corpus)


def _finding_report(one: "Finding") -> dict[str, Any]:
    return {"kind": one.kind, "corpus": one.corpus, "what": one.what, "remedy": one.remedy, "fixable": one.fixable}


def _print_findings(seen: "Sequence[Finding]", left: "Sequence[Finding]") -> None:
    """A line a finding: those that were mended, then those that are left, with what mends them."""
    from rag_assets.showing import visible

    remaining = {(one.kind, one.corpus, one.what) for one in left}
    for one in seen:
        if (one.kind, one.corpus, one.what) not in remaining:
            typer.echo(visible(f"{one.corpus or 'home'}: mended: {one.what}"))
    for one in left:
        typer.echo(visible(f"{one.corpus or 'home'}: {one.what.removesuffix('.')}. To mend it: {one.remedy}"))
    if not left:
        typer.echo("nothing is wrong" if not seen else "nothing else is wrong")


@app.command()
def evaluate(
    corpus: Corpus = None,
    *,
    questions: Annotated[
        str | None, typer.Option(metavar="PATH", help="A file of questions; by default that of corpora.yaml.")
    ] = None,
    answers: Annotated[
        bool | None, typer.Option("--answers/--no-answers", help="Whether answers are made and judged too.")
    ] = None,
    sample: Annotated[int | None, typer.Option(metavar="N", min=1, help="Ask only so many, always the same.")] = None,
    as_json: AsJson = False,
) -> int:
    """Ask questions with known answers, and measure what comes back."""
    from rag_assets.progress import report
    from rag_assets.scoring.comparing import evaluate_published, wanted_evaluation
    from rag_assets.scoring.rendering import standing_as_json
    from rag_assets.showing import show_standing

    settings = load_settings()
    chosen = [one for one in settings.corpora.values() if one.evaluation] if corpus is None and not questions else []
    standings = []
    for one in chosen or [settings.corpus(corpus)]:
        wanted = wanted_evaluation(one, questions=questions, answers=answers, sample=sample)
        with _progress_bar():
            standing = evaluate_published(Store(settings.home), one, wanted, run_id=str(uuid.uuid4()), progress=report)
        standings.append(standing)
        for line in standing.report.warnings:
            _complain(line)
        if not as_json:
            show_standing(standing)
        for fall in standing.fallen:
            _complain(f"{one.name}: {fall}; at most {wanted.max_drop:g} is allowed")
    if as_json:
        reports = {standing.report.evaluation.corpus: standing_as_json(standing) for standing in standings}
        _print_json(next(iter(reports.values())) if len(reports) == 1 else {"corpora": reports})
    return 2 if any(standing.fallen for standing in standings) else 0


@app.command(name="draft-questions")
def draft_questions(
    corpus: Annotated[str | None, typer.Argument(help="A corpus of corpora.yaml; by default the first.")] = None,
    *,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="How many.")] = 50,
    seed: Annotated[int, typer.Option(metavar="N", help="Which passages: another number takes others.")] = 0,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; by default standard output.")] = None,
) -> int:
    """Draft questions with known answers from the index, for a person to correct."""
    from rag_assets.progress import report
    from rag_assets.scoring.drafting import draft_questions as draft

    settings = load_settings()
    if output and output.exists():
        raise QuestionError(f"{output} is there already, and may hold corrected questions; name another file")
    with _progress_bar():
        drafts = draft(Store(settings.home), settings.corpus(corpus), count=count, seed=seed, progress=report)
    text = "".join(f"{one.as_line()}\n" for one in drafts)
    if output is None:
        typer.echo(text, nl=False)
        return 0
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise QuestionError(f"{output}: cannot be written: {error.strerror}; name another file") from None
    typer.echo(f'{output}: {counted(len(drafts), "draft")}; correct each, and take out its "draft": true')
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
    """An ingester in the Dagster instance of `_dagster_home`."""
    with _instance(settings) as instance:
        from rag_assets.defs.code_location import build_definitions
        from rag_assets.defs.ingesting import Ingester

        yield Ingester(
            definitions=build_definitions(settings),
            instance=instance,
            store=Store(settings.home),
            corpus=corpus,
            say=say,
        )


@contextmanager
def _instance(settings: Settings) -> "Iterator[DagsterInstance]":
    """The Dagster instance of `_dagster_home`. Dagster takes seconds to import, so it is imported here."""
    home = _dagster_home(settings)
    home.mkdir(parents=True, exist_ok=True)
    os.environ["DAGSTER_HOME"] = str(home)

    import dagster as dg

    from rag_assets import dagster_storage  # noqa: F401  # sets the batch size of the events of runs

    with machine_lock(f"dagster {home}"):  # two that create the files of one home at once both fail
        instance = dg.DagsterInstance.get()
    with instance:
        yield instance


def _dagster_home(settings: Settings) -> Path:
    """`DAGSTER_HOME`, else the nearest folder with a `dagster.yaml` at or above the working folder or the configuration,
    else that of the configuration."""
    named = os.environ.get("DAGSTER_HOME")
    if named:
        return Path(named).absolute()
    starts = (Path.cwd(), settings.path.parent)
    for folder in (folder for start in starts for folder in (start, *start.parents)):
        if (folder / "dagster.yaml").is_file():
            return folder.absolute()
    return settings.path.parent.absolute()


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
        "remade": len(found.outdated),
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
        "remade": len(found.outdated),
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


def _tell_ingest(corpus: str, report: dict[str, Any]) -> None:
    from rag_assets.monitoring.events import event

    figures = {name: value for name, value in report.items() if isinstance(value, int | float)}
    event("ingest_finished", f"{corpus} is ingested", {"corpus": corpus, **figures, "failed": len(report["failed"])})


def _print_report(corpus: str, report: dict[str, Any]) -> None:
    verb = "would be " if report.get("dry_run") else ""
    remade = f", {report['remade']:,} {verb}made again with another configuration" if report["remade"] else ""
    typer.echo(
        f"{corpus}: {counted(report['scanned'], 'document')} scanned; {report['added']:,} {verb}added,"
        f" {report['changed'] - report['remade']:,} {verb}changed{remade}, {report['removed']:,} {verb}removed,"
        f" {report['unchanged']:,} unchanged, {len(report['failed']):,} set aside"
    )
    if not report["scanned"] and not report["withheld"]:
        _complain(f"{corpus}: no file of its source is included; look at corpora.{corpus}.source and .include")
    if report["added"] or report["changed"]:
        typer.echo(
            f"{corpus}: {counted(report['chunks'], 'chunk')}; {counted(report['texts_embedded'], 'text')} {verb}embedded"
            f" ({counted(report['tokens'], 'token')}{_price(report['cost_usd'])}), {report['texts_reused']:,} {verb}reused;"
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


def _print_reindexed(corpus: str, report: dict[str, Any]) -> None:
    typer.echo(
        f"{corpus}: {report['remade']:,} of {counted(report['chosen'], 'document')} made again, {report['current']:,} left"
        f" alone; {counted(report['chunks'], 'chunk')}; {counted(report['texts_embedded'], 'text')} embedded"
        f" ({counted(report['tokens'], 'token')}{_price(report['cost_usd'])}), {report['texts_reused']:,} reused;"
        f" {report['seconds']:.1f} s"
    )
    if report["waiting"]:
        typer.echo(f"{corpus}: {report['generation_progress']:.1%} are of the new generation; {report['waiting']}")
    for failed in report["failed"]:
        _complain(f"{failed['document']} is set aside ({failed['stage']}): {failed['reason']}")
    for batch in report["failed_batches"]:
        _complain(
            f"batch {batch['batch']} failed ({counted(batch['documents'], 'document')}, {batch['first']} to"
            f" {batch['last']}): {batch['reason']}"
        )
    if report["stopped"]:
        _complain(
            f"{corpus}: the batches after it would fail as well and were not begun;"
            f" {counted(report['left'], 'document')} left"
        )


def _print_maintained(corpus: str, report: dict[str, Any]) -> None:
    before, after = (
        (report[f"bytes_{when}"] + report[f"vector_bytes_{when}"]) / (1024 * 1024) for when in ("before", "after")
    )
    typer.echo(
        f"{corpus}: {counted(report['rows'], 'row')}; {before:,.1f} MiB before, {after:,.1f} MiB after;"
        f" {counted(len(report['versions_dropped']), 'version')} and"
        f" {counted(len(report['generations_reclaimed']), 'generation')} dropped;"
        f" {counted(report['vectors_deleted'], 'vector')} deleted, {report['vectors_unneeded']:,} not needed now"
    )
    if report["problem"]:
        _complain(report["problem"])
    if report["vectors_kept_because"]:
        _complain(f"{corpus}: no vector is deleted: {report['vectors_kept_because']}")


def _price(cost_usd: float) -> str:
    return f", ${cost_usd:,.4f}" if cost_usd else ""


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False))


def _complain(line: str, *, to: TextIO | None = None, level: int = logging.WARNING) -> None:
    """One line on stderr, without characters that could command the terminal; a record of that level where JSON is asked
    for."""
    from rag_assets.showing import visible

    text = visible(" ".join(line.split()))
    if logs.writes_json():
        _log.log(level, "%s", text)
    else:
        typer.echo(f"rag-assets: {text}", file=to or sys.stderr)


def _fail(message: str) -> None:
    """End with status 1. A configuration may hold several problems, each on a line."""
    for line in message.splitlines():
        _complain(line, level=logging.ERROR)
    sys.exit(1)


@contextmanager
def _progress_bar() -> Iterator[Callable[[str], None]]:
    """Draw the progress of the stages on a terminal; elsewhere only say what is said. Yields a way to say something."""
    if not sys.stderr.isatty():
        say = partial(_complain, to=sys.stderr)  # this one, also while a run has its own console turned away
        with listening(Heartbeat(say)):
            yield say
        return
    from rag_assets.showing import progress_bar

    with progress_bar() as draw:
        yield draw


if __name__ == "__main__":
    main()
