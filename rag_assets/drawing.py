"""Small charts for the pages of Dagster: SVG inside Markdown, so that no plotting library is needed."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from html import escape

_WIDTH, _PANEL, _MARGIN = 480, 90, 14
# As wide as letters are on average at most.
_LETTER = 6.5
_COLOURS = ("#1f77b4", "#2ca02c", "#d62728", "#ff7f0e")


def panels_as_markdown(title: str, series: Mapping[str, Sequence[float]], steps: Sequence[str]) -> str:
    """A panel for each of `series`, one below the other and each with a scale of its own from 0 on, as an image. All have
    as many values as there are `steps`, whose first and last are written below."""
    picture = base64.b64encode(panels(series, steps).encode()).decode()
    return f"![{title}](data:image/svg+xml;base64,{picture})"


def panels(series: Mapping[str, Sequence[float]], steps: Sequence[str]) -> str:
    """As `panels_as_markdown`, the SVG alone."""
    height = _PANEL * len(series) + 20
    longest = max((len(_label(name, values)) for name, values in series.items()), default=0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + _LETTER * longest + _MARGIN:.0f}" height="{height}"'
        ' font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>',
        *(part for place, (name, values) in enumerate(series.items()) for part in _panel(place, name, values)),
        *_steps(steps, y=height - 6),
        "</svg>",
    ]
    return "".join(parts)


def _panel(place: int, name: str, values: Sequence[float]) -> Iterator[str]:
    top, bottom = place * _PANEL + _MARGIN, (place + 1) * _PANEL - _MARGIN
    highest = max(values, default=0.0) or 1.0
    colour = _COLOURS[place % len(_COLOURS)]
    points = [
        (_x(step, len(values)), round(bottom - (bottom - top) * value / highest, 1))
        for step, value in enumerate(values)
    ]
    yield f'<path d="M{_MARGIN} {bottom}H{_WIDTH - _MARGIN}" stroke="#ddd"/>'
    yield f'<polyline points="{" ".join(f"{x},{y}" for x, y in points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from (f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>' for x, y in points)
    if values:
        yield f'<text x="{_WIDTH}" y="{top + 12}" fill="{colour}">{escape(_label(name, values))}</text>'
        yield f'<text x="{_WIDTH}" y="{top + 28}" fill="#888">at most {_number(highest)}</text>'


def _label(name: str, values: Sequence[float]) -> str:
    return f"{name} {_number(values[-1])}" if values else name


def _steps(steps: Sequence[str], *, y: int) -> Iterator[str]:
    for place in sorted({0, len(steps) - 1}) if steps else ():
        yield f'<text x="{_x(place, len(steps)) - 8}" y="{y}">{escape(steps[place])}</text>'


def _x(step: int, steps: int) -> float:
    return round(_MARGIN + (_WIDTH - 2 * _MARGIN) * (step / (steps - 1) if steps > 1 else 0.5), 1)


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1_000 else f"{value:.4g}"
