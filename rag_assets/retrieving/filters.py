"""Filters that people write without SQL: `path=guide/**`, `author=Ann`, `date>=2024-01-01`.

Here belongs how they are written and when a value meets them; what they are in the index is `conditions.py`.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

from rag_assets.errors import QuestionError
from rag_assets.globs import translate
from rag_assets.labels import folded

Operator = Literal["=", "!=", ">=", "<=", ">", "<"]

BUILT_IN = ("document", "path", "mime", "title", "heading", "modified")
"""The fields that every document has; any other is one of front matter."""
FRONT_MATTER = "metadata."
"""Before the name of a field of front matter that is called like one of those."""

_FILTER = re.compile(r"\s*([^=<>!]*?)\s*(!=|>=|<=|==?|>|<)\s*+(?![=<>!])(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r"(['\"])(.*)\1", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[t ].*)?)?)?")
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_EXAMPLES = "such as: path=guide/** or author=Ann or date>=2024-01-01"


@dataclass(frozen=True)
class Filter:
    """What a document must be like: its `field` compared by `operator` with `value`. `text` is as it was written."""

    text: str
    field: str
    operator: Operator
    value: str


@dataclass(frozen=True)
class Period:
    """A half-open range of time, as wide as a date is exact."""

    start: datetime
    end: datetime


def parse_filters(texts: Sequence[str]) -> tuple[Filter, ...]:
    """Each of `texts` as a filter. Raises `QuestionError` that says how one is written."""
    return tuple(_parse(text) for text in texts)


def _parse(text: str) -> Filter:
    found = _FILTER.fullmatch(text)
    if not found or not found[1] or not found[3]:
        raise QuestionError(
            f"the filter {text!r} cannot be read; it is a field, one of = != >= <= > <, and a value, {_EXAMPLES}"
        )
    quoted = _QUOTED.fullmatch(found[3])
    compared = "=" if found[2] == "==" else found[2]
    made = Filter(text, folded(found[1]), cast("Operator", compared), quoted[2] if quoted else found[3])
    _refuse_unfit(made)
    return made


def _refuse_unfit(made: Filter) -> None:
    if made.field == "modified":
        period_of(made)
    elif made.field in BUILT_IN and made.operator not in ("=", "!="):
        raise QuestionError(
            f"the filter {made.text!r} cannot be applied: {made.field} has no order; compare it with = or !=, {_EXAMPLES}"
        )
    if made.field in ("path", "mime"):
        try:
            translate(made.value)
        except ValueError:
            raise QuestionError(
                f"the filter {made.text!r} cannot be read: {made.value!r} is no glob; ** stands alone between slashes,"
                " such as: path=guide/**"
            ) from None


def period_of(made: Filter) -> Period:
    """The time that the value of a filter on `modified` names; UTC, unless it says otherwise. Raises `QuestionError`."""
    try:
        return _period(made.value)
    except (ValueError, OverflowError):
        raise QuestionError(
            f"the filter {made.text!r} cannot be read: {made.value!r} is no date; write it such as: modified>=2025-01-31"
        ) from None


def _period(value: str) -> Period:
    parts = value.split("-")
    if re.fullmatch(r"\d{4}(-\d\d){0,2}", value):
        year, month, day = (*map(int, parts), 1, 1)[:3]
        start = datetime(year, month, day, tzinfo=UTC)
        match len(parts):
            case 1:
                return Period(start, start.replace(year=year + 1))
            case 2:
                return Period(start, start.replace(year=year + month // 12, month=month % 12 + 1))
        return Period(start, start + timedelta(days=1))
    moment = datetime.fromisoformat(value)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return Period(moment, moment + timedelta(seconds=1))


def meets(value: str, made: Filter) -> bool:
    """Whether a folded `value` of front matter is one that a filter asks for, or, with `!=`, one that it excludes.

    Numbers are compared as numbers, dates as dates, as exactly as the filter writes them; everything else as text.
    """
    wanted, compare = folded(made.value), _COMPARISONS[made.operator]
    if _NUMBER.fullmatch(wanted) and _NUMBER.fullmatch(value):
        return compare(float(value), float(wanted))
    if _DATE.fullmatch(wanted) and _DATE.fullmatch(value):
        wanted = wanted.replace(" ", "t")
        return compare(value.replace(" ", "t")[: len(wanted)], wanted)
    if made.operator not in ("=", "!=") and (_NUMBER.fullmatch(wanted) or _DATE.fullmatch(wanted)):
        return False
    return compare(value, wanted)
