"""Every benchmark runs. What it finds is for `make bench`: no test looks at a time."""

import json
from pathlib import Path

import pytest

from rag_assets_tests.benchmarks import CLUSTERS, LARGE, NAMES, QUALITY, RACES, run_benchmark
from rag_assets_tests.benchmarks.reports import Baseline, Figure, Goal, Report, as_json, as_markdown, as_text


@pytest.mark.parametrize("name", [*NAMES, *QUALITY, *RACES, *LARGE, *CLUSTERS])
def test_benchmark_runs_at_a_tiny_size(name: str, tmp_path: Path) -> None:
    report = run_benchmark(name, "tiny", tmp_path)

    assert report.name == name
    assert report.figures
    # What counts texts is no timing: an edit embeds the chunks that changed, and no others.
    assert [figure.ratio for figure in report.figures if figure.unit == "texts"] == ([1] if name == "one_edit" else [])


REPORT = Report(
    name="reading",
    title="Reading a page",
    figures=[
        Figure("one page", 12.34, "ms", Baseline("opening it", 2.0), Goal("at most", 15)),
        Figure("pages at once", 1234.5, "pages", goal=Goal("at least", 2000)),
        Figure("words", 7, "words"),
    ],
    notes=["Median of 3."],
)


def test_a_report_is_a_table_with_ratios_and_verdicts() -> None:
    assert as_markdown(REPORT).splitlines() == [
        "### Reading a page",
        "",
        "| what          | figure      | baseline in the same run | ratio | goal                | met |",
        "| ------------- | ----------- | ------------------------ | ----- | ------------------- | --- |",
        "| one page      | 12.3 ms     | 2 ms, opening it         | 6.17  | at most 15 ms       | yes |",
        "| pages at once | 1,234 pages | –                        | –     | at least 2000 pages | no  |",
        "| words         | 7 words     | –                        | –     | –                   | –   |",
        "",
        "* Median of 3.",
    ]
    assert as_text(REPORT).splitlines()[:4:3] == [
        "reading: Reading a page",
        "  one page        12.3 ms       2 ms, opening it           6.17    at most 15 ms         yes",
    ]


def test_a_skipped_benchmark_says_why() -> None:
    report = Report("reading", "Reading a page", skipped="there is no page")

    assert as_text(report).splitlines() == ["reading: Reading a page", "Skipped: there is no page."]


def test_a_report_as_json_holds_ratios_and_verdicts() -> None:
    figures = json.loads(json.dumps(as_json(REPORT)))["figures"]

    assert [(figure["ratio"], figure["met"]) for figure in figures] == [(6.17, True), (None, False), (None, None)]
