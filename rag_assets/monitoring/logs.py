"""Log lines: plain for a person, or with `RAG_ASSETS_LOG=json` an object a line, for a machine.

The command line and the code location set this up; whoever imports the package as a library keeps their own logging.
"""

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, get_args

from rag_assets.errors import ConfigError

VARIABLE = "RAG_ASSETS_LOG"
Style = Literal["text", "json"]

_FIELDS = "fields"
_package = logging.getLogger("rag_assets")
_events = logging.getLogger("rag_assets.monitoring.events")
_events.setLevel(logging.CRITICAL)  # nobody reads them yet


def style() -> Style:
    """What `RAG_ASSETS_LOG` asks for. Raises `ConfigError` for anything else than `text` or `json`."""
    asked = os.environ.get(VARIABLE) or "text"
    for one in get_args(Style):
        if asked == one:
            return one  # type: ignore[no-any-return]
    raise ConfigError(f"{VARIABLE} is {asked!r}; allowed: {', '.join(get_args(Style))}")


def log_to(stream: TextIO, wanted: Style) -> None:
    """Write what the package logs to `stream`: all of it, events included, as JSON, or warnings as text. A second call
    takes the place of the first."""
    for handler in [one for one in _package.handlers if isinstance(one, _Handler)]:
        _package.removeHandler(handler)
    handler = _Handler(stream)
    handler.setFormatter(JsonFormatter() if wanted == "json" else logging.Formatter("rag-assets: %(message)s"))
    handler.setLevel(logging.INFO if wanted == "json" else logging.WARNING)
    _package.addHandler(handler)
    _package.setLevel(logging.INFO if wanted == "json" else logging.NOTSET)
    _events.setLevel(logging.INFO if wanted == "json" else logging.CRITICAL)


def writes_json() -> bool:
    """Whether JSON was asked for, last."""
    return any(isinstance(one, _Handler) and isinstance(one.formatter, JsonFormatter) for one in _package.handlers)


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that it can be told from those of others."""


class JsonFormatter(logging.Formatter):
    """A record as one JSON object in one line: `time` (RFC 3339, UTC), `level`, `logger`, `message`, then its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """See the class."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def with_fields(**fields: object) -> dict[str, dict[str, object]]:
    """The `extra` of a record: what a machine reads beside its message."""
    return {_FIELDS: fields}
