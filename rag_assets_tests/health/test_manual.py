"""docs/health.md names every check, with the asset that it is about and how bad it is when it is red."""

import re
from pathlib import Path

from rag_assets.health.checks import CHECKS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "health.md"


def test_the_manual_explains_every_check():
    parts = re.split(r"^### docs/(\w+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    explained = {
        (asset, name, severity)
        for asset, body in zip(parts[1::2], parts[2::2], strict=True)
        for name, severity in re.findall(r"^\| `(\w+)` \| (error|warning) \|", body, re.MULTILINE)
    }
    assert explained == {(one.asset, one.name, one.severity) for one in CHECKS}
