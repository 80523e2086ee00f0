"""The reports of several corpora as one, as `--json` prints them."""

from collections.abc import Mapping, Sequence
from typing import Any

Report = Mapping[str, Any]

_LEAST = ("coverage", "generation_progress", "published_at")
_MOST = ("lag_seconds", "lag_p50_seconds", "lag_p95_seconds", "lag_worst_seconds")
# Figures of the vectors that `embedding` names, which corpora with one model share.
_OF_VECTORS = ("vectors", "vectors_unneeded", "vector_bytes_before", "vector_bytes_after")


def together(reports: Mapping[str, Report]) -> dict[str, Any]:
    """One corpus: its report. Several: numbers and lists summed up, with each report under `corpora`.

    Of a share the least is told, of a lag the longest; vectors that corpora share count once. What cannot be summed up is
    told where all agree, and null otherwise.
    """
    if len(reports) == 1:
        name, report = next(iter(reports.items()))
        return {"corpus": name, **report}
    keys = next(iter(reports.values()))
    return {**{key: _total(key, list(reports.values())) for key in keys}, "corpora": dict(reports)}


def _total(key: str, reports: Sequence[Report]) -> object:
    values = [report[key] for report in reports]
    if key == "documents":
        return {status: sum(value[status] for value in values) for status in values[0]}
    if key in _LEAST:
        return min((value for value in values if value is not None), default=None)
    if key in _MOST:
        return max(values)
    if key in _OF_VECTORS and all("embedding" in report for report in reports):
        values = _once_a_model(key, reports)
    if all(isinstance(value, bool) for value in values):
        return any(values)
    if all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    if key != "index_version" and all(isinstance(value, int | float) for value in values):
        return sum(values)
    return values[0] if len(set(map(str, values))) == 1 else None


def _once_a_model(key: str, reports: Sequence[Report]) -> list[Any]:
    """The figure of each model: what was there before the first report, or after the last."""
    in_order = reversed(reports) if key.endswith("_before") else reports
    return list({report["embedding"]: report[key] for report in in_order}.values())
