"""An evaluation for people: figures beside those before, the questions that went worst, and a picture over time."""

import base64
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from html import escape

from rag_assets.records import Evaluation, Figures, QuestionScore
from rag_assets.scoring.comparing import QUALITY, Standing

_DRAWN: Mapping[str, str] = {
    "recall_at_5": "#1f77b4",
    "ndcg_at_10": "#ff7f0e",
    "answerable_accuracy": "#2ca02c",
    "citation_recall": "#d62728",
}
_DRAWN_EVALUATIONS = 30
_WIDTH, _HEIGHT, _MARGIN, _LEGEND = 480, 180, 32, 170


def known_figures(figures: Figures) -> dict[str, float]:
    """Those of `figures` that could be measured, by name."""
    return {name: float(value) for name, value in asdict(figures).items() if value is not None}


def goodness(score: QuestionScore) -> float:
    """How well a question went, 0 to 1: the mean of its nDCG, of whether it was rightly answered or declined, and of
    whether the answer was cited, as far as they are known."""
    parts = [score.ndcg_at_10, score.citation_recall]
    if score.answered is not None:
        parts.append(float(score.answered == score.answerable))
    known = [part for part in parts if part is not None]
    return statistics.fmean(known) if known else 1.0


def worst(scores: Sequence[QuestionScore], count: int) -> list[QuestionScore]:
    """The `count` questions that went worst, the worst first; none that went perfectly."""
    flawed = [score for score in scores if goodness(score) < 1]
    return sorted(flawed, key=goodness)[:count]


def worst_rows(scores: Sequence[QuestionScore], count: int) -> list[tuple[str, ...]]:
    """The worst questions as cells of a table, below a head."""
    head = ("question", "found at", "answer", "right citations", "found instead")
    return [head, *(_cells(score) for score in worst(scores, count))]


def _cells(score: QuestionScore) -> tuple[str, ...]:
    rank = "not found" if score.rank is None else str(score.rank)
    answer = "" if score.answered is None else "answered" if score.answered else "declined"
    cited = "" if score.citations is None else f"{score.citations_right} of {score.citations}"
    instead = score.found[0] if score.found and score.rank != 1 else ""
    return (
        f"{score.id}: {score.question}",
        rank if score.answerable else "nothing to find",
        answer if score.answered is None or score.answered == score.answerable else f"{answer}, wrongly",
        cited,
        instead,
    )


def worst_as_markdown(scores: Sequence[QuestionScore], *, count: int = 20) -> str:
    """The questions that went worst as a Markdown table."""
    head, *rows = worst_rows(scores, count)
    if not rows:
        return "Every question went well."
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def history_as_markdown(kept: Sequence[Evaluation]) -> str:
    """The figures of the last evaluations of published versions, the newest first in `kept`, drawn as a picture."""
    shown = [one for one in kept if one.held is None][:_DRAWN_EVALUATIONS][::-1]
    picture = base64.b64encode(_svg(shown).encode()).decode()
    return f"![figures by version](data:image/svg+xml;base64,{picture})"


def _svg(shown: Sequence[Evaluation]) -> str:
    """A line a figure, from 0 at the bottom to 1 at the top, an evaluation a step."""
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + _LEGEND}" height="{_HEIGHT}"'
            ' font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
            *_axes(shown),
            *(part for place, name in enumerate(_DRAWN) for part in _line(shown, name, place)),
            "</svg>",
        ]
    )


def _axes(shown: Sequence[Evaluation]) -> Iterator[str]:
    for value in (0.0, 0.5, 1.0):
        y = _y(value)
        yield f'<path d="M{_MARGIN} {y}H{_WIDTH - _MARGIN}" stroke="#ddd"/><text x="4" y="{y + 4}">{value:g}</text>'
    for place in sorted({0, len(shown) - 1}) if shown else ():
        x = _x(place, len(shown)) - 8
        yield f'<text x="{x}" y="{_HEIGHT - 8}">v{shown[place].index_version}</text>'


def _line(shown: Sequence[Evaluation], name: str, place: int) -> Iterator[str]:
    values = [(step, getattr(one.figures, name)) for step, one in enumerate(shown)]
    points = [(_x(step, len(shown)), _y(value)) for step, value in values if value is not None]
    if not points:
        return
    colour = _DRAWN[name]
    path = " ".join(f"{x},{y}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield f'<circle cx="{points[-1][0]}" cy="{points[-1][1]}" r="3" fill="{colour}"/>'
    last = next(value for _, value in reversed(values) if value is not None)
    yield f'<text x="{_WIDTH}" y="{30 + 20 * place}" fill="{colour}">{escape(name)} {last:.3f}</text>'


def _x(step: int, steps: int) -> float:
    return round(_MARGIN + (_WIDTH - 2 * _MARGIN) * (step / (steps - 1) if steps > 1 else 0.5), 1)


def _y(value: float) -> float:
    return round(_HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * value, 1)


def standing_as_json(standing: Standing) -> dict[str, object]:
    """What `rag-assets evaluate --json` prints of a corpus; figures that were not measured are null."""
    now, before = standing.report.evaluation, standing.before
    values = asdict(now) | {"evaluated_at": now.evaluated_at.isoformat()}
    del values["held"]
    values["before"] = before and {
        "index_version": before.index_version,
        "figures": {name: getattr(before.figures, name) for name in QUALITY},
    }
    values["fallen"] = [asdict(fall) for fall in standing.fallen]
    values["warnings"] = list(standing.report.warnings)
    return values
