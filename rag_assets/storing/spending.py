"""What was paid for embeddings: by run, and in all."""

import time
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from rag_assets.records import SPEND
from rag_assets.storing.stores import Store
from rag_assets.storing.tables import sql_literal

_KEPT_EVERY_SECONDS = 20.0


@dataclass
class Spend:
    """Figures of some requests. `cost_usd` is at the price that was in force."""

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


class SpendLedger:
    """Keeps what one run spends, every few seconds and when it ends: a kill loses the account of those few seconds."""

    def __init__(self, store: Store, *, corpus: str, run_id: str | None, model: str) -> None:
        self._store = store
        self._labels = {"corpus": corpus, "run_id": run_id, "model": model}
        self._open = Spend()
        self._kept_at = time.monotonic()

    def add(self, spent: Spend) -> None:
        """Note what a request cost."""
        self._open.requests += spent.requests
        self._open.texts += spent.texts
        self._open.tokens += spent.tokens
        self._open.cost_usd += spent.cost_usd
        if time.monotonic() - self._kept_at > _KEPT_EVERY_SECONDS:
            self.keep()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.keep()

    def keep(self) -> None:
        """Write down what is not written yet."""
        self._kept_at = time.monotonic()
        if self._open.requests:
            row = {"spent_at": datetime.now(UTC), **self._labels, **vars(self._open)}
            self._store.spend().append(pa.Table.from_pylist([row], schema=SPEND))
            self._open = Spend()


def spend_of(store: Store, corpus: str, *, run_id: str | None = None) -> Spend:
    """What `corpus` has cost, in one run or in all."""
    where = f"corpus = {sql_literal(corpus)}" + (f" AND run_id = {sql_literal(run_id)}" if run_id else "")
    rows = store.spend().read(["requests", "texts", "tokens", "cost_usd"], where=where)
    totals = {name: pc.sum(rows[name]).as_py() or 0 for name in rows.column_names}
    return Spend(**totals)


def spend_by_run(store: Store, corpus: str) -> dict[str, Spend]:
    """What each run of `corpus` cost that paid for anything, by its id, in the order in which they last paid."""
    columns = ["run_id", "spent_at", "requests", "texts", "tokens", "cost_usd"]
    rows = store.spend().read(columns, where=f"corpus = {sql_literal(corpus)}").sort_by("spent_at")
    runs: dict[str, Spend] = {}
    for row in rows.to_pylist():
        paid = Spend(**{name: row[name] for name in columns[2:]})
        runs[row["run_id"] or ""] = runs.pop(row["run_id"] or "", Spend()) + paid
    return runs
