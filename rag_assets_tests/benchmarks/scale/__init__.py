"""What a document, a tick and a question cost as a corpus grows, and what a million chunks take: for docs/benchmarks.md."""
