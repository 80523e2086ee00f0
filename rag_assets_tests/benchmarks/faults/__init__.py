"""The ways in which a platform breaks: each is really done, and what saw it and what mended it is written down.

`python -m rag_assets_tests.benchmarks.faults` prints the table of docs/health.md.
"""
