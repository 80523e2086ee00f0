"""Situations that users of such systems report, and the right outcome: what happens when things fail.

Each test is named as its promise and driven through the command line.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rag_assets_tests.fakes import FakeOpenAI
from rag_assets_tests.platform import REPOSITORY, Platform


def paragraphs(count: int, *, of: str = "item") -> str:
    return "\n\n".join(f"Paragraph {number} tells the story of {of}{number}." for number in range(count))


def test_a_failing_update_keeps_the_old_rows_and_the_next_run_repairs_it(platform: Platform, fake: FakeOpenAI):
    platform.write("a.md", "The old text about apples.")
    platform.write("b.md", "The text about bananas.")
    platform.ingest()

    fake.refuse_texts_with("poison")
    platform.write("a.md", "The new text about poison.")
    platform.write("c.md", "The text about cherries.")
    outcome = platform.run("ingest", "--json")

    assert outcome.status == 2
    failed = outcome.json["failed"]
    assert [(one["document"], one["stage"]) for one in failed] == [("a.md", "embed")]
    assert failed[0]["reason"]
    texts = {row["document"]: row["text"] for row in platform.rows()}
    assert texts == {
        "a.md": "The old text about apples.",
        "b.md": "The text about bananas.",
        "c.md": "The text about cherries.",
    }

    fake.refuse_texts_with(None)
    before = platform.embedded
    report = platform.ingest()
    assert report["failed"] == []
    assert fake.embedded_texts[before:] == ["The new text about poison."]
    assert {row["document"]: row["text"] for row in platform.rows()}["a.md"] == "The new text about poison."


def test_one_poison_text_does_not_stop_the_others(platform: Platform, fake: FakeOpenAI):
    for number in range(50):
        platform.write(f"{number:02}.md", f"A text of number{number}." if number != 31 else "A text of poison.")
    fake.refuse_texts_with("poison")
    outcome = platform.run("ingest", "--json")

    assert [one["document"] for one in outcome.json["failed"]] == ["31.md"]
    assert len(fake.embedded_texts) == 49
    assert len(fake.requests_to("/embeddings")) <= 14  # 2 · log2(50) + 2


def test_a_rate_limit_is_waited_out_as_long_as_it_says(platform: Platform, fake: FakeOpenAI):
    platform.write("a.md", "One.\n\nTwo.")
    fake.fail_next(429, code="rate_limit_exceeded", headers={"Retry-After": "0.2"}, times=5)
    started = time.monotonic()
    platform.ingest()

    assert time.monotonic() - started >= 5 * 0.2
    assert len(fake.requests_to("/embeddings")) == 6
    assert sorted(fake.embedded_texts) == ["One.", "Two."]
    assert len({row["chunk_id"] for row in platform.rows()}) == len(platform.rows()) == 2


def test_no_request_is_over_a_cap_of_the_provider_and_a_long_text_is_split(platform: Platform, fake: FakeOpenAI):
    fake.count_tokens = lambda text: len(text.split())
    embedding = {"provider": "openai", "base_url": fake.base_url, "model": "fake", "max_inputs_per_request": 2048}
    platform.configure(
        embedding={**embedding, "max_tokens_per_request": 300_000},
        chunking={"strategy": "paragraph", "max_tokens": 8_000, "overlap_tokens": 0},
    )
    paragraphs = [f"{number:03d}" + " word" * 699 for number in range(600)]
    platform.write("many.md", "\n\n".join(f"# {number}\n\n{text}" for number, text in enumerate(paragraphs)))
    platform.write("long.md", "number " + " ".join(str(number) for number in range(9_000)))
    assert platform.ingest()["failed"] == []

    for request in fake.requests_to("/embeddings"):
        counts = [fake.count_tokens(text) for text in request.body["input"]]
        assert len(counts) <= 2048
        assert sum(counts) <= 300_000
        assert max(counts) <= 8192
    sent = " ".join(fake.embedded_texts)
    assert all(f"{number:03d} word" in sent for number in range(600))
    assert " 8999" in sent


@pytest.mark.parametrize(("status", "code"), [(401, "invalid_api_key"), (429, "insufficient_quota")])
def test_what_waiting_cannot_mend_fails_at_once_in_one_line(
    platform: Platform, fake: FakeOpenAI, status: int, code: str
):
    platform.write("a.md", "Some text.")
    fake.fail_next(status, code=code, times=100)
    outcome = platform.run("ingest")

    assert outcome.status == 1
    assert len(fake.requests_to("/embeddings")) == 1
    assert len(outcome.err.strip().splitlines()) == 1
    assert "Traceback" not in outcome.err
    assert platform.status()["documents"]["pending"] == 1

    fake.recover()
    assert platform.ingest()["failed"] == []
    assert len(platform.rows()) == 1


def test_an_unreachable_provider_is_told_in_one_line_and_nothing_is_lost(platform: Platform, fake: FakeOpenAI):
    platform.write("a.md", "Some text.")
    platform.ingest()
    fake.close()
    platform.configure(embedding={"provider": "openai", "base_url": fake.base_url, "model": "fake", "max_retries": 0})
    platform.write("b.md", "Some other text.")
    outcome = platform.run("ingest")

    assert outcome.status == 1
    assert fake.base_url in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert platform.status()["documents"] == {"indexed": 1, "empty": 0, "failed": 0, "pending": 1}


@contextmanager
def provider_process(log: Path, *, latency_seconds: float) -> Iterator[str]:
    """The fake in a process of its own, which logs every text that it embeds."""
    command = [sys.executable, "-m", "rag_assets_tests.fakes", "--port", "0", "--log", str(log)]
    command += ["--latency-seconds", str(latency_seconds), "--dimensions", "32"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def logged(log: Path) -> list[str]:
    return [str(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.slow
def test_a_kill_at_any_moment_loses_nothing_and_pays_for_what_was_in_flight_at_most(tmp_path: Path):
    """Ten kills while 1,000 texts are embedded, 2 × 25 in flight, then an undisturbed run. Readers see no half."""
    log = tmp_path / "embedded.jsonl"
    with provider_process(log, latency_seconds=0.15) as base_url:
        platform = Platform(tmp_path)
        provider = {"provider": "openai", "base_url": base_url, "model": "fake", "max_inputs_per_request": 25}
        platform.configure(embedding={**provider, "concurrency": 2})
        for number in range(20):
            platform.write(f"{number:02}.md", paragraphs(50, of=f"document{number}item"))
        chance = random.Random(20261129)
        kills = 0
        environment = os.environ | platform.environment
        command = [sys.executable, "-c", "from rag_assets.cli import main; main()", "ingest", "--json"]
        for _ in range(10):
            started = time.monotonic()
            process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True)
            before = len(logged(log))
            # Wait until it embeds, or is past it, then a random moment more.
            while process.poll() is None and len(logged(log)) == before and time.monotonic() - started < 20:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            visible = platform.run("search", "anything", "--mode", "vector", "--top-k", "1000", "--json")
            if visible.status == 0:
                assert len(visible.json["results"]) == 1000
        report = platform.ingest()
        sent = logged(log)

    texts = {text for number in range(20) for text in paragraphs(50, of=f"document{number}item").split("\n\n")}
    documents = [text for text in sent if text != "anything"]
    assert set(documents) == texts
    assert len(documents) <= len(texts) + kills * 50
    assert report["failed"] == []
    ids = platform.store.index("notes", platform.status()["generation"], dimensions=32).read(["chunk_id", "document"])
    assert ids.num_rows == 1000
    assert len(set(ids["chunk_id"].to_pylist())) == 1000
    assert len(set(ids["document"].to_pylist())) == 20
    assert platform.status()["coverage"] == 1.0


def test_two_runs_never_share_an_id_and_an_answer_is_built_from_all_documents(platform: Platform):
    """The mistakes of Dagster's own example, inverted: ids that count from zero in each run, rows that overwrite each
    other, an answer from the last partition only."""
    platform.write("a.md", "The red door leads to the garden.")
    platform.ingest()
    first = {row["chunk_id"] for row in platform.rows()}
    platform.write("b.md", "The blue door leads to the cellar.")
    platform.ingest()

    rows = platform.rows()
    assert len({row["chunk_id"] for row in rows}) == 2
    assert first < {row["chunk_id"] for row in rows}
    assert {row["text"] for row in rows} == {"The red door leads to the garden.", "The blue door leads to the cellar."}
    answer = platform.ask("Where do the red door and the blue door lead?")
    assert set(answer["sources"]) == {"a.md", "b.md"}


def test_the_prompt_holds_the_text_of_the_passages_that_the_answer_cites(platform: Platform, fake: FakeOpenAI):
    platform.configure(generation={"provider": "openai", "base_url": fake.base_url, "model": "fake-chat"})
    platform.write("a.md", "The red door leads to the garden.")
    platform.write("b.md", "The blue door leads to the cellar.")
    platform.ingest()
    fake.chat_reply = "It leads to the garden [1]."
    answer = platform.ask("Where does the red door lead?")

    prompt = json.dumps(fake.requests_to("/chat/completions")[0].body["messages"])
    assert answer["citations"][0]["text"] in prompt
    assert answer["citations"][0]["document"] == "a.md"
    assert (answer["model"], answer["answered"]) == ("openai/fake-chat", True)


def test_a_document_removed_while_a_new_generation_is_built_is_not_found_any_more(platform: Platform, fake: FakeOpenAI):
    """A model is switched, embedding stops half way, a document is deleted: readers of the old generation, who do not see
    the new one yet, must not find it."""
    for name in ("a", "b", "c"):
        platform.write(f"{name}.md", f"The text of {name}{name}{name}.")
    platform.ingest()
    platform.configure(
        embedding={"provider": "openai", "base_url": fake.base_url, "model": "another", "max_retries": 0}
    )
    fake.fail_next(500, times=1000)
    assert platform.run("ingest").status == 1
    fake.recover()
    assert {row["document"] for row in platform.rows()} == {"a.md", "b.md", "c.md"}

    assert platform.run("remove", "b.md").status == 0
    assert {row["document"] for row in platform.rows()} == {"a.md", "c.md"}
    (platform.corpus / "b.md").unlink()
    platform.ingest()
    assert {row["document"] for row in platform.rows()} == {"a.md", "c.md"}
    assert platform.ask("What is the text of ccc?")["embedding_model"] == "openai/another"


def test_a_lost_index_is_made_again_from_the_vectors_that_are_there(platform: Platform):
    """A table that was deleted once made the corpus silently empty: nothing changed, so nothing was made again. Later, the
    first of several runs failed, because the rows of those after it were still missing."""
    platform.configure(max_documents_per_run=2)
    platform.write("a.md", "The text of apples.")
    platform.write("b.md", "The text of bananas.")
    platform.write("c.md", "The text of cherries.")
    platform.ingest()
    before = platform.embedded
    shutil.rmtree(platform.home / "corpora" / "notes" / f"index_{platform.status()['generation']}.lance")

    report = platform.ingest()

    assert (report["changed"], report["texts_embedded"], len(report["runs"])) == (3, 0, 2)
    assert platform.embedded == before
    assert {row["document"] for row in platform.rows()} == {"a.md", "b.md", "c.md"}
    assert platform.ingest()["runs"] == []


def test_an_answer_is_given_where_it_cannot_be_kept(platform: Platform):
    platform.write("a.md", "The lighthouse keeper is called Amara Osei.")
    platform.ingest()
    answers = platform.home / "answers.lance"
    answers.write_text("a file where a table would be")
    answer = platform.ask("Who is the lighthouse keeper?")
    assert "Amara Osei" in answer["answer"]
    assert "this answer was not kept" in answer["notes"][0]


@pytest.mark.slow
def test_two_ingests_at_once_in_a_new_home_both_succeed(tmp_path: Path):
    platform = Platform(tmp_path, options={"embedding": {"provider": "hashing"}})
    platform.write("a.md", "One text.")
    environment = {**os.environ, **platform.environment}
    command = [sys.executable, "-c", "from rag_assets.cli import main; main()", "ingest"]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outcomes = [(*process.communicate(timeout=300), process.returncode) for process in both]
    assert [status for *_, status in outcomes] == [0, 0], outcomes
    assert len(platform.rows()) == 1


@pytest.mark.slow
def test_an_interrupted_ingest_says_so_and_goes_on_later(tmp_path: Path):
    with provider_process(tmp_path / "sent.jsonl", latency_seconds=0.3) as base_url:
        embedding = {"provider": "openai", "base_url": base_url, "model": "fake", "max_inputs_per_request": 1}
        platform = Platform(tmp_path, options={"embedding": embedding})
        platform.write("a.md", "\n\n".join(f"Paragraph {number}." for number in range(60)))
        command = [sys.executable, "-m", "rag_assets", "ingest"]
        environment = {**os.environ, **platform.environment}
        process = subprocess.Popen(command, env=environment, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
        while len(logged(tmp_path / "sent.jsonl")) < 8:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "interrupted; what was embedded is kept, and the next ingest goes on from there" in said
        assert platform.ingest()["texts_embedded"] < 60
        assert len(platform.rows()) == 60
