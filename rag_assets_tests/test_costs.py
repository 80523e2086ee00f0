"""What embeddings cost is told before anything is paid, while it is paid, and after."""

import json
import os
from typing import Any
from unittest import mock

import dagster as dg
import pytest
import yaml

from rag_assets.config import load_settings
from rag_assets.defs.code_location import build_definitions
from rag_assets.defs.estimating import estimate_job_name
from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import Platform

PRICE = 1000.0


@pytest.fixture
def priced(platform: Platform, fake: FakeOpenAI) -> Platform:
    """A corpus whose model costs a tenth of a cent a token, three paragraphs in two documents."""
    set_price(platform, fake, PRICE)
    platform.write("a.md", "The Grimsel is closed.\n\nThe Furka is high.\n")
    platform.write("b.md", "The Furka is high.\n\nBoats are for hire.\n")
    return platform


def set_price(platform: Platform, fake: FakeOpenAI, price: float) -> None:
    embedding = {"provider": "openai", "base_url": fake.base_url, "model": "fake", "usd_per_million_tokens": price}
    platform.configure(embedding=embedding)


def latest_metadata(platform: Platform, asset: str) -> dict[str, Any]:
    with mock.patch.dict(os.environ, platform.environment), dg.DagsterInstance.get() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(["notes", asset]))
        assert event
        assert event.asset_materialization
        return {label: value.value for label, value in event.asset_materialization.metadata.items()}


def test_a_dry_run_tells_the_price_and_pays_nothing(priced: Platform, fake: FakeOpenAI):
    expected = priced.run("ingest", "--dry-run", "--json").json
    assert fake.requests == []
    assert (expected["texts_embedded"], expected["texts_reused"]) == (3, 0)
    assert expected["cost_usd"] == pytest.approx(expected["tokens"] * PRICE / 1e6)
    assert expected["over_budget"] is False
    paid = priced.ingest()
    assert paid["texts_embedded"] == 3
    assert 0 < paid["cost_usd"] <= expected["cost_usd"]
    assert priced.run("ingest", "--dry-run", "--json").json["cost_usd"] == 0


def test_a_dry_run_says_what_cannot_be_read(priced: Platform):
    priced.write("c.md", b"\x89PNG\r\n\x1a\n" + bytes(100))
    outcome = priced.run("ingest", "--dry-run", "--json")
    assert outcome.status == 2
    assert [failed["document"] for failed in outcome.json["failed"]] == ["c.md"]


def test_a_dry_run_prints_the_price(priced: Platform):
    printed = priced.run("ingest", "--dry-run").out
    assert "3 texts would be embedded" in printed
    assert ", $0.0" in printed


class TestBudget:
    def test_a_run_over_it_sends_nothing_and_says_what_it_would_cost(self, priced: Platform, fake: FakeOpenAI):
        priced.configure(max_cost_per_run=0.001)
        assert priced.run("ingest", "--dry-run", "--json").json["over_budget"] is True
        outcome = priced.run("ingest")
        assert outcome.status == 1
        assert "would send 3 texts" in outcome.err
        assert "max_cost_per_run is $0.0010; nothing was sent" in outcome.err
        assert fake.requests == []

    def test_what_was_not_sent_is_sent_once_it_is_raised(self, priced: Platform):
        priced.configure(max_cost_per_run=0.001)
        priced.run("ingest")
        priced.configure(max_cost_per_run=10)
        assert priced.ingest()["texts_embedded"] == 3
        assert len(priced.rows()) == 4

    def test_a_free_model_knows_no_budget(self, priced: Platform, fake: FakeOpenAI):
        priced.configure(max_cost_per_run=0)
        set_price(priced, fake, 0)
        assert priced.ingest()["texts_embedded"] == 3


class TestPrices:
    def configured(self, platform: Platform, fake: FakeOpenAI, prices: object, **embedding: Any) -> Platform:
        path = platform.root / "corpora.yaml"
        content = yaml.safe_load(path.read_text())
        content["corpora"]["notes"]["embedding"] = {
            "provider": "openai",
            "base_url": fake.base_url,
            "model": "house-model",
            **embedding,
        }
        path.write_text(yaml.safe_dump({**content, "prices": prices}))
        platform.write("a.md", "The Grimsel is closed.\n")
        return platform

    def test_a_table_of_ones_own_is_used(self, platform: Platform, fake: FakeOpenAI):
        self.configured(platform, fake, {"embedding": {"house-model": PRICE}})
        report = platform.ingest()
        assert report["cost_usd"] == pytest.approx(report["tokens"] * PRICE / 1e6)

    def test_what_the_corpus_says_comes_before_the_table(self, platform: Platform, fake: FakeOpenAI):
        self.configured(platform, fake, {"embedding": {"house-model": PRICE}}, usd_per_million_tokens=0)
        assert platform.ingest()["cost_usd"] == 0

    def test_chat_models_have_two(self, platform: Platform, fake: FakeOpenAI):
        self.configured(platform, fake, {"generation": {"house-chat": {"input": 1000, "output": 2000}}})
        platform.configure(generation={"provider": "openai", "base_url": fake.base_url, "model": "house-chat"})
        text = yaml.safe_load((platform.root / "corpora.yaml").read_text())
        (platform.root / "corpora.yaml").write_text(
            yaml.safe_dump({**text, "prices": {"generation": {"house-chat": {"input": 1000, "output": 2000}}}})
        )
        platform.ingest()
        usage = platform.ask("When is the Grimsel closed?")["usage"]
        assert usage["cost_usd"] == pytest.approx((usage["prompt_tokens"] + 2 * usage["completion_tokens"]) / 1000)

    @pytest.mark.parametrize(
        ("prices", "said"),
        [
            ({"embedding": {"m": -1}}, "prices.embedding.m: -1 is not allowed"),
            ({"generation": {"m": 1}}, "prices.generation.m: 1 is not allowed"),
            ({"generation": {"m": {"input": 1}}}, "prices.generation.m.output: is required"),
            ({"embeddings": {}}, "prices.embeddings: unknown key"),
            ([], "prices: [] is not a mapping"),
        ],
    )
    def test_a_wrong_table_is_told(self, platform: Platform, fake: FakeOpenAI, prices: object, said: str):
        self.configured(platform, fake, prices)
        outcome = platform.run("ingest")
        assert outcome.status == 1
        assert said in outcome.err


def test_what_was_spent_is_kept_by_run_and_in_all(priced: Platform, fake: FakeOpenAI):
    first = priced.ingest()
    metadata = latest_metadata(priced, "published_index")
    assert metadata["cost_usd"] == metadata["total_cost_usd"] == pytest.approx(first["cost_usd"])
    priced.write("c.md", "Bread is baked in the morning.\n")
    second = priced.ingest()
    metadata = latest_metadata(priced, "published_index")
    assert metadata["tokens"] == second["tokens"] > 0
    assert metadata["total_tokens"] == first["tokens"] + second["tokens"]
    status = priced.run("status", "--json").json
    assert status["cost_usd"] == pytest.approx(first["cost_usd"] + second["cost_usd"], abs=1e-6)
    assert "spent" in priced.run("status").out


def test_what_was_spent_before_a_failure_counts(priced: Platform, fake: FakeOpenAI):
    set_price(priced, fake, PRICE)
    priced.configure(
        embedding={
            "provider": "openai",
            "base_url": fake.base_url,
            "model": "fake",
            "usd_per_million_tokens": PRICE,
            "max_inputs_per_request": 1,
            "max_retries": 0,
            "concurrency": 1,
        }
    )
    real = fake.count_embedded

    def then_fail(texts: list[str]) -> None:
        real(texts)
        fake.fail_next(500, times=99)

    fake.count_embedded = then_fail  # type: ignore[method-assign, assignment]
    assert priced.run("ingest").status == 1
    status = json.loads(priced.run("status", "--json").out)
    (text,) = fake.embedded_texts
    assert status["tokens"] == fake.count_tokens(text)


def test_the_job_tells_what_an_ingest_would_cost(priced: Platform, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch):
    for name, value in priced.environment.items():
        monkeypatch.setenv(name, value)
    job = build_definitions(load_settings()).get_job_def(estimate_job_name("notes"))
    result = job.execute_in_process()
    figures = result.output_for_node("notes_estimate_ingest")
    assert fake.requests == []
    assert (figures["documents"], figures["texts_embedded"], figures["chunks"]) == (2, 3, 4)
    assert figures["cost_usd"] == pytest.approx(figures["tokens"] * PRICE / 1e6)
