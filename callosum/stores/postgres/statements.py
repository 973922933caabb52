"""Load the statements of ``statements.sql`` by name."""

from __future__ import annotations

import re
from typing import Final

from callosum.model import LATEST, MAX_KEPT
from callosum.stores.base import MAX_NEARBY_SESSIONS
from callosum.stores.receipt import IDENTITY, LEFT
from callosum.stores.retention import ASKS, AT_ONCE, FOREVER, LEAVES, RECENT, STAYS
from callosum.stores.rows import NEXT, PARTS
from callosum.stores.sql_neighbours import BELOW
from callosum.stores.statements import load
from callosum.stores.view import GENERATIONS

SHARED: Final = {name: re.sub(r"(?<!:):([a-z]+)", r"%(\1)s", text) for name, text in PARTS.items()}
"""The parts of both SQL stores, with params as the driver writes them."""
SQL: Final = load(
    "callosum.stores.postgres",
    "statements.sql",
    {
        **SHARED,
        "asks": ASKS,
        "at_once": AT_ONCE,
        "below": BELOW,
        "forever": FOREVER,
        "generations": GENERATIONS,
        "identity": IDENTITY,
        "latest": LATEST,
        "leaves": LEAVES,
        "left": LEFT,
        "most_body": MAX_KEPT,
        "most_live": 250,  # live rows that `underway` reads
        "nearby": MAX_NEARBY_SESSIONS,
        "next": NEXT,
        "recent_asks": RECENT,
        "searched": 20_000,  # unreported actions that are searched for the one that a report without an id means
        "shown_below": 24,
        "stays": STAYS,
    },
)
