"""Two writers and a reader that share nothing but a bucket and the source folder, one writer killed at random: is what is
left whole?

Every process has a cache of its own, as on a machine of its own, so that they meet in the bucket only.
`python -m rag_assets_tests.benchmarks --only shared_store` prints it.
"""

import json
import multiprocessing
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from rag_assets.asking import make_question, retrieve
from rag_assets.config import CorpusSettings, Settings
from rag_assets.generations import generation_of
from rag_assets.records import Passage
from rag_assets.storing.publishing import publications
from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.reports import Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.benchmarks.writers import (
    DOCUMENTS,
    PARAGRAPHS,
    STAMP,
    differences,
    mend,
    problems,
    rewrite,
    write_until_killed,
)
from rag_assets_tests.reading.bucket import S3Server
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

_TITLE = "Two writers and a reader of one bucket, a writer killed at random"
_SECONDS = {"tiny": 20.0, "full": 300.0}
_KILL_AFTER_SECONDS = {"tiny": (4.0, 6.0), "full": (10.0, 30.0)}
_WRITERS = 2


def run(size: Size, folder: Path) -> Report:
    """Let two write and one read for five minutes, kill a writer now and then, then mend and compare with the files."""
    with S3Server(page=1_000) as server:
        os.environ.update(server.environment)
        home = f"s3://{server.bucket('shared-store').name}/store"
        return _measured(size, folder, home)


def _measured(size: Size, folder: Path, home: str) -> Report:
    local = make_workbench(folder)
    bench = Workbench(local.folder, Store(home), local.corpus)
    for number in range(DOCUMENTS):
        rewrite(bench, f"{number}.md", "0")
    bench.ingest()
    context = multiprocessing.get_context("spawn")
    counts = context.Array("q", 3)  # batches written, batches refused as overtaken, anything else
    log = folder / "log"
    stop = context.Event()
    seen = folder / "reader.json"
    settings = bench.corpus.model_dump_json()

    def start(seed: int) -> BaseProcess:
        writer = context.Process(
            target=_write_alone,
            args=(folder / f"cache{seed}", str(bench.folder), home, settings, seed, counts, str(log)),
        )
        writer.start()
        return writer

    reader = context.Process(target=_read, args=(home, settings, stop, seen))
    reader.start()
    writers = [start(seed) for seed in range(_WRITERS)]
    choose = random.Random(0)
    kills = 0
    ends = time.monotonic() + _SECONDS[size]
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, choose.uniform(*_KILL_AFTER_SECONDS[size])))
        victim = choose.randrange(_WRITERS)
        writers[victim].kill()
        writers[victim].join()
        kills += 1
        writers[victim] = start(1000 + kills)
    for writer in writers:
        writer.kill()
        writer.join()
    stop.set()
    reader.join()
    mend(bench)
    told = json.loads(seen.read_text())
    written, refused, failed = counts[:]
    numbers = Counter(one.version for one in publications(bench.store, CORPUS))
    said = [*(log.read_text().splitlines()[:1] if log.exists() else []), *told["errors"][:1]]
    after = [*problems(bench.store), *differences(bench)]
    return Report(
        name="shared_store",
        title=_TITLE,
        figures=[
            Figure("batches written", written, "batches"),
            Figure("batches refused, another was faster", refused, "batches"),
            Figure("batches that failed otherwise", failed, "batches", goal=Goal("at most", 0)),
            Figure("processes killed", kills, "kills"),
            Figure("publications", len(numbers), "publications"),
            Figure(
                "publications of one number", numbers.total() - len(numbers), "publications", goal=Goal("at most", 0)
            ),
            Figure("reads", told["reads"], "reads"),
            Figure("versions that were read", len(told["versions"]), "versions"),
            Figure("errors of the reader", len(told["errors"]), "errors", goal=Goal("at most", 0)),
            Figure("reads of a mixed, doubled or partial document", told["broken"], "reads", goal=Goal("at most", 0)),
            Figure("reads of an older version than the one before", told["back"], "reads", goal=Goal("at most", 0)),
            Figure("vectors kept twice", _doubled_vectors(bench), "vectors", goal=Goal("at most", 0)),
            Figure(
                "documents that differ from their files in the end", len(after), "documents", goal=Goal("at most", 0)
            ),
        ],
        notes=[
            f"{DOCUMENTS} documents of {PARAGRAPHS} chunks and new ones, {_WRITERS} writers and a reader for"
            f" {_SECONDS[size]:.0f} s, each process with a cache of its own; moto as the S3 server. A killed writer may hold"
            " the lock, which the others take over after 20 s.",
            *[f"The first other failure: {line}" for line in said],
        ],
    )


def _write_alone(cache: Path, *arguments: Any) -> None:
    """Write as a machine does that shares no disk with the others."""
    os.environ["XDG_CACHE_HOME"] = str(cache)
    write_until_killed(*arguments)


def _read(home: str, corpus_json: str, stop: Event, path: Path) -> None:
    """Ask for everything until told to stop."""
    corpus = CorpusSettings.model_validate_json(corpus_json)
    store = Store(home)
    settings = Settings(path=path, home=home, corpora={corpus.name: corpus})
    question = make_question(settings, "stamp", top_k=4 * DOCUMENTS * PARAGRAPHS, mode="hybrid")
    versions: set[int] = set()
    errors: list[str] = []
    reads = broken = back = newest = 0
    while not stop.is_set():
        try:
            found = retrieve(store, corpus, question)
        except Exception as error:  # whatever a reader meets is what this counts
            errors.append(f"{type(error).__name__}: {error}")
            continue
        reads += 1
        versions.add(found.publication.version)
        back += found.publication.version < newest
        newest = max(newest, found.publication.version)
        broken += not _is_whole(found.passages)
    told = {"reads": reads, "versions": sorted(versions), "errors": errors, "broken": broken, "back": back}
    path.write_text(json.dumps(told))


def _is_whole(passages: Sequence[Passage]) -> bool:
    """Whether the passages are every part of one rewriting of every document that they are from, once."""
    parts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for passage in passages:
        for stamp, part, _ in STAMP.findall(passage.text):
            parts[passage.document].append((stamp, part))
    wanted = [str(number) for number in range(PARAGRAPHS)]
    return len(parts) >= DOCUMENTS and all(
        len({stamp for stamp, _ in found}) == 1 and sorted(part for _, part in found) == wanted
        for found in parts.values()
    )


def _doubled_vectors(bench: Workbench) -> int:
    hashes = Counter(
        text_hash
        for some in bench.store.vectors(generation_of(bench.corpus).embedding).text_hashes()
        for text_hash in some
    )
    return hashes.total() - len(hashes)
