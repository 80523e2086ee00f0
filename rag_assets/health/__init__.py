"""Whether a corpus is as it should be: figures and checks, from its tables and its source. Dagster is not imported here.

Each check is a function from a `View` of the corpus to a `Verdict`; `checks.py` lists them, `measuring.py` makes a row of
`health` of what they found. `defs/health.py` shows them to Dagster.
"""
