"""Write the pictures of the manual to docs/screenshots/: a project is made, served and looked at, which takes minutes."""

import argparse
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

from rag_assets_tests.platform import REPOSITORY
from rag_assets_tests.screenshots.browser import CHROMIUM, MISSING, Browser, browser
from rag_assets_tests.screenshots.handbook import handbook
from rag_assets_tests.screenshots.pages import Picture, pictures
from rag_assets_tests.serving import Served, served_platform, wait_until

_COLOURS = 128


def main() -> int:
    """Exit with 1 where there is no browser."""
    parser = argparse.ArgumentParser(prog="python -m rag_assets_tests.screenshots", description=__doc__)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "docs" / "screenshots", help="where to write them")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these pictures")
    asked = parser.parse_args()
    if CHROMIUM is None:
        print(f"no pictures are taken: {MISSING}", file=sys.stderr)
        return 1
    asked.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="notes-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        platform = handbook(root)
        with served_platform(platform) as served, browser(root / "profile") as tab:
            wait_until(lambda: _has_retried(served), "the sensor tries the broken document again")
            ask_run = served.runs("ask")[0]["runId"]
            for picture in pictures(ask_run=ask_run):
                if asked.only is None or picture.name in asked.only:
                    path = asked.folder / f"{picture.name}.png"
                    path.write_bytes(_smaller(_take(tab, picture, served)))
                    print(f"{path.name}: {path.stat().st_size:,} bytes", file=sys.stderr)
    return 0


def _has_retried(served: Served) -> bool:
    """Whether the sensor has tried the document again that is set aside: its partition is red then."""
    return any(run["status"] == "FAILURE" for run in served.runs("notes_ingest"))


def _take(tab: Browser, picture: Picture, served: Served) -> bytes:
    tab.open(picture.url(served.url), width=picture.width, height=picture.height)
    tab.wait_for(picture.shown)
    for text in picture.clicks:
        tab.click(text)
    tab.wait_for(picture.shown_then)
    return tab.picture()


def _smaller(png: bytes) -> bytes:
    """The picture with a palette: less than half the bytes, and text as sharp. Rare colours stay: a red dot is the point."""
    image = Image.open(BytesIO(png)).convert("RGB")
    image = image.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    written = BytesIO()
    image.save(written, "PNG", optimize=True)
    return written.getvalue()


if __name__ == "__main__":
    sys.exit(main())
