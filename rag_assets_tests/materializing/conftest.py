"""A workbench for the stages of a corpus."""

from pathlib import Path

import pytest

from rag_assets_tests.workbench import Workbench, make_workbench


@pytest.fixture
def bench(tmp_path: Path, home: str) -> Workbench:
    return make_workbench(tmp_path, home)
