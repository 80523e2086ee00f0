"""The YAML block at the start of a Markdown file, taken off the text and made plain data.

What is no valid block stays text: a document is not lost for a colon in its front matter.
"""

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

_BLOCK = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_MAX_CHARACTERS = 64_000
_MAX_DEPTH = 30
_UNFIT = re.compile("[\0\ufeff\ud800-\udfff]")


@dataclass(frozen=True)
class FrontMatter:
    """`text` is what follows the block, and begins at `first_line` of the source."""

    text: str
    first_line: int = 1
    metadata: Mapping[str, object] = field(default_factory=dict)


def split_front_matter(text: str) -> FrontMatter:
    """Split `text` into its front matter and the rest. `metadata` can be written as JSON; dates are ISO 8601 strings.

    A block with an alias, more than 64,000 characters or 30 levels is left in the text, as is one that is no mapping.
    """
    found = _BLOCK.match(text, 0, _MAX_CHARACTERS)
    if not found:
        return FrontMatter(text)
    try:
        _refuse_bombs(found[1])
        metadata = yaml.load(found[1], _Loader)  # noqa: S506 - it is a SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        # PyYAML raises all of these for values that it cannot construct, such as `!!bool maybe`.
        return FrontMatter(text)
    if metadata is not None and not isinstance(metadata, dict):
        return FrontMatter(text)
    plain = {_clean(str(key)): _plain(value) for key, value in (metadata or {}).items()}
    return FrontMatter(text[found.end() :], 1 + found[0].count("\n"), plain)


class _Loader(yaml.SafeLoader):
    """Takes a date that there is not, such as the 30th of February, for text: the rest of the block is worth keeping."""


def _date_or_text(loader: _Loader, node: yaml.ScalarNode) -> object:
    try:
        return loader.construct_yaml_timestamp(node)
    except ValueError:
        return node.value


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _date_or_text)


def _refuse_bombs(block: str) -> None:
    depth = 0
    for event in yaml.parse(block, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("an alias can stand for more than fits in memory")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise yaml.YAMLError(f"nested deeper than {_MAX_DEPTH} levels")


def _plain(value: object) -> object:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime.date():
            return value.isoformat()
        case Mapping():
            return {_clean(str(key)): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case set():
            return sorted(str(_plain(each)) for each in value)
        case bytes():
            return value.decode(errors="replace")
        case _:
            return _clean(str(value))


def _clean(text: str) -> str:
    return _UNFIT.sub("", text)
