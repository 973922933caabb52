"""The embedded store: one SQLite file in WAL mode, used by several processes at once.

``connection`` opens the file and takes turns, ``engine`` reads and writes with the ``statements``, ``store`` is the
store. ``clock`` is the clock that processes agree on, ``log_watch`` notices a log that was cut off, and ``restore``
replaces the file.
"""

from callosum.stores.sqlite.restore import replace_file
from callosum.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore", "replace_file"]
