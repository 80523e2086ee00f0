"""A bare look at every file of a folder: the least that finding out what changed can cost. Also run by its path."""

import os
import sys


def walk(folder: str) -> None:
    """Take the size and times of every file below `folder`."""
    for where, _, names in os.walk(folder):
        for name in names:
            os.stat(os.path.join(where, name))  # noqa: PTH116, PTH118  # nothing between us and the system


if __name__ == "__main__":
    walk(sys.argv[1])
