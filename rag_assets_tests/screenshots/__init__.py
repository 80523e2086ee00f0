"""The pictures of the manual: pages of Dagster's UI over a project made for them, taken by a headless browser.

`python -m rag_assets_tests.screenshots`, or `make screenshots`, writes all of them to `docs/screenshots/`.
"""
