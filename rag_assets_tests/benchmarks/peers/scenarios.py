"""What happens to a folder, one thing after another, and how a peer's index should follow."""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rag_assets_tests.benchmarks.counting import BROKEN, CountingProvider
from rag_assets_tests.benchmarks.peers.peer import Job, Report, Rows

# The documents and how many paragraphs each has: no number that the batches of a peer divide.
_DOCUMENTS = {"anchor.md": 20, "beacon.md": 22, "cable.md": 24, "dock.md": 26, "engine.md": 28}
_REWRITTEN = ("dock.md", "engine.md")
_WORDS_A_PARAGRAPH = 40
_WORDS = ("the", "harbour", "keeps", "its", "light", "while", "a", "ship", "passes", "point", "of", "each", "night")

STEPS = (
    f"first index, {len(_DOCUMENTS)} documents, {sum(_DOCUMENTS.values())} chunks",
    "nothing changed",
    "one edit in a document of 20 chunks",
    "a document of 22 chunks renamed",
    "a twin of a document of 24 chunks",
    "two documents rewritten, 54 chunks; the provider fails half way, then works again",
    "found between failure and repair",
)

Run = Callable[[Job], Report]


@dataclass(frozen=True)
class _Bench:
    """A folder, a provider and a peer that follows the folder."""

    job: Job
    provider: CountingProvider
    run: Run

    def follow(self) -> tuple[int, Report]:
        """Let the peer catch up; how many texts it sent."""
        before = self.provider.sent
        report = self.run(self.job)
        if report.error:
            print(f"said: {report.error[:500]}", file=sys.stderr)
        return self.provider.sent - before, report

    def cell(self) -> str:
        """Let the peer catch up, and tell how many texts that took and what is wrong with its index."""
        sent, report = self.follow()
        return ", ".join([str(sent), *_faults(report.rows, self.job.documents())])

    def path(self, document: str) -> Path:
        return self.job.corpus / document

    def write(self, document: str, *, edition: int) -> None:
        """Write `document` with texts that no other document and no other edition has."""
        texts = [_paragraph(document, edition, place) for place in range(_DOCUMENTS[document])]
        self.path(document).write_text("\n\n".join(texts), encoding="utf-8")


def cells(root: Path, run: Run) -> Sequence[str]:
    """One cell for each of `STEPS`: the texts that the peer sent, and what is wrong with its index then."""
    with CountingProvider(refusal=BROKEN) as provider:
        bench = _Bench(Job(root / "corpus", root / "state", provider.base_url), provider, run)
        bench.job.corpus.mkdir(parents=True)
        for document in _DOCUMENTS:
            bench.write(document, edition=1)
        found = [bench.cell(), bench.cell()]
        edited = bench.path("anchor.md")
        edited.write_text(edited.read_text(encoding="utf-8").replace(" 7 of", " seven of"), encoding="utf-8")
        found.append(bench.cell())
        bench.path("beacon.md").rename(bench.path("bulwark.md"))
        found.append(bench.cell())
        shutil.copy(bench.path("cable.md"), bench.path("cordage.md"))
        found.append(bench.cell())
        return [*found, *_failed_update(bench)]


def _failed_update(bench: _Bench) -> tuple[str, str]:
    old = bench.job.documents()
    for document in _REWRITTEN:
        bench.write(document, edition=2)
    new = bench.job.documents()
    bench.provider.quota = bench.provider.sent + sum(map(_DOCUMENTS.__getitem__, _REWRITTEN)) // 2
    sent, report = bench.follow()
    assert report.error or bench.provider.sent >= bench.provider.quota, (
        "the provider was not asked often enough to fail"
    )
    bench.provider.quota = None
    meanwhile = [_state(report.rows.get(document, ()), old[document], new[document]) for document in _REWRITTEN]
    again, report = bench.follow()
    states = [f"{count} {state}" for state, count in Counter(meanwhile).items()]
    return ", ".join([str(sent + again), *_faults(report.rows, bench.job.documents())]), ", ".join(states)


def _state(found: Sequence[str], old: str, new: str) -> str:
    """How a document that should be `old` or `new` is found."""
    if not found:
        return "gone"
    for name, whole in (("as before", old), ("as rewritten", new)):
        if sorted(found) == sorted(whole.split("\n\n")):
            return name
    return "in parts or mixed"


def _faults(found: Rows, documents: Mapping[str, str]) -> list[str]:
    """What a reader of `found` would notice."""
    wanted = {document: sorted(text.split("\n\n")) for document, text in documents.items()}
    stale = found.keys() - wanted.keys()
    gone = wanted.keys() - found.keys()
    wrong = [document for document in wanted.keys() & found.keys() if sorted(found[document]) != wanted[document]]
    named = (("still found", stale), ("not found", gone), ("cut otherwise", wrong))
    return [f"{' and '.join(sorted(documents))} {what}" for what, documents in named if documents]


def _paragraph(document: str, edition: int, place: int) -> str:
    words = [
        _WORDS[(len(document) * edition + 5 * place + 7 * step) % len(_WORDS)] for step in range(_WORDS_A_PARAGRAPH)
    ]
    return f"Paragraph {place} of {document.removesuffix('.md')} in edition {edition} tells that {' '.join(words)}."
