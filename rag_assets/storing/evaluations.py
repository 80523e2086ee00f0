"""The table `evaluations` of a corpus: how well its index answered, one row an evaluation."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa

from rag_assets.records import EVALUATIONS, Evaluation, Figures
from rag_assets.storing.stores import Store

_FIGURES = [field.name for field in fields(Figures)]
_COLUMNS = [name for name in EVALUATIONS.names if name != "scores"]


def keep_evaluation(store: Store, evaluation: Evaluation) -> None:
    """Add `evaluation`, with the score of every question."""
    values = asdict(evaluation)
    row = {**values, **values.pop("figures")}
    store.evaluations(evaluation.corpus).append(pa.Table.from_pylist([row], schema=EVALUATIONS))


def evaluations(store: Store, corpus: str) -> list[Evaluation]:
    """Every evaluation of `corpus`, the newest first, without the scores of single questions."""
    rows = store.evaluations(corpus).read(_COLUMNS)
    return [_evaluation(row) for row in rows.sort_by([("evaluated_at", "descending")]).to_pylist()]


def _evaluation(row: Mapping[str, Any]) -> Evaluation:
    figures = Figures(**{name: row[name] for name in _FIGURES})
    return Evaluation(figures=figures, **{name: row[name] for name in _COLUMNS if name not in _FIGURES})


def held_candidate(store: Store, corpus: str, generation: str, table_version: int) -> str | None:
    """Why these rows were evaluated and not published, or None where they were published or never evaluated."""
    for one in evaluations(store, corpus):
        if (one.generation, one.table_version) == (generation, table_version):
            return one.held
    return None
