"""What a command line is taken for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from callosum.model import Key


class ShellJudgement(NamedTuple):
    """What a command line does. The keys of its gravest command stand first.

    ``effect`` is ``read`` or ``write``. ``repeats``: the act happens again when it is repeated (a
    mail). ``stance`` is the side it takes. ``why`` says in words which commands decided, gravest
    first, with secrets left out. ``danger`` is what it would do to the gate itself, ``""`` for nothing. ``folders`` are
    the folders in which it uses a repository that nobody has named yet.
    """

    tier: int
    effect: str
    keys: tuple[Key, ...]
    repeats: bool
    stance: str
    why: tuple[str, ...]
    danger: str = ""
    folders: tuple[str, ...] = ()
