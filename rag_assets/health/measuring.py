"""One measurement of a corpus: all its checks at once, as a row of its table `health`."""

from collections.abc import Sequence

from rag_assets.errors import StoreError
from rag_assets.health.checks import Finding, checks_of, examine
from rag_assets.health.view import View
from rag_assets.storing.health import CheckResult, Health, keep_health


def measure(view: View) -> Sequence[Finding]:
    """Do every check of the corpus, and keep what they found."""
    found = list(examine(view, checks_of(view.corpus)))
    keep_health(view.store, measurement_of(view, found))
    return found


def measurement_of(view: View, found: Sequence[Finding]) -> Health:
    """What was `found` at a corpus, as one measurement."""
    return Health(
        measured_at=view.now,
        corpus=view.corpus.name,
        run_id=view.run_id,
        generation=view.generation.id,
        figures={**_identity(view), **figures_of(found), "seconds": round(sum(one.seconds for one in found), 3)},
        checks={
            one.check.name: CheckResult(one.verdict.passed, one.check.severity, one.verdict.summary) for one in found
        },
    )


def figures_of(found: Sequence[Finding]) -> dict[str, int | float]:
    """All figures of what was `found`, by name."""
    return {name: value for one in found for name, value in one.verdict.figures.items()}


def _identity(view: View) -> dict[str, int | float]:
    """Which version was measured; nothing where the table that tells it cannot be read, which a check says."""
    try:
        return {"index_version": view.published.version} if view.published else {}
    except (StoreError, ValueError):
        return {}
