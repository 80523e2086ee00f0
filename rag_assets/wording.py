"""Numbers as a person says them, wherever one is told something."""


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`number` with its noun, such as `1 document` or `1,200 documents`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def have(number: int, noun: str) -> str:
    """What has something: `1 document has`, `1,200 documents have`."""
    return f"{count(number, noun)} {'has' if number == 1 else 'have'}"


def duration(seconds: float) -> str:
    """`seconds` as a person says it."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"
