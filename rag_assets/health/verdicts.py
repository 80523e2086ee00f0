"""What a check found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

Cell = str | int | float
Row = Mapping[str, Cell]
NAMED = 100
"""At most so many documents, or other things, are named by a verdict."""


@dataclass(frozen=True)
class Verdict:
    """`summary` is a sentence for a person, with the remedy where there is something to mend. `figures` are numbers worth
    following over time, those of the columns of `HEALTH` under their names. `named` are the things that are wrong, a row
    each."""

    passed: bool
    summary: str
    figures: Mapping[str, int | float] = field(default_factory=dict)
    named: Sequence[Row] = ()


def passes(summary: str, figures: Mapping[str, int | float] | None = None, named: Sequence[Row] = ()) -> Verdict:
    """A green verdict."""
    return Verdict(passed=True, summary=summary, figures=figures or {}, named=named)


def fails(summary: str, figures: Mapping[str, int | float] | None = None, named: Sequence[Row] = ()) -> Verdict:
    """A red verdict."""
    return Verdict(passed=False, summary=summary, figures=figures or {}, named=named)


def some(rows: Iterable[Row]) -> list[Row]:
    """The first `NAMED` of `rows`."""
    return list(islice(rows, NAMED))
