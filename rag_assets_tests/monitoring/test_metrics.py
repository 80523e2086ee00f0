"""Prometheus reads what is printed, written and served; the manual lists what there is."""

import importlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rag_assets.config import CorpusSettings, Settings
from rag_assets.errors import ConfigError
from rag_assets.monitoring.exposition import as_text
from rag_assets.monitoring.metrics import METRICS, Metric, Observation
from rag_assets.monitoring.observing import Observer, observe
from rag_assets.records import Evaluation, Figures
from rag_assets.storing.evaluations import keep_evaluation
from rag_assets.storing.health import CheckResult, Health, keep_health
from rag_assets_tests.platform import REPOSITORY
from rag_assets_tests.workbench import CORPUS, Workbench, make_workbench

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return make_workbench(tmp_path)


def parsed(text: str) -> dict[str, dict[str, float]]:
    """The samples of each metric by their labels beside `corpus`, as the parser of the client library reads them."""
    parser = importlib.import_module("prometheus_client.parser")
    found: dict[str, dict[str, float]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(value for name, value in sample.labels.items() if name != "corpus")
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def metrics_of(bench: Workbench) -> dict[str, dict[str, float]]:
    return parsed(as_text([observe(bench.store, bench.corpus)]))


def health(bench: Workbench) -> Health:
    return Health(
        measured_at=datetime(2026, 11, 30, tzinfo=UTC),
        corpus=CORPUS,
        run_id="run",
        generation="generation",
        figures={"agreement": 0.5},
        checks={
            "nothing_needs_mending": CheckResult(True, "error", "fine"),
            "the_disk_has_room": CheckResult(False, "warning", "full"),
        },
    )


def evaluation(*, held: str | None, mrr: float) -> Evaluation:
    figures: dict[str, Any] = dict.fromkeys(Figures.__dataclass_fields__) | {
        "mrr": mrr,
        "latency_p50_ms": 10.0,
        "latency_p95_ms": 20.0,
        "cost_usd": 0.0,
    }
    return Evaluation(
        evaluated_at=datetime(2026, 11, 29 if held is None else 30, tzinfo=UTC),
        corpus=CORPUS,
        run_id="run",
        index_version=1,
        generation="generation",
        table_version=1,
        embedding_model="model",
        answer_model=None,
        questions="questions.jsonl",
        questions_hash="hash",
        top_k=5,
        answerable=1,
        unanswerable=0,
        figures=Figures(**figures),
        held=held,
    )


def test_the_figures_are_those_of_status(bench: Workbench):
    bench.write("good.md", "one\n\ntwo")
    bench.write("bad.md", PNG)
    bench.ingest()
    bench.write("new.md", "new", seconds_ago=1_000)
    found = metrics_of(bench)
    assert found["rag_assets_up"] == {"": 1}
    assert found["rag_assets_documents"] == {"indexed": 1, "empty": 0, "failed": 1, "pending": 1}
    assert found["rag_assets_documents_by_type"] == {"text/markdown": 2}
    assert found["rag_assets_failed_by_type"] == {"text/markdown": 1}
    assert found["rag_assets_error_ratio"] == {"text/markdown": 0.5}
    assert found["rag_assets_chunks"] == found["rag_assets_vectors"] == {"": 2}
    assert found["rag_assets_published_version"] == found["rag_assets_fragments"] == {"": 1}
    assert 1_000 <= found["rag_assets_waiting_seconds"][""] < 1_100
    assert found["rag_assets_bytes"][""] > 0
    assert found["rag_assets_embedding_spend_usd_total"] == {"": 0}


def test_an_empty_corpus_has_zeros_and_no_version(bench: Workbench):
    found = metrics_of(bench)
    assert found["rag_assets_chunks"] == {"": 0}
    assert not {"rag_assets_published_version", "rag_assets_agreement_ratio", "rag_assets_evaluation"} & set(found)


def test_the_last_measurement_and_the_last_published_evaluation_are_told(bench: Workbench):
    keep_health(bench.store, health(bench))
    keep_evaluation(bench.store, evaluation(held=None, mrr=0.25))
    keep_evaluation(bench.store, evaluation(held="it fell", mrr=0.125))
    found = metrics_of(bench)
    assert found["rag_assets_agreement_ratio"] == {"": 0.5}
    assert found["rag_assets_check_passed"] == {"nothing_needs_mending,error": 1, "the_disk_has_room,warning": 0}
    assert found["rag_assets_measured_timestamp_seconds"] == {"": datetime(2026, 11, 30, tzinfo=UTC).timestamp()}
    assert found["rag_assets_evaluation"] == {"mrr": 0.25, "latency_p50_ms": 10, "latency_p95_ms": 20, "cost_usd": 0}
    assert found["rag_assets_evaluated_timestamp_seconds"] == {"": datetime(2026, 11, 29, tzinfo=UTC).timestamp()}


def test_a_corpus_that_cannot_be_looked_at_is_down_and_a_line_says_why(
    bench: Workbench, caplog: pytest.LogCaptureFixture
):
    bench.write("a.md", "one")
    bench.ingest()
    bench.folder.joinpath("a.md").unlink()
    bench.folder.rmdir()
    assert metrics_of(bench)["rag_assets_up"] == {"": 0}  # the source is gone, the rest is told
    assert metrics_of(bench)["rag_assets_chunks"] == {"": 1}
    for manifest in Path(bench.store.documents(CORPUS).uri, "_versions").iterdir():
        manifest.write_bytes(b"damaged")
    found = metrics_of(bench)
    assert set(found) == {"rag_assets_up", "rag_assets_look_seconds"}
    assert found["rag_assets_up"] == {"": 0}
    assert "notes cannot be looked at: table" in caplog.text


def test_labels_and_meanings_survive_what_they_may_hold():
    odd = Metric(
        "odd", "gauge", 'back\\slash and\nline with "quotes"', lambda _: [({"mime": 'a"b\\c\nd'}, 0.5)], ("mime",)
    )
    text = as_text([Observation("notes", 0.0)], [odd])
    assert parsed(text) == {"odd": {'a"b\\c\nd': 0.5}}
    assert text.count("\n") == 3


def test_the_manual_lists_every_metric_with_its_meaning():
    page = (REPOSITORY / "docs/monitoring.md").read_text(encoding="utf-8")
    rows = [
        tuple(row) for row in re.findall(r"^\| `(rag_assets_\w+)` \| (\w+) \| (.*?) \| (.+) \|$", page, re.MULTILINE)
    ]
    assert rows == [
        (one.name, one.kind, ", ".join(f"`{label}`" for label in one.labels), one.meaning) for one in METRICS
    ]


def test_samples_have_the_labels_that_are_listed(bench: Workbench):
    bench.write("a.md", "one")
    bench.ingest()
    keep_health(bench.store, health(bench))
    keep_evaluation(bench.store, evaluation(held=None, mrr=0.25))
    seen = observe(bench.store, bench.corpus)
    for metric in METRICS:
        samples = list(metric.samples(seen))
        assert samples, metric.name
        assert {tuple(labels) for labels, _ in samples} == {metric.labels}, metric.name


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def settings_of(bench: Workbench, corpora: Mapping[str, CorpusSettings]) -> Settings:
    return Settings(path=bench.folder.parent / "corpora.yaml", home=bench.store.home, corpora=dict(corpora))


@pytest.fixture
def observed(bench: Workbench) -> tuple[Observer, Clock]:
    clock = Clock()
    return Observer(lambda: settings_of(bench, {CORPUS: bench.corpus}), clock=clock), clock


def chunks(observer: Observer) -> float:
    return parsed(observer.metrics())["rag_assets_chunks"][""]


def test_who_asks_often_gets_what_was_seen(bench: Workbench, observed: tuple[Observer, Clock]):
    observer, clock = observed
    bench.configure(scan_seconds=40)
    assert chunks(observer) == 0
    bench.write("a.md", "one")
    bench.ingest()
    clock.seconds = 39
    assert chunks(observer) == 0
    clock.seconds = 40
    assert chunks(observer) == 1


def test_a_corpus_that_is_scanned_often_is_looked_at_every_15_seconds(
    bench: Workbench, observed: tuple[Observer, Clock]
):
    observer, clock = observed
    bench.configure(scan_seconds=1)
    assert chunks(observer) == 0
    bench.write("a.md", "one")
    bench.ingest()
    clock.seconds = 14
    assert chunks(observer) == 0
    clock.seconds = 15
    assert chunks(observer) == 1


def test_a_corpus_with_other_settings_is_looked_at_at_once(bench: Workbench, observed: tuple[Observer, Clock]):
    observer, _ = observed
    assert chunks(observer) == 0
    bench.write("a.md", "one")
    bench.ingest()
    bench.configure(max_attempts=1)
    assert chunks(observer) == 1


def test_a_configuration_that_is_wrong_is_told():
    def load() -> Settings:
        raise ConfigError("corpora.yaml: wrong")

    with pytest.raises(ConfigError, match=r"corpora\.yaml: wrong"):
        Observer(load).metrics()
