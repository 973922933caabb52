"""The embedded store: one SQLite file in WAL mode, used by several processes at once.

``connection`` opens the file and takes turns; ``view`` builds a view, ``apply`` writes a change, ``cache``
holds what a connection need not read again; ``store`` is the store. ``callosum.stores.rows`` turns
rows into the model's data and back.
"""

from callosum.stores.sqlite.restore import replace_file
from callosum.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "replace_file"]
