"""The same folder given to other libraries that keep an index up to date: what each sends to the same counting provider.

`make bench-peers` prints the table. Each peer is a module `use_*.py`, set up as its own documentation recommends for a
folder that changes, and runs in a process of its own, in the environment `.venv-peers` (requirements.txt).
"""
