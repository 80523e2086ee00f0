"""The project on the pictures: the handbook of an office.

Pages are added, edited and deleted; one file is no PDF whatever its name says; questions with known answers judge it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from rag_assets_tests.platform import REPOSITORY, Platform

QUESTION = "How do I get my money back for a train ticket?"
BROKEN = "contracts/cleaning.pdf"
EDITED = "travel/expenses.md"

_PAGES: Mapping[str, str] = {
    "travel/expenses.md": """# Expenses

## Train tickets

Send the ticket and the receipt to the office within four weeks of the journey. The money for a train ticket is paid
back with the salary of the following month.

## Meals

A day away from home pays 28 euros, the day of departure half of that. Breakfast in the hotel is taken off.
""",
    "travel/booking.md": """# Booking a journey

Book trains yourself, in second class. Flights are booked by the office, and only where the train takes more than six
hours.

## Hotels

Up to 130 euros a night need no approval. In the weeks of a trade fair ask first.
""",
    "people/first-week.md": """# The first week

## Monday

Your laptop and your key card wait at the front desk. Somebody of your team has lunch with you.

## By Friday

You have read this handbook, you have a password manager, and you have changed one line of something that customers see.
""",
    "people/holidays.md": """# Holidays

Everybody has 30 days a year. Ask your team first, then enter the days in the calendar. Five days may be taken along
until the end of March.

## When you are ill

Tell your team before ten o'clock. From the fourth day on the office needs a note of your doctor.
""",
    "equipment/espresso.md": """# The espresso machine

Fill the tank with filtered water. Grind 18 grams for a double shot that takes 27 seconds.

## Cleaning

Rinse the group after the last cup of the day. Descale the machine every three months; the powder is under the sink.
""",
    "equipment/laptops.md": """# Laptops

A laptop is replaced after four years, or when it is slower than you are. The old one may be bought for its book value.

## When it is lost

Call the office at any hour. The disk is encrypted, and is erased when the machine is next on line.
""",
    "security/passwords.md": """# Passwords

Use the password manager for everything. A password that you can remember is too short.

## Two factors

Mail, the wiki and the build server ask for a second factor. Keep the recovery codes at home, on paper.
""",
    "releases/checklist.md": """# Before a release

1. The tests are green, and the change log says what a customer notices.
2. Two people have read the migration.
3. Somebody who can roll it back is awake for the next four hours.
""",
}
_ADDED_LATER = (
    "people/parents.md",
    "# Parents\n\nTell the office three months ahead. The first ten days are paid, for both parents.\n",
)
_QUESTIONS = [
    {"question": "How often is the espresso machine descaled?", "document": "equipment/espresso.md"},
    {"question": "How many days of holiday do I have?", "document": "people/holidays.md"},
    {"question": "When is a laptop replaced?", "document": "equipment/laptops.md"},
    {"question": "What may a hotel cost?", "document": "travel/booking.md"},
    {"question": QUESTION, "document": "travel/expenses.md"},
    {"question": "Who tunes the piano?", "document": None},
]


def handbook(root: Path) -> Platform:
    """The project in `root`: three versions published, one document set aside, one evaluation made."""
    (root / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in _QUESTIONS), encoding="utf-8")
    platform = Platform(
        root,
        options={
            "embedding": {"provider": "local"},
            "chunking": {"strategy": "auto", "max_tokens": 60, "overlap_tokens": 0},
            "evaluation": {"questions": "questions.jsonl"},
            "owners": ["team:office"],
            "scan_seconds": 5,
        },
    )
    for name, text in _PAGES.items():
        platform.write(name, text)
    platform.ingest()
    platform.write(BROKEN, "This is no PDF.\n")
    platform.write(*_ADDED_LATER)
    platform.ingest()
    platform.write(EDITED, _PAGES[EDITED].replace("four weeks", "six weeks"))
    (platform.corpus / "releases/checklist.md").unlink()
    platform.ingest()
    for job, config in (("notes_evaluate", None), ("notes_health", None), ("ask", {"question": QUESTION})):
        _execute(platform, job, config)
    return platform


def _execute(platform: Platform, job: str, config: Mapping[str, str] | None) -> None:
    """Execute a job as the manual says. Raises `RuntimeError` with its log when it fails."""
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "rag_assets.definitions", "-j", job]
    if config:
        path = platform.root / f"{job}.yaml"
        path.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        command += ["-c", str(path)]
    environment = os.environ | platform.environment
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{job} failed:\n{done.stderr}")
