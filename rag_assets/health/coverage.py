"""Whether readers can find every chunk of every document: the number that was cut against the number that is there."""

from rag_assets.health.verdicts import Row, Verdict, fails, passes, some
from rag_assets.health.view import View, steadily
from rag_assets.wording import count


@steadily
def chunk_coverage(view: View) -> Verdict:
    """Every chunk is in the published index.

    What changed since the last publication is on its way, and not counted.
    """
    expected = {name: view.known[name].chunks or 0 for name in view.settled}
    indexed = {name: min(view.rows_of.get(name, 0), chunks) for name, chunks in expected.items()}
    short = sorted(name for name, chunks in expected.items() if indexed[name] < chunks)
    wanted, there = sum(expected.values()), sum(indexed.values())
    figures = {
        "chunks_expected": wanted,
        "chunks_indexed": there,
        "coverage": there / wanted if wanted else 1.0,
        "documents_uncovered": len(short),
    }
    if not short:
        return passes(f"All {count(wanted, 'chunk')} of {count(len(expected), 'document')} are there.", figures)
    rows: list[Row] = [
        {
            "document": name,
            "expected": expected[name],
            "indexed": indexed[name],
            "coverage": round(indexed[name] / expected[name], 4),
        }
        for name in short
    ]
    what = f"{wanted - there:,} of {count(wanted, 'chunk')} are missing, of {count(len(short), 'document')}"
    return fails(f"{what}: rag-assets doctor {view.corpus.name} --fix", figures, some(rows))
