"""What is lost and what is paid twice when ingests are killed, fail, move or run at once: nothing, beyond the requests in
flight. `python -m rag_assets_tests.benchmarks.durability` prints the table of docs/durability.md."""
