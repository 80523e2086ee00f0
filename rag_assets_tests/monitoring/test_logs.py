"""Log lines for people and for machines."""

import json
import logging
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from rag_assets.errors import ConfigError
from rag_assets.monitoring.events import event
from rag_assets.monitoring.logs import log_to, style, with_fields
from rag_assets_tests.platform import Platform

LOG = logging.getLogger("rag_assets.somewhere")
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR"


@pytest.fixture(autouse=True)
def _plain_again() -> Iterator[None]:
    yield
    log_to(StringIO(), "text")


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_record_is_one_object_in_one_line():
    stream = StringIO()
    log_to(stream, "json")
    LOG.warning("two\nlines of %s", "été", extra=with_fields(corpus="notes"))
    [line] = lines_of(stream.getvalue())
    assert list(line) == ["time", "level", "logger", "message", "corpus"]
    assert line["time"].endswith("+00:00")
    assert (line["level"], line["logger"]) == ("warning", "rag_assets.somewhere")
    assert (line["message"], line["corpus"]) == ("two\nlines of été", "notes")


def test_an_exception_is_told_in_the_same_line():
    stream = StringIO()
    log_to(stream, "json")
    try:
        raise ValueError("wrong")
    except ValueError:
        LOG.exception("it failed")
    [line] = lines_of(stream.getvalue())
    assert line["exception"].endswith("ValueError: wrong")


def test_a_person_sees_warnings_and_no_events():
    stream = StringIO()
    log_to(stream, "text")
    LOG.info("detail")
    LOG.warning("look")
    event("ingest_finished", "notes is ingested", {"corpus": "notes"})
    assert stream.getvalue() == "rag-assets: look\n"


def test_an_event_has_its_fields_but_for_those_that_are_not_known():
    stream = StringIO()
    log_to(stream, "json")
    event("ingest_finished", "notes is ingested", {"corpus": "notes", "run_id": None, "failed": 0})
    [line] = lines_of(stream.getvalue())
    assert {name: line[name] for name in ("event", "corpus", "failed")} == {
        "event": "ingest_finished",
        "corpus": "notes",
        "failed": 0,
    }
    assert "run_id" not in line


def test_setting_up_again_takes_the_place_of_what_was_set_up():
    first, second = StringIO(), StringIO()
    log_to(first, "json")
    log_to(second, "json")
    LOG.info("once")
    assert (first.getvalue(), len(lines_of(second.getvalue()))) == ("", 1)


def test_another_style_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAG_ASSETS_LOG", "xml")
    with pytest.raises(ConfigError, match="RAG_ASSETS_LOG is 'xml'; allowed: text, json"):
        style()


def test_every_line_of_an_ingest_and_an_answer_is_an_object(platform: Platform, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAG_ASSETS_LOG", "json")
    platform.write("a.md", "The kettle is red.")
    platform.write("bad.md", PNG)
    lines = lines_of(platform.run("ingest", "--json").err)
    by_event = {(line["event"], line.get("step")): line for line in lines if "event" in line}
    assert list(by_event) == [
        ("document_set_aside", "documents"),
        ("stage_finished", "documents"),
        ("stage_finished", "chunks"),
        ("stage_finished", "embeddings"),
        ("stage_finished", "index"),
        ("index_published", None),
        ("ingest_finished", None),
    ]
    aside = by_event["document_set_aside", "documents"]
    assert (aside["level"], aside["document"]) == ("warning", "bad.md")
    assert aside["reason"].startswith("its content is a PNG image")
    index = by_event["stage_finished", "index"]
    assert (index["corpus"], index["documents"], index["set_aside"], index["skipped"]) == ("notes", 1, 0, 1)
    published = by_event["index_published", None]
    assert published["run_id"] == index["run_id"] == aside["run_id"]
    assert (published["version"], published["added"], published["documents"]) == (1, 1, 1)
    done = by_event["ingest_finished", None]
    assert (done["scanned"], done["added"], done["failed"]) == (2, 2, 1)
    answered = lines_of(platform.run("ask", "What is red?").err)
    assert [(line["event"], line["corpus"], line["index_version"]) for line in answered] == [
        ("question_answered", "notes", 1)
    ]
    assert "What is" not in json.dumps(answered)
    assert "kettle" not in json.dumps(answered)


def test_what_the_command_line_complains_of_is_an_object_too(platform: Platform, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAG_ASSETS_LOG", "json")
    [line] = lines_of(platform.run("search", "kettle").err)
    assert (line["level"], line["logger"]) == ("error", "rag_assets.cli")
    assert "has no published index yet" in line["message"]
