"""How much a benchmark does."""

from typing import Literal

Size = Literal["tiny", "full"]
