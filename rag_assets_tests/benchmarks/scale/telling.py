"""The costs of several sizes side by side, as a table and as a picture."""

from collections.abc import Callable, Mapping, Sequence

from rag_assets.drawing import panels
from rag_assets_tests.benchmarks.scale.growing import Cost
from rag_assets_tests.benchmarks.tables import markdown_table

_MIB = 2**20
_ROWS: Mapping[str, Callable[[Cost], float]] = {
    "CPU a document, ms": lambda cost: cost.cpu_ms,
    "of which bookkeeping, ms": lambda cost: cost.bookkeeping_ms,
    "time a document, ms": lambda cost: cost.wall_ms,
    "memory of the ingest, MiB": lambda cost: cost.ingest_memory / _MIB,
    "a tick without a change, s": lambda cost: cost.tick_seconds,
    "its CPU, s": lambda cost: cost.tick_cpu_seconds,
    "memory of the tick, MiB": lambda cost: cost.tick_memory / _MIB,
    "a question, ms": lambda cost: cost.question_ms,
    "tables, kB a document": lambda cost: cost.table_bytes / 1000,
    "Dagster's history, kB a document": lambda cost: cost.history_bytes / 1000,
}
_DRAWN = (
    "CPU a document, ms",
    "of which bookkeeping, ms",
    "a tick without a change, s",
    "a question, ms",
    "Dagster's history, kB a document",
)


def as_markdown(costs: Sequence[Cost]) -> str:
    """A row a figure, a column a size."""
    header = ["documents", *(f"{cost.documents:,}" for cost in costs)]
    rows = [[what, *(_number(figure(cost)) for cost in costs)] for what, figure in _ROWS.items()]
    return markdown_table([header, *rows])


def as_svg(costs: Sequence[Cost]) -> str:
    """A panel for each of the figures that grow or should not, over the sizes."""
    series = {what: [_ROWS[what](cost) for cost in costs] for what in _DRAWN}
    return panels(series, [f"{cost.documents:,}" for cost in costs])


def workers_as_markdown(rates: Mapping[int, float]) -> str:
    """Documents a second by the number of processes, and beside one."""
    rows = [[f"{workers}", _number(rate), f"{rate / rates[1]:.2f} ×"] for workers, rate in rates.items()]
    return markdown_table([["processes", "documents a second", "beside one"], *rows])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
