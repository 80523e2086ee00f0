"""Eight processes that write to one corpus at once, some killed at random: is what is left whole?

Each rewrites documents that all of them share, in paragraphs that carry the number of the rewriting, and publishes. Now
and then all of them meet a document that is new.
`python -m rag_assets_tests.benchmarks --only writers` prints it.
"""

import contextlib
import multiprocessing
import os
import random
import re
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assets.config import CorpusSettings
from rag_assets.errors import StoreError
from rag_assets.storing.publishing import latest_publication
from rag_assets.storing.stores import Store
from rag_assets_tests.benchmarks.reports import Figure, Goal, Report
from rag_assets_tests.benchmarks.sizes import Size
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray

_TITLE = "Eight writers of one corpus, some killed"
_SECONDS = {"tiny": 8.0, "full": 60.0}
_WRITERS = {"tiny": 2, "full": 8}
DOCUMENTS = 24
PARAGRAPHS = 4
_BATCH = 3
_KILL_EVERY_SECONDS = 4.0
_NEW_EVERY_SECONDS = 10
STAMP = re.compile(r"stamp (\S+) part (\d) of (\S+)")


def run(size: Size, folder: Path) -> Report:
    """Let writers write, kill one again and again, look at every published version, then mend and compare with the files."""
    bench = make_workbench(folder)
    for number in range(DOCUMENTS):
        rewrite(bench, f"{number}.md", "0")
    bench.ingest()
    context = multiprocessing.get_context("spawn")
    counts = context.Array("q", 3)  # batches written, batches refused as overtaken, anything else
    log = folder / "log"

    def start(seed: int) -> BaseProcess:
        writer = context.Process(
            target=write_until_killed,
            args=(str(bench.folder), bench.store.home, bench.corpus.model_dump_json(), seed, counts, str(log)),
        )
        writer.start()
        return writer

    writers = [start(seed) for seed in range(_WRITERS[size])]
    choose = random.Random(0)
    kills = looks = broken = 0
    ends = time.monotonic() + _SECONDS[size]
    next_kill = time.monotonic() + 2 * _KILL_EVERY_SECONDS
    while time.monotonic() < ends:
        broken += bool(problems(bench.store))
        looks += 1
        if time.monotonic() > next_kill:
            victim = choose.randrange(len(writers))
            writers[victim].kill()
            writers[victim].join()
            kills += 1
            writers[victim] = start(1000 + kills)
            next_kill = time.monotonic() + _KILL_EVERY_SECONDS
    for writer in writers:
        writer.kill()
        writer.join()
    mend(bench)
    after = problems(bench.store) + differences(bench)
    written, refused, failed = counts[:]
    said = log.read_text().splitlines()[:1] if log.exists() else []
    return Report(
        name="writers",
        title=_TITLE,
        figures=[
            Figure("batches written", written, "batches"),
            Figure("batches refused, another was faster", refused, "batches"),
            Figure("batches that failed otherwise", failed, "batches", goal=Goal("at most", 0)),
            Figure("processes killed", kills, "kills"),
            Figure("looks at what is published", looks, "looks"),
            Figure("looks that found a mixed, doubled or partial document", broken, "looks", goal=Goal("at most", 0)),
            Figure(
                "documents that differ from their files in the end", len(after), "documents", goal=Goal("at most", 0)
            ),
        ],
        notes=[
            f"{DOCUMENTS} documents of {PARAGRAPHS} chunks and a new one every {_NEW_EVERY_SECONDS} s, {_BATCH} and the new"
            f" one a batch, {_WRITERS[size]} processes for {_SECONDS[size]:.0f} s. A batch is refused when a document was"
            " cut again while it was embedded; the next one takes it up.",
            *[f"The first other failure: {line}" for line in said],
        ],
    )


def rewrite(bench: Workbench, name: str, stamp: str) -> None:
    """Write a document whose paragraphs all carry `stamp`, so that nobody reads half of it."""
    text = "\n\n".join(f"This is stamp {stamp} part {part} of {name}" for part in range(PARAGRAPHS))
    path = bench.write(f".{name}.{os.getpid()}", text, seconds_ago=0)
    path.replace(bench.folder / name)


def write_until_killed(
    folder: str, home: str, corpus_json: str, seed: int, counts: "SynchronizedArray[int]", log: str
) -> None:
    """Rewrite documents in `folder` and publish them, for ever. `counts` holds batches: written, overtaken, failed."""
    bench = Workbench(Path(folder), Store(home), CorpusSettings.model_validate_json(corpus_json))
    choose = random.Random(seed)
    for number in range(1_000_000):
        names = [f"{one}.md" for one in choose.sample(range(DOCUMENTS), _BATCH)]
        names.append(f"new-{time.time() // _NEW_EVERY_SECONDS:.0f}.md")
        for name in names:
            rewrite(bench, name, f"{seed}-{number}")
        kind = 0
        try:
            bench.materialize(*names)
            bench.publish()
        except StoreError as error:
            kind = 1 if "materialize" in str(error) or "disagrees" in str(error) else 2
            if kind == 2:
                with contextlib.suppress(OSError), open(log, "a") as file:
                    file.write(f"{type(error).__name__}: {error}\n")
        except Exception as error:  # whatever a writer meets is what this counts
            kind = 2
            with contextlib.suppress(OSError), open(log, "a") as file:
                file.write(f"{type(error).__name__}: {error}\n")
        with counts.get_lock():
            counts[kind] += 1


def mend(bench: Workbench) -> None:
    """What the next ingest does, undisturbed: documents that were being written while they were read are read again."""
    found = bench.scan()
    bench.materialize(*sorted({*found.pending, *(document.document for document in found.failed)}))
    bench.publish()


def problems(store: Store) -> list[str]:
    """Documents of the published version whose rows are not exactly the parts of one rewriting, or that are known twice."""
    publication = latest_publication(store, CORPUS)
    if publication is None:
        return []
    table = store.index(CORPUS, publication.generation, dimensions=1)
    rows = table.read(["document", "chunk_id", "text"], version=publication.table_version).to_pylist()
    found: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        for stamp, part, _ in STAMP.findall(row["text"]):
            found.setdefault(row["document"], []).append((stamp, part))
    wrong = [
        document
        for document, parts in found.items()
        if len({stamp for stamp, _ in parts}) != 1 or sorted(part for _, part in parts) != list("0123")
    ]
    doubled = [chunk_id for chunk_id, count in Counter(row["chunk_id"] for row in rows).items() if count > 1]
    known = store.documents(CORPUS).read(["document"])["document"].to_pylist()
    noted_twice = [document for document, count in Counter(known).items() if count > 1]
    missing = [name for name in (f"{number}.md" for number in range(DOCUMENTS)) if name not in found]
    return wrong + doubled + noted_twice + missing


def differences(bench: Workbench) -> list[str]:
    """Documents whose published rows are not the paragraphs of their files."""
    publication = bench.published
    table = bench.store.index(CORPUS, publication.generation, dimensions=1)
    rows = table.read(["document", "text"], version=publication.table_version).to_pylist()
    texts: dict[str, set[str]] = {}
    for row in rows:
        texts.setdefault(row["document"], set()).add(row["text"])
    files = sorted(bench.folder.glob("[!.]*.md"))
    return [file.name for file in files if texts.get(file.name) != set(file.read_text().split("\n\n"))]
