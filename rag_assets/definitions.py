"""The Dagster code location `rag_assets`: `defs/` for the `corpora.yaml` in force.

A problem in the configuration is raised here as a `ConfigError`, and Dagster shows it where the code location would be.
"""

import sys

from rag_assets import dagster_storage  # noqa: F401  # sets the batch size of the events of runs
from rag_assets.config import load_settings
from rag_assets.defs.code_location import build_definitions
from rag_assets.monitoring import logs

if logs.style() == "json":
    logs.log_to(sys.stderr, "json")
defs = build_definitions(load_settings())
