"""What a benchmark found, and the table that shows it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

_HEADER = ("what", "figure", "baseline in the same run", "ratio", "goal", "met")


@dataclass(frozen=True)
class Goal:
    """What a figure should be, in the unit of the figure."""

    kind: Literal["at most", "at least"]
    limit: float

    def is_met_by(self, value: float) -> bool:
        return value <= self.limit if self.kind == "at most" else value >= self.limit


@dataclass(frozen=True)
class Baseline:
    """What a figure is compared with, measured in the same run and in the same unit."""

    what: str
    value: float


@dataclass(frozen=True)
class Figure:
    """One measured value."""

    what: str
    value: float
    unit: str
    baseline: Baseline | None = None
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of the baseline."""
        return self.value / self.baseline.value if self.baseline and self.baseline.value else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met, None where there is none."""
        return self.goal.is_met_by(self.value) if self.goal else None


@dataclass(frozen=True)
class Report:
    """One benchmark. `notes` say how it was measured, `skipped` why it was not."""

    name: str
    title: str
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    skipped: str | None = None


def as_json(report: Report) -> Mapping[str, object]:
    """`report` as one JSON object, ratios and verdicts included."""
    figures = [{**asdict(figure), "ratio": figure.ratio, "met": figure.met} for figure in report.figures]
    return {**asdict(report), "figures": figures}


def as_text(report: Report) -> str:
    """`report` for a terminal."""
    return "\n".join([f"{report.name}: {report.title}", *_body(report, edge="  ", between="   ", rule="─")])


def as_markdown(report: Report) -> str:
    """`report` as a section of a page."""
    return "\n".join([f"### {report.title}", "", *_body(report, edge="| ", between=" | ", rule="-")])


def _body(report: Report, *, edge: str, between: str, rule: str) -> Iterator[str]:
    if report.skipped:
        yield f"Skipped: {report.skipped}."
        return
    rows = [_HEADER, *map(_cells, report.figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    lines.insert(1, [rule * width for width in widths])
    for line in lines:
        yield f"{edge}{between.join(line)}{edge[::-1]}".rstrip()
    yield ""
    for note in report.notes:
        yield f"* {note}"


def _cells(figure: Figure) -> tuple[str, ...]:
    baseline, goal = figure.baseline, figure.goal
    return (
        figure.what,
        f"{_number(figure.value)} {figure.unit}",
        f"{_number(baseline.value)} {figure.unit}, {baseline.what}" if baseline else "–",
        _number(figure.ratio) if figure.ratio is not None else "–",
        f"{goal.kind} {goal.limit:g} {figure.unit}" if goal else "–",
        {True: "yes", False: "no", None: "–"}[figure.met],
    )


def _number(value: float) -> str:
    """Three digits that count; whole numbers stay whole."""
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}"
