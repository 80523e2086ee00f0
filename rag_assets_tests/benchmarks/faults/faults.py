"""What a fault is, and what came of one."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta

from rag_assets.health.checks import Finding
from rag_assets_tests.benchmarks.faults.scratch import Scratch

_HEADER = ("what was broken", "what saw it", "after", "what mended it")


@dataclass(frozen=True)
class Fault:
    """One way to break a platform. `seen_by` is the check that must see it, `remedy` says what `mend` does.

    `later` is how long after it was broken it can be seen; `meanwhile` is in force while it is broken and looked at.
    """

    name: str
    seen_by: str
    remedy: str
    breaks: Callable[[Scratch], object]
    mend: Callable[[Scratch], object]
    later: timedelta = timedelta(0)
    meanwhile: Callable[[Scratch], AbstractContextManager[object]] = lambda _: nullcontext()


@dataclass(frozen=True)
class Outcome:
    """What came of `fault`: the checks that saw it, how many seconds the one that had to needed, and what was still red
    once it was mended."""

    fault: Fault
    seen: Sequence[str]
    seconds: float
    left: Sequence[str]

    @property
    def holds(self) -> bool:
        """Whether the fault was seen by whom it should be, and mended."""
        return self.fault.seen_by in self.seen and not self.left


def red(found: Sequence[Finding]) -> list[str]:
    """The names of the checks that did not pass."""
    return [one.check.name for one in found if not one.verdict.passed]


def undergo(fault: Fault, scratch: Scratch) -> Outcome:
    """Break `scratch`, look, mend it, and look again."""
    with fault.meanwhile(scratch):
        fault.breaks(scratch)
        found = scratch.look(later=fault.later)
        (alone,) = scratch.look(only=fault.seen_by, later=fault.later)
    fault.mend(scratch)
    return Outcome(fault, red(found), alone.seconds, red(scratch.look()))


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """One row a fault, without padding: the page is read by machines as well."""
    rows = [_HEADER, ["---"] * len(_HEADER), *map(_cells, outcomes)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _cells(one: Outcome) -> tuple[str, ...]:
    others = len(one.seen) - 1
    seen = f"`{one.fault.seen_by}`" if one.fault.seen_by in one.seen else "**nothing**"
    also = f" and {others} more" if others > 0 else ""
    mended = f"**not** {one.fault.remedy}" if one.left else one.fault.remedy
    return one.fault.name, seen + also, f"{1000 * one.seconds:,.0f} ms", mended
