"""Some faults are really done, and the table of the manual lists those that the code knows."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rag_assets.health.checks import CHECKS
from rag_assets_tests.benchmarks.faults.catalogue import FAULTS
from rag_assets_tests.benchmarks.faults.faults import Fault, Outcome, as_markdown, undergo
from rag_assets_tests.benchmarks.faults.scratch import Scratch, copy, prepare
from rag_assets_tests.fakes import FakeOpenAI

PAGE = Path(__file__).resolve().parent.parent / "docs" / "health.md"
SOME = (
    "one row of a document deleted, and readers see it",
    "rows of a document that nobody knows",
    "a data file of the index truncated",
    "a rollback that was forgotten",
    "a run whose process was killed",
    "another model behind the same name",
)
ONE = Outcome(FAULTS[0], (FAULTS[0].seen_by, "nothing_needs_mending"), 0.012, ())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with FakeOpenAI() as fake:
        yield prepare(tmp_path_factory.mktemp("whole") / "platform", fake)


def named(name: str) -> Fault:
    return next(fault for fault in FAULTS if fault.name == name)


def test_nothing_is_wrong_before(whole: Scratch):
    assert [one.check.name for one in whole.look() if not one.verdict.passed] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_a_fault_is_seen_and_mended(whole: Scratch, tmp_path: Path, name: str):
    outcome = undergo(named(name), copy(whole, tmp_path / "platform"))
    assert outcome.holds, outcome


def test_a_fault_that_is_not_seen_or_not_mended_is_told():
    assert ONE.holds
    assert not replace(ONE, seen=("every_run_moves",)).holds
    assert not replace(ONE, left=("every_run_moves",)).holds
    table = as_markdown([ONE, replace(ONE, seen=()), replace(ONE, left=("every_run_moves",))])
    assert table.splitlines()[2:] == [
        f"| {FAULTS[0].name} | `nothing_needs_mending` and 1 more | 12 ms | `doctor --fix` |",
        f"| {FAULTS[0].name} | **nothing** | 12 ms | `doctor --fix` |",
        f"| {FAULTS[0].name} | `nothing_needs_mending` and 1 more | 12 ms | **not** `doctor --fix` |",
    ]


def test_every_fault_is_seen_by_a_check_that_exists():
    assert len(FAULTS) >= 20
    assert {fault.seen_by for fault in FAULTS} <= {one.name for one in CHECKS}


def test_the_manual_lists_exactly_these_faults():
    text = PAGE.read_text(encoding="utf-8")
    table = text.partition("<!-- faults:begin")[2].partition("<!-- faults:end -->")[0]
    rows = re.findall(r"^\| (.+?) \| `(\w+)`.* \| [\d,]+ ms \| (.+) \|$", table, re.MULTILINE)
    assert rows == [(fault.name, fault.seen_by, fault.remedy) for fault in FAULTS]
