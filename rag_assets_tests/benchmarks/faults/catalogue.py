"""Every fault, in the order of docs/health.md."""

from rag_assets_tests.benchmarks.faults.surroundings import SURROUNDINGS
from rag_assets_tests.benchmarks.faults.tables import TABLES

FAULTS = (*TABLES, *SURROUNDINGS)
