"""What readers see while one process publishes, re-indexes, rolls back and cleans up: one version at a time, no error.

Each publication rewrites one document with the number of the publication in its text. A reader asks for everything, and
what it gets must be exactly what one version held. `python -m rag_assets_tests.benchmarks --only readers` prints it.
"""

import json
import multiprocessing
import re
import time
from collections.abc import Mapping
from multiprocessing.synchronize import Event
from pathlib import Path

from rag_assets.asking import make_question, retrieve
from rag_assets.config import ChunkingSettings, CorpusSettings, Settings
from rag_assets.storing.publishing import publications, rollback
from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.reports import Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

_TITLE = "Readers while others publish"
_PUBLISHES = {"tiny": 6, "full": 500}
_DOCUMENTS = 20
_READERS = 2
_STAMP = re.compile(r"stamp (\d+) of (\S+)")


def run(size: Size, folder: Path) -> Report:
    """Publish again and again while readers read, and compare what they saw with what each version held."""
    bench = make_workbench(folder)
    state: dict[str, int] = {}
    for number in range(_DOCUMENTS):
        _stamp(bench, state, number, 0)
    bench.ingest()
    expected: dict[int, Mapping[str, int]] = {bench.published.version: dict(state)}
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    reports = [folder / f"reader{number}.json" for number in range(_READERS)]
    readers = [
        context.Process(target=_read, args=(bench.store.home, bench.corpus.model_dump_json(), stop, path))
        for path in reports
    ]
    for reader in readers:
        reader.start()
    started = time.perf_counter()
    for number in range(1, _PUBLISHES[size] + 1):
        _stamp(bench, state, number % _DOCUMENTS, number)
        bench.ingest()
        expected[bench.published.version] = dict(state)
        if number == _PUBLISHES[size] // 2:
            _reindex(bench)
            expected[bench.published.version] = dict(state)
            target = publications(bench.store, CORPUS)[2].version
            expected[rollback(bench.store, CORPUS, target).version] = expected[target]
    seconds = time.perf_counter() - started
    stop.set()
    for reader in readers:
        reader.join()
    seen = [json.loads(path.read_text()) for path in reports]
    mixed = sum(
        stamps != dict(expected[int(version)]) for one in seen for version, stamps in one["versions"].items()
    ) + sum(one["torn"] for one in seen)
    errors = [error for one in seen for error in one["errors"]]
    return Report(
        name="readers",
        title=_TITLE,
        figures=[
            Figure("publications", len(expected) - 1, "publications"),
            Figure("reads", sum(one["reads"] for one in seen), "reads"),
            Figure("versions that were seen", len({v for one in seen for v in one["versions"]}), "versions"),
            Figure("errors of readers", len(errors), "errors", goal=Goal("at most", 0)),
            Figure("answers from no version, or from two", mixed, "answers", goal=Goal("at most", 0)),
        ],
        notes=[
            f"{_DOCUMENTS} documents, {_READERS} reading processes without a pause, {seconds:.0f} s. In the middle the"
            " corpus is re-indexed with other cuts and rolled back; clean-up runs with every publication.",
            *([f"The first error: {errors[0]}"] if errors else []),
        ],
    )


def _stamp(bench: Workbench, state: dict[str, int], document: int, number: int) -> None:
    name = f"{document}.md"
    bench.write(name, f"This is stamp {number} of {name} here.\n")
    state[name] = number


def _reindex(bench: Workbench) -> None:
    """Another generation, which the next publication switches to."""
    bench.configure(chunking=ChunkingSettings(strategy="paragraph", max_tokens=90, overlap_tokens=0))
    bench.ingest()


def _read(home: str, corpus_json: str, stop: Event, path: Path) -> None:
    """Ask for everything until told to stop. A version that is seen twice must be the same both times."""
    corpus = CorpusSettings.model_validate_json(corpus_json)
    store = Store(home)
    settings = Settings(path=path, home=home, corpora={corpus.name: corpus})
    question = make_question(settings, "stamp", top_k=_DOCUMENTS * 2, mode="hybrid")
    versions: dict[int, dict[str, int]] = {}
    errors: list[str] = []
    reads = torn = 0
    while not stop.is_set():
        try:
            found = retrieve(store, corpus, question)
        except Exception as error:  # whatever a reader meets is what this counts
            errors.append(f"{type(error).__name__}: {error}")
            continue
        reads += 1
        stamps = {name: int(stamp) for p in found.passages for stamp, name in _STAMP.findall(p.text)}
        before = versions.setdefault(found.publication.version, stamps)
        torn += before != stamps or len(found.passages) != _DOCUMENTS
    path.write_text(json.dumps({"reads": reads, "errors": errors, "versions": versions, "torn": torn}))
