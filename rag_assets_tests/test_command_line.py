"""What no other test of a command covers: versions, plurals, and metrics as files and on a port."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path

from rag_assets_tests.platform import Platform


def test_the_version_is_printed(platform: Platform):
    assert platform.run("--version").out == f"rag-assets {version('rag-assets')}\n"


def test_without_a_command_the_help_is_printed(platform: Platform):
    outcome = platform.run()
    assert (outcome.status, outcome.err) == (0, "")
    assert "draft-questions" in outcome.out


def test_one_is_not_told_in_the_plural(platform: Platform):
    platform.write("a.md", "The kettle is red.")
    printed = platform.run("ingest").out
    assert printed.startswith("notes: 1 document scanned; 1 added, ")
    assert "notes: 1 chunk; 1 text embedded (" in printed
    assert "notes version 1: 1 document, 1 chunk; " in platform.run("ask", "What is red?").out


def test_a_switch_of_the_model_makes_documents_again_and_changes_none(platform: Platform):
    platform.write("a.md", "The kettle is red.")
    platform.ingest()
    platform.configure(embedding={"provider": "hashing", "dimensions": 32})
    report = platform.run("ingest", "--dry-run", "--json").json
    assert (report["changed"], report["remade"], report["dry_run"]) == (1, 1, True)
    expected = "0 changed, 1 made again with another configuration, 0 removed"
    assert expected in platform.run("ingest").out
    assert "made again" not in platform.run("ingest").out


def test_metrics_are_written_to_a_file_at_once(platform: Platform, tmp_path: Path):
    file = tmp_path / "rag.prom"
    file.write_text("old")
    assert platform.run("metrics", "--output", str(file)).out == ""
    assert 'rag_assets_up{corpus="notes"} 1\n' in file.read_text()
    assert [path.name for path in tmp_path.iterdir() if "prom" in path.name] == ["rag.prom"]


def test_a_file_that_cannot_be_written_is_told(platform: Platform, tmp_path: Path):
    outcome = platform.run("metrics", "--output", str(tmp_path / "none/rag.prom"))
    assert outcome.status == 1
    assert re.search(r"rag\.prom: cannot be written: No such file or directory; name another file", outcome.err)


def test_metrics_are_served_until_interrupted(platform: Platform):
    process = subprocess.Popen(
        [sys.executable, "-m", "rag_assets", "metrics", "--serve", "0"],
        env=os.environ | platform.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr as lines:
        try:
            line = lines.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
            assert address is not None, line
            with urllib.request.urlopen(address[0], timeout=60) as response:
                assert 'rag_assets_up{corpus="notes"} 1' in response.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
            status = process.wait(60)
        assert (status, lines.read()) == (0, "")
