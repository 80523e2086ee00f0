"""The durability benchmark runs at a small size, its promises hold there, and it would tell if they did not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rag_assets_tests.benchmarks.counting import CountingProvider
from rag_assets_tests.benchmarks.durability.editions import Reader, edition, write
from rag_assets_tests.benchmarks.durability.killing import survive_kills
from rag_assets_tests.benchmarks.durability.outcomes import Outcome, as_markdown, losses
from rag_assets_tests.benchmarks.durability.resuming import SCENARIOS
from rag_assets_tests.benchmarks.durability.windows import platform_at

HOLDS = Outcome("a kill", texts=100, sent=108, allowed=116, lost=0, duplicated=0, looks=9, halves=0)


@pytest.mark.slow
def test_an_ingest_that_is_killed_loses_nothing(tmp_path: Path):
    outcome, stages = survive_kills(tmp_path, kills=1, texts=50, seed=1)
    assert sum(stages.values()) == 1
    assert outcome.looks > 0
    assert outcome.holds, outcome


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_was_embedded_is_not_sent_again(scenario: Callable[..., Outcome], tmp_path: Path):
    outcome = scenario(tmp_path, texts=80)
    assert outcome.sent >= 80
    assert outcome.holds, outcome


def test_a_lost_text_a_foreign_one_and_half_an_index_are_noticed(tmp_path: Path):
    with CountingProvider() as provider:
        platform = platform_at(tmp_path / "platform", provider)
        source = edition(1, documents=2, texts=6)
        write(platform, source)
        platform.ingest()
    assert losses(platform, source) == (0, 0)
    assert losses(platform, {**source, "0002.md": ["One more text."]}) == (1, 0)
    assert losses(platform, {"0000.md": source["0000.md"]}) == (0, 3)
    for allowed, halves in ((source, 0), ({"0000.md": source["0000.md"]}, 1)):
        reader = Reader(platform.store, "notes", [allowed])
        reader.look()
        assert (reader.looks, len(reader.wrong)) == (1, halves)


def test_any_fault_breaks_the_promise():
    assert HOLDS.holds
    assert not replace(HOLDS, sent=117).holds
    assert not replace(HOLDS, lost=1).holds
    assert not replace(HOLDS, duplicated=1).holds
    assert not replace(HOLDS, halves=1).holds


def test_the_table_has_a_row_for_each_scenario():
    assert as_markdown([HOLDS, replace(HOLDS, what="a loss", lost=2, looks=0)]).splitlines() == [
        "| what happened | texts | sent | at most | lost | duplicated | half an index seen | holds  |",
        "| ------------- | ----- | ---- | ------- | ---- | ---------- | ------------------ | ------ |",
        "| a kill        | 100   | 108  | 116     | 0    | 0          | 0 of 9             | yes    |",
        "| a loss        | 100   | 108  | 116     | 2    | 0          | –                  | **no** |",
    ]
