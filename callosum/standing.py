"""The standing approvals of a state folder, kept in ``standing.json`` so that nothing changes a person's rules file.

The console and ``callosum rules revoke`` change the file under a lock, and every gate of the folder reads it. A file
that cannot be read approves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from callosum.errors import ConfigError
from callosum.locks import locked, put
from callosum.rules.standing import StandingApproval

FILE: Final = "standing.json"
"""Name of the file in the state folder."""
LASTS: Final = 30 * 86_400.0
"""Seconds for which a standing approval counts."""
MOST: Final = 200
"""Maximum number of standing approvals of a state folder at once."""
_PATIENCE: Final = 5.0
"""Seconds to wait for another process that changes the file."""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    standing: tuple[StandingApproval, ...] = ()


def path_of(state: Path) -> Path:
    """Return the path of a state folder's file, which need not exist."""
    return Path(state) / FILE


def read(path: Path) -> tuple[StandingApproval, ...]:
    """Return all standing approvals of a file, including ended ones; none if there is no file.

    Raises ``ConfigError`` with the field if the file cannot be used.
    """
    try:
        approvals = msgspec.json.decode(path.read_bytes(), type=_File).standing
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", at=str(path)) from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"not a file of standing approvals: {error}", at=str(path)) from None
    for index, approval in enumerate(approvals):
        if not approval.is_allowed:
            raise ConfigError("expected a question of a rule, recent or held", at=f"{path}: standing[{index}]")
    return approvals


def add(state: Path, approval: StandingApproval, now: Callable[[], float] = time.time) -> None:
    """Store a standing approval; it replaces an earlier one with its id. Raises ``ConfigError``."""
    with _changing(state, now) as standing:
        standing[approval.id] = approval
        if len(standing) > MOST:
            raise ConfigError(f"there are {MOST} standing approvals already: revoke one", at=str(path_of(state)))


def revoke(state: Path, id: int, now: Callable[[], float] = time.time) -> StandingApproval:
    """End a standing approval, and return it. Raises ``ConfigError`` if there is none with this id."""
    with _changing(state, now) as standing:
        approval = standing.pop(id, None)
        if approval is None:
            raise ConfigError(f"no standing approval {id}: it has ended or was revoked", at="id")
    return approval


@contextmanager
def _changing(state: Path, now: Callable[[], float]) -> Iterator[dict[int, StandingApproval]]:
    """Yield the file's content, to be changed while the block runs; ended approvals are then removed."""
    path = path_of(state)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path.with_suffix(".lock"), wait=_PATIENCE) as acquired:
            if not acquired:
                raise ConfigError("another process is changing the file: try again", at=str(path))
            standing = {approval.id: approval for approval in read(path) if approval.until > now()}
            yield standing
            put(path, msgspec.json.format(msgspec.json.encode(_File(tuple(standing.values()))), indent=2) + b"\n")
    except OSError as error:
        raise ConfigError(f"cannot be changed: {error.strerror or error}", at=str(path)) from error
