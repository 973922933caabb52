"""What a file of Callosum says of itself, and what is said of a file of another format."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Final

from callosum.errors import StoreError

APPLICATION_ID: Final = 0x43414C4F  # "CALO"
SCHEMA: Final = 2
"""The format that this version reads and writes."""


def unreadable(path: Path, version: int) -> StoreError:
    """Return the error for a file of another format, with the command that sets it aside together with its receipt."""
    if version > SCHEMA:
        return StoreError(
            f"{path} has format {version}, this version reads {SCHEMA}: install a newer callosum-protocol"
        )
    aside = quote(f"{path.parent}/format-{version}")
    return StoreError(
        f"{path} has format {version} of an earlier Callosum, which this version does not read: "
        f"set it aside with `mkdir {aside} && mv {quote(str(path))}* {aside}`"
    )
