"""Replace a gate's database by a saved one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from callosum.errors import StoreError
from callosum.stores.sqlite.connection import explained, format_of, refuse_foreign

ASIDE: Final = ".before-restore"
"""Suffix for the name of the database that was there."""


def replace_file(backup: Path, path: Path) -> None:
    """Copy ``backup`` to ``path``. The previous file is kept under its name with the suffix ``ASIDE``.

    Raises ``StoreError`` if the backup is not a database of Callosum or has another format, or if an earlier file is
    still kept aside.
    """
    if not backup.is_file():
        raise StoreError(f"there is no file {backup}")
    aside = Path(f"{path}{ASIDE}")
    if aside.exists():
        raise StoreError(f"{aside} is still there from an earlier restore: move it away first")
    with explained(path):
        refuse_foreign(backup)
        format_of(backup)  # refuses another format
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = Path(f"{path}.restoring")
        fresh.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_CREAT | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(sqlite3.connect(backup)) as source, closing(sqlite3.connect(fresh)) as target:
            source.backup(target)
        for end in ("-wal", "-shm"):
            Path(f"{fresh}{end}").unlink(missing_ok=True)
        # The log belongs to the database, so both go aside. The log goes first, so that no crash leaves it to another
        # database.
        for end in ("-wal", ""):
            if Path(f"{path}{end}").exists():
                Path(f"{path}{end}").rename(f"{aside}{end}")
        Path(f"{path}-shm").unlink(missing_ok=True)
        fresh.replace(path)
