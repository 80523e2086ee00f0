"""Front matter as labels, `field=value`: the form in which an index keeps it, so that questions can be limited by it.

Labels are written when a document is indexed and compared when a question is asked; both sides fold case and white space
here.
"""

import unicodedata
from collections.abc import Iterator, Mapping

# A label is repeated in every row of its document: front matter is for looking things up, not for their text.
_MAX_VALUE = 200
_MAX_CHARACTERS = 8_000
_OPERATORS = frozenset("=<>!")


def labels_of(metadata: Mapping[str, object]) -> list[str]:
    """The labels of a document, each once. Nested fields are joined by dots, and each element of a list is a label.

    Fields without a value, or whose name holds an operator, have none; nor has what comes after 8,000 characters.
    """
    labels: dict[str, None] = {}
    room = _MAX_CHARACTERS
    for field, value in _leaves("", metadata):
        label = f"{folded(field)}={folded(value)}"
        if label in labels or not folded(field) or not folded(value) or _OPERATORS & set(field):
            continue
        room -= len(label)
        if room < 0:
            break
        labels[label] = None
    return list(labels)


def split_label(label: str) -> tuple[str, str]:
    """The field and the value of a label."""
    field, _, value = label.partition("=")
    return field, value


def folded(text: str) -> str:
    """`text` as it is compared: without regard to case and white space, and no more than its first 200 characters."""
    composed = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return " ".join(composed.split())[:_MAX_VALUE].rstrip()


def _leaves(field: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case None:
            return
        case bool():
            yield field, str(value).lower()
        case Mapping():
            for name, each in value.items():
                yield from _leaves(f"{field}.{name}" if field else str(name), each)
        case list() | tuple():
            for each in value:
                yield from _leaves(field, each)
        case _:
            yield field, str(value)
