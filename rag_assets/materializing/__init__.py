"""What one asset does to a batch of documents, without Dagster: read the table before, work, write the table after."""
