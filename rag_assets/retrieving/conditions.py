"""Filters as SQL on the columns of an index, so that Lance applies them before anything is ranked.

Front matter is there as labels, `field=value`. Which labels meet a filter is found out here, among those that the index
has; Lance looks for rows that have one of them.
"""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from rag_assets.errors import QuestionError
from rag_assets.globs import translate
from rag_assets.labels import split_label
from rag_assets.retrieving.filters import BUILT_IN, FRONT_MATTER, Filter, meets, period_of
from rag_assets.storing.tables import sql_literal

if TYPE_CHECKING:
    import lance

NOT_ONE_CONDITION = (
    "is not one SQL condition: outside its quotes it may hold no semicolon, comment or $, and parentheses and quotes pair"
    " up; write one such as: document LIKE 'guide/%'"
)
_SEPARATOR = "\x1f"
_NOT_A_SLASH = re.compile(r"\(\?!/\)(\[(?:\\.|[^\]\\])*\])")


class UnknownFieldError(QuestionError):
    """No document has the field of a filter."""


def is_one_condition(where: str) -> bool:
    """Whether `where`, put into parentheses, stays in them: outside its quotes there is no semicolon, comment or `$`, and
    parentheses pair up. Lance itself would read `a) OR (b` as far as it understands it."""
    bare = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`", "", where)
    if re.search(r"[;$'\"`]|--|/\*", bare):
        return False
    depth = 0
    for character in bare:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def condition_of(
    dataset: "lance.LanceDataset",
    corpus: str,
    *,
    where: str | None,
    filters: Sequence[Filter],
    defaults: Sequence[Filter],
) -> str | None:
    """One SQL condition for all of them, None where there is nothing to check. A default gives way to the filters of the
    question on the same field.

    Raises `UnknownFieldError` where no document has a field, unless it is a default that every document meets then.
    """
    asked = {made.field for made in filters}
    defaults = [made for made in defaults if made.field not in asked]
    named = [made for made in (*filters, *defaults) if _is_front_matter(made)]
    values = _values(dataset, corpus) if named else {}
    for made in named:
        if made in filters or made.operator != "!=":
            _refuse_unknown(made, corpus, values)
    conditions = [_sql(dataset, corpus, made, values) for made in (*filters, *defaults)]
    parts = [part for part in (where, *conditions) if part is not None]
    return " AND ".join(f"({part})" for part in parts) if len(parts) > 1 else parts[0] if parts else None


def _values(dataset: "lance.LanceDataset", corpus: str) -> dict[str, list[str]]:
    """The values of every field of front matter. The rows of a document have the same, so its first row is enough."""
    _refuse_older(dataset, corpus, "metadata")
    labels: set[str] = set()
    for batch in dataset.to_batches(columns=["metadata"], filter="ordinal = 0"):
        labels.update(pc.unique(pc.list_flatten(batch["metadata"])).to_pylist())
    values: dict[str, list[str]] = {}
    for label in sorted(labels):
        field, value = split_label(label)
        values.setdefault(field, []).append(value)
    return values


def _refuse_older(dataset: "lance.LanceDataset", corpus: str, column: str) -> None:
    if column not in dataset.schema.names:
        raise QuestionError(
            f"the published index of corpus {corpus} was made by an earlier version and has no {column}; run: rag-assets"
            f" ingest {corpus}"
        )


def _is_front_matter(made: Filter) -> bool:
    return made.field not in BUILT_IN


def _field_of(made: Filter, fields: Collection[str]) -> str | None:
    """What a filter calls a field, among those there are: the name itself, or of a list in the singular."""
    name = made.field.removeprefix(FRONT_MATTER)
    return next((field for field in (name, f"{name}s") if field in fields), None)


def _refuse_unknown(made: Filter, corpus: str, fields: Collection[str]) -> None:
    if _field_of(made, fields) is not None:
        return
    name = made.field.removeprefix(FRONT_MATTER)
    close = difflib.get_close_matches(name, [*fields, *BUILT_IN], n=1)
    hint = f"did you mean {close[0]!r}? Front matter has" if close else "front matter has"
    raise UnknownFieldError(
        f"the filter {made.text!r} cannot be applied: no document of corpus {corpus} has the field {name!r}; {hint}:"
        f" {', '.join(sorted(fields)) or 'no field'}; every document has: {', '.join(BUILT_IN)}"
    )


def _sql(dataset: "lance.LanceDataset", corpus: str, made: Filter, values: Mapping[str, Sequence[str]]) -> str | None:
    """A filter as SQL, None where every row meets it."""
    if _is_front_matter(made):
        return _label_sql(made, values)
    if made.field == "modified":
        _refuse_older(dataset, corpus, "modified")
        condition = _period_sql(made)
    else:
        condition = _text_sql(made)
    return f"NOT coalesce({condition}, false)" if made.operator == "!=" else condition


def _label_sql(made: Filter, values: Mapping[str, Sequence[str]]) -> str | None:
    field = _field_of(made, values)
    met = [f"{field}={value}" for value in values[field] if meets(value, made)] if field is not None else []
    has_one = f"array_has_any(metadata, [{', '.join(map(sql_literal, met))}])" if met else "false"
    if made.operator != "!=":
        return has_one
    return f"NOT {has_one}" if met else None


def _period_sql(made: Filter) -> str:
    period = period_of(made)
    start, end = (f"timestamp {sql_literal(_spelled(moment))}" for moment in (period.start, period.end))
    match made.operator:
        case ">=":
            return f"modified >= {start}"
        case ">":
            return f"modified >= {end}"
        case "<":
            return f"modified < {start}"
        case "<=":
            return f"modified < {end}"
        case _:
            return f"modified >= {start} AND modified < {end}"


def _spelled(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="microseconds")


def _text_sql(made: Filter) -> str:
    match made.field:
        case "document":
            return f"document = {sql_literal(made.value)}"
        case "path":
            glob = f"{made.value}**" if made.value.endswith("/") else made.value
            return f"regexp_like(document, {sql_literal(_pattern(glob))})"
        case "mime":
            return f"regexp_like(mime, {sql_literal(_pattern(made.value))})"
        case "heading":
            return _heading_sql(made.value)
        case _:
            return f"lower(title) = lower({sql_literal(made.value)})"


def _heading_sql(heading: str) -> str:
    """Chunks below a heading, and those in which it stands: sections that are short share a chunk."""
    separator = sql_literal(_SEPARATOR)
    above = f"string_to_array(lower(array_to_string(heading_path, {separator})), {separator})"
    title = r"[ \t]+".join(map(re.escape, heading.split()))
    line = rf"(?im)^ {{0,3}}(?:#{{1,6}}[ \t]+{title}[ \t]*#*|{title}[ \t]*\n(?:={{3,}}|-{{3,}}|~{{3,}}))[ \t]*$"
    return f"array_has({above}, lower({sql_literal(heading)})) OR regexp_like(text, {sql_literal(line)})"


def _pattern(glob: str) -> str:
    """A glob as the regular expressions of Lance know it: no look-ahead, and another name for the end."""
    spelled = _NOT_A_SLASH.sub(r"[\1&&[^/]]", translate(glob)).removesuffix(r"\Z")
    return rf"(?i)\A{spelled}\z"
