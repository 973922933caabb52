"""The statements of ``statements.sql``, by name."""

from __future__ import annotations

from typing import Final

from callosum.model import DEFAULT_NAMESPACE, LATEST, MAX_KEPT
from callosum.stores.base import GATE_PREFIX, MAX_NEARBY_SESSIONS
from callosum.stores.receipt import IDENTITY, LEFT
from callosum.stores.retention import ASKS, AT_ONCE, FOREVER, LEAVES, RECENT, STAYS
from callosum.stores.rows import PARTS
from callosum.stores.sql_neighbours import BELOW
from callosum.stores.statements import load

CROWD: Final = 16
"""Number of marks above which a key is crowded: its marks then have an index by their change."""
MOST_COVERS: Final = 1000

SQL: Final = load(
    "callosum.stores.sqlite",
    "statements.sql",
    {
        **PARTS,
        "asks": ASKS,
        "at_once": AT_ONCE,
        "below": BELOW,
        "default": DEFAULT_NAMESPACE,
        "forever": FOREVER,
        "gate": GATE_PREFIX[:-1],
        "identity": IDENTITY,
        "latest": LATEST,
        "leaves": LEAVES,
        "left": LEFT,
        "most_body": MAX_KEPT,
        "most_covers": MOST_COVERS + 1,
        "most_live": 250,  # live rows that `underway` reads
        "most_marks": CROWD + 1,
        "nearby": MAX_NEARBY_SESSIONS,
        "recent_asks": RECENT,
        "searched": 20_000,  # entries among which a report without an id is searched, where no index helps
        "shown_below": 24,
        "stays": STAYS,
    },
)
