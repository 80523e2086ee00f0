"""A published corpus of three documents that is as it should be, and what a check says of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_assets.health.verdicts import Verdict
from rag_assets.health.view import View
from rag_assets_tests.workbench import Workbench, make_workbench

Look = Callable[[Callable[[View], Verdict]], Verdict]


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = make_workbench(tmp_path)
    bench.write("a.md", "apples\n\npears")
    bench.write("b.md", "bananas")
    bench.write("empty.md", "")
    bench.ingest()
    return bench


@pytest.fixture
def look(bench: Workbench) -> Callable[..., Verdict]:
    """What a check finds now; other arguments are those of the view."""

    def at(check: Callable[[View], Verdict], **how: Any) -> Verdict:
        return check(View(bench.store, bench.corpus, **how))

    return at
