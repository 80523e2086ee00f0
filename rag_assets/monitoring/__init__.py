"""What a monitoring system sees: metrics in the text format of Prometheus, printed, written or served, and JSON log lines.

Nothing is measured here that `status` and the tables `health` and `evaluations` do not tell; Dagster is not imported.
"""
