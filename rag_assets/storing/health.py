"""The table `health` of a corpus: how healthy it was, one row a measurement."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from rag_assets.records import HEALTH
from rag_assets.storing.stores import Store

_FRAGMENTS = 20
_NO_FIGURES = ("measured_at", "corpus", "run_id", "generation", "checks")
FIGURES = tuple(name for name in HEALTH.names if name not in _NO_FIGURES)
"""The columns of `health` that are numbers."""


@dataclass(frozen=True)
class CheckResult:
    """What a check found: `summary` is a sentence, `severity` is `error` or `warning`."""

    passed: bool
    severity: str
    summary: str


@dataclass(frozen=True)
class Health:
    """One measurement. `figures` has the columns of `HEALTH` that could be told, `checks` what each check found."""

    measured_at: datetime
    corpus: str
    run_id: str
    generation: str
    figures: Mapping[str, int | float]
    checks: Mapping[str, CheckResult]

    @property
    def failed(self) -> Mapping[str, CheckResult]:
        """The checks that did not pass."""
        return {name: one for name, one in self.checks.items() if not one.passed}


def keep_health(store: Store, health: Health) -> None:
    """Add a measurement to its table."""
    row = {
        "measured_at": health.measured_at,
        "corpus": health.corpus,
        "run_id": health.run_id,
        "generation": health.generation,
        **{name: value for name, value in health.figures.items() if name in FIGURES},
        "checks": json.dumps({name: vars(one) for name, one in health.checks.items()}, ensure_ascii=False),
    }
    table = store.health(health.corpus)
    table.append(pa.Table.from_pylist([row], schema=HEALTH))
    if table.compact(more_than_fragments=_FRAGMENTS):
        table.clean_up()


def health_over_time(store: Store, corpus: str) -> list[Health]:
    """Every measurement of `corpus`, the newest first."""
    rows = store.health(corpus).read().sort_by([("measured_at", "descending")])
    return [_health(row) for row in rows.to_pylist()]


def _health(row: Mapping[str, Any]) -> Health:
    return Health(
        **{name: row[name] for name in ("measured_at", "corpus", "run_id", "generation")},
        figures={name: row[name] for name in FIGURES if row[name] is not None},
        checks={name: CheckResult(**values) for name, values in json.loads(row["checks"]).items()},
    )
