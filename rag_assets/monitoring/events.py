"""What the work did, told as log records with fields that a machine can read. Nobody sees them unless JSON is asked for."""

import logging
from collections.abc import Mapping
from typing import Literal

from rag_assets.monitoring.logs import with_fields
from rag_assets.records import Answer

Event = Literal["stage_finished", "document_set_aside", "index_published", "ingest_finished", "question_answered"]

_log = logging.getLogger(__name__)


def event(name: Event, message: str, fields: Mapping[str, object], *, level: int = logging.INFO) -> None:
    """Tell what happened: `message` for a person, `fields` for a machine; those that are None are left out."""
    known = {key: value for key, value in fields.items() if value is not None}
    _log.log(level, "%s", message, extra=with_fields(event=name, **known))


def tell_answer(answer: Answer) -> None:
    """Tell that a question was answered, or declined; neither what was asked nor what was said."""
    event(
        "question_answered",
        f"{answer.corpus}: a question was {'answered' if answer.answered else 'declined'}",
        {
            "corpus": answer.corpus,
            "run_id": answer.run_id,
            "answered": answer.answered,
            "citations": len(answer.citations),
            "index_version": answer.index_version,
            "seconds": round(answer.timings_ms.get("total", 0.0) / 1000, 3),
            "cost_usd": answer.usage.cost_usd,
        },
    )
