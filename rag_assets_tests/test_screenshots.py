"""The pictures of the manual exist, and are of the pages that the manual says; `make screenshots` takes them."""

import re
import struct
from pathlib import Path

import pytest

from rag_assets_tests.platform import REPOSITORY
from rag_assets_tests.screenshots import __main__ as command
from rag_assets_tests.screenshots.pages import Picture, pictures

DOCS = REPOSITORY / "docs"
PICTURES = sorted(path.name for path in (DOCS / "screenshots").iterdir())
MOST_BYTES = 150_000


def shown() -> dict[str, str]:
    """What the manual says of each picture that it shows, by file name."""
    pages = [path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")]
    return {name: text for page in pages for text, name in re.findall(r"!\[([^\]]*)\]\(screenshots/([^)]+)\)", page)}


def test_every_picture_is_shown_with_words_for_who_does_not_see_it():
    assert sorted(shown()) == PICTURES
    assert [name for name, words in shown().items() if len(words.split()) < 4] == []


def test_the_command_takes_every_picture_and_no_other():
    assert sorted(f"{picture.name}.png" for picture in pictures(ask_run="a run")) == PICTURES


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_small_png_of_the_size_that_was_asked_for(name: str):
    content = (DOCS / "screenshots" / name).read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    (asked,) = [picture for picture in pictures(ask_run="a run") if f"{picture.name}.png" == name]
    assert struct.unpack(">II", content[16:24]) == (asked.width, asked.height)
    assert len(content) < MOST_BYTES


def test_the_address_of_a_page_encodes_what_it_names():
    picture = Picture("one", "/assets/notes/index", [], query={"view": "partitions", "partition": "a b/c&d.md"})
    assert picture.url("http://host:1") == "http://host:1/assets/notes/index?view=partitions&partition=a+b%2Fc%26d.md"
    assert Picture("two", "/runs", []).url("http://host:1") == "http://host:1/runs"


def test_without_a_browser_the_command_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(command, "CHROMIUM", None)
    monkeypatch.setattr("sys.argv", ["screenshots", "--folder", str(tmp_path / "pictures")])
    assert command.main() == 1
    assert "Chromium is not installed" in capsys.readouterr().err
    assert not (tmp_path / "pictures").exists()
