"""What a person reads in `rag-assets status`."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rag_assets.config import HashingEmbedding
from rag_assets.dashboard import Runs, show_status, status_as_json
from rag_assets.run_history import RunSummary
from rag_assets.status import status_of
from rag_assets.storing.health import CheckResult, Health, keep_health
from rag_assets.storing.publishing import rollback
from rag_assets.storing.spending import Spend, SpendLedger
from rag_assets_tests.platform import REPOSITORY, Platform
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return make_workbench(tmp_path)


@pytest.fixture
def printed(bench: Workbench, capsys: pytest.CaptureFixture[str]) -> "Printed":
    return Printed(bench, capsys)


class Printed:
    def __init__(self, bench: Workbench, capsys: pytest.CaptureFixture[str]) -> None:
        self.bench = bench
        self.capsys = capsys

    def __call__(self, runs: Runs | None = None, *, documents: bool = False) -> str:
        self.capsys.readouterr()
        show_status([status_of(self.bench.store, self.bench.corpus)], runs or {}, documents=documents)
        return self.capsys.readouterr().out

    def row(self, label: str, runs: Runs | None = None) -> str:
        found = re.search(rf"^  {label} +(.+)$", self(runs), re.MULTILINE)
        assert found is not None
        return found[1]


def test_an_empty_corpus_says_what_to_do(printed: Printed):
    assert printed().splitlines() == [
        "notes",
        "  documents   0 indexed, 0 empty, 0 failed, 0 pending",
        "  published   never; run: rag-assets ingest notes",
        "  lag         nothing waits, and nothing changed in the last day",
        "  index       0 fragments, 0 rows outside its full-text index, 0.0 MiB on disk",
        "  vectors     0 kept",
        "  spent       $0.0000 on 0 tokens, $0.0000 this month",
    ]


def test_the_table_fits_a_hundred_columns_without_a_terminal_and_has_no_colours(bench: Workbench, printed: Printed):
    for number in range(3):
        bench.write(f"{number}.md", f"text of {number}")
    bench.ingest()
    keep_health(bench.store, measured(*"abcdefgh"))
    with SpendLedger(bench.store, corpus=CORPUS, run_id="run", model="m") as ledger:
        ledger.add(Spend(1, 1, 123_456_789, 1_234.5))
    lines = printed({CORPUS: runs(5)}).splitlines()
    assert max(map(len, lines)) <= 100
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)
    assert len([line for line in lines if "ingest succeeded" in line]) == 3


def measured(*failed: str) -> Health:
    checks = {
        f"{name}_is_a_sentence_of_some_length": CheckResult(passed=False, severity="error", summary="mend it so")
        for name in failed
    }
    checks["fine"] = CheckResult(passed=True, severity="error", summary="mend it so")
    return Health(datetime.now(UTC), CORPUS, "run", "generation", {}, checks)


def runs(count: int) -> list[RunSummary]:
    moment = datetime(2026, 11, 30, 1, 2, tzinfo=UTC)
    return [RunSummary("f" * 36, "ingest", "succeeded", moment, 12_345.6, None) for _ in range(count)]


def test_the_last_measurement_is_told(bench: Workbench, printed: Printed):
    keep_health(bench.store, measured())
    assert printed.row("health").startswith("all checks passed, ")
    keep_health(bench.store, measured("a"))
    assert printed.row("health").startswith("1 of 2 checks failed, ")
    assert "notes: a_is_a_sentence_of_some_length failed: mend it so" in printed()


def test_a_run_is_told_with_how_it_ended(printed: Printed):
    moment = datetime(2026, 11, 30, 1, 2, tzinfo=UTC)
    failed = RunSummary("abcdefghijkl", "reindex", "failed", moment, 2.25, "bad key")
    assert printed.row("runs", {CORPUS: [failed]}) == "2026-11-30 01:02 UTC  abcdefgh  reindex failed in 2.2 s"
    assert "notes: run abcdefgh failed: bad key\n" in printed({CORPUS: [failed]})
    later = replace(failed, outcome="succeeded", reason=None)
    assert "bad key" not in printed({CORPUS: [later, failed]})
    under_way = replace(failed, outcome="under way", seconds=None)
    assert printed.row("runs", {CORPUS: [under_way]}) == "2026-11-30 01:02 UTC  abcdefgh  reindex under way"


def test_ten_documents_that_are_set_aside_are_told_and_all_on_request(bench: Workbench, printed: Printed):
    for number in range(12):
        bench.write(f"{number:02}.md", PNG)
    bench.ingest()
    some = printed()
    assert some.count("is set aside (read): its content is a PNG image") == 10
    assert some.endswith("2 more documents set aside: rag-assets status notes --documents\n")
    assert printed(documents=True).count("is set aside") == 12


def test_a_rollback_is_told_with_the_age_of_what_is_not_searchable(bench: Workbench, printed: Printed):
    """`lag none` was told after a rollback, though readers could not find what came since."""
    bench.write("a.md", "one", seconds_ago=5_000)
    bench.ingest()
    bench.write("b.md", "two", seconds_ago=3_000)
    bench.ingest()
    assert status_of(bench.store, bench.corpus).lag_seconds == 0.0
    rollback(bench.store, CORPUS, 1)
    assert 3_000 <= status_of(bench.store, bench.corpus).lag_seconds < 3_100
    assert printed.row("lag") == "50 min since the oldest change that is not searchable"
    assert "a person rolled back to version 1; to go on: rag-assets ingest notes" in printed()
    bench.publish()
    assert status_of(bench.store, bench.corpus).lag_seconds == 0.0


def test_what_a_run_indexed_and_did_not_publish_is_not_searchable(bench: Workbench):
    bench.write("a.md", "one", seconds_ago=5_000)
    bench.update()
    assert 5_000 <= status_of(bench.store, bench.corpus).lag_seconds < 5_100
    bench.publish()
    assert status_of(bench.store, bench.corpus).lag_seconds == 0.0


def test_how_far_a_new_generation_is_stands_below(bench: Workbench, printed: Printed):
    for name in ("a.md", "b.md"):
        bench.write(name, f"text of {name}")
    bench.ingest()
    bench.configure(embedding=HashingEmbedding(provider="hashing", dimensions=32))
    bench.materialize("a.md")
    assert "a new generation is being built, 50.0% of the documents are in it" in printed()


def test_what_was_spent_is_told_in_all_this_month_and_in_the_last_run(bench: Workbench, printed: Printed):
    for run, cost in (("first", 0.5), ("last", 0.25), ("last", 0.25)):
        with SpendLedger(bench.store, corpus=CORPUS, run_id=run, model="m") as ledger:
            ledger.add(Spend(requests=1, texts=2, tokens=100, cost_usd=cost))
    assert printed.row("spent") == "$1.0000 on 300 tokens, $1.0000 this month, $0.5000 in the last run"
    found = status_of(bench.store, bench.corpus)
    assert found.last_spent == ("last", Spend(2, 4, 200, 0.5))


def test_the_lag_of_the_last_day_is_told(bench: Workbench, printed: Printed):
    bench.write("a.md", "one")
    bench.ingest()
    assert printed.row("lag") == "nothing waits, and nothing changed in the last day"
    path = bench.write("b.md", "two", seconds_ago=0)
    bench.ingest()
    found = status_of(bench.store, bench.corpus)
    assert 0 < found.lag.p50_seconds <= found.lag.worst_seconds < 60
    assert path.exists()
    assert re.fullmatch(
        r"nothing waits; 1 change of the last day took \d+ s \(half\), \d+ s \(95 %\), \d+ s \(worst\)",
        printed.row("lag"),
    )


def test_json_has_the_fields_that_the_manual_names(bench: Workbench):
    bench.write("a.md", "one")
    bench.ingest()
    keep_health(bench.store, measured("a"))
    report = status_as_json(status_of(bench.store, bench.corpus), runs(1), documents=True)
    page = (REPOSITORY / "docs/command-line.md").read_text(encoding="utf-8")
    section = page.split("## rag-assets status")[1].split("\n## ")[0]
    fields = section.split("The fields of `--json` are")[1].split("\n\n")[0]
    nested = {"indexed", "empty", "failed", "pending", "measured_at", "checks"}
    nested |= {"run_id", "job", "outcome", "created_at", "seconds", "reason"}
    assert set(re.findall(r"`(\w+)`", fields)) - nested | {"failed"} == {"corpus", *report}
    assert set(report["health"]["failed"]) == {"a_is_a_sentence_of_some_length"}
    assert report["runs"][0]["created_at"] == "2026-11-30T01:02:00+00:00"


@pytest.mark.parametrize("command", ["ingest", "ingest --dry-run"])
def test_the_json_of_an_ingest_has_the_fields_that_the_manual_names(platform: Platform, command: str):
    platform.write("a.md", "one")
    report = platform.run(*command.split(), "--json").json
    page = (REPOSITORY / "docs/command-line.md").read_text(encoding="utf-8")
    section = page.split("## rag-assets ingest")[1].split("\n## ")[0]
    fields = section.split("The fields of `--json` are")[1].split(";")[0]
    more = {"dry_run", "over_budget"} if "--dry-run" in command else set()
    assert set(re.findall(r"`(\w+)`", fields)) - {"document", "stage", "reason"} | more == set(report)


def test_ages_are_told_as_a_person_says_them(bench: Workbench, printed: Printed):
    bench.write("a.md", "one")
    bench.ingest()
    assert re.fullmatch(r"version 1, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, \d+ s ago", printed.row("published"))
    late = replace(status_of(bench.store, bench.corpus), published_at=datetime.now(UTC) - timedelta(hours=5))
    show_status([late], {}, documents=False)
    assert "5 h ago" in printed.capsys.readouterr().out
