"""What a command line is taken for, and what is a question of policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    from callosum.model import Key, Worktree


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


class Known(NamedTuple):
    """What a call says about the disk: the worktree of its folder, the home of who runs it, and other worktrees.

    ``worktrees`` are folders, each with the worktree it lies in, None outside of any.
    """

    worktree: Worktree | None = None
    home: str | None = None
    worktrees: tuple[tuple[str, Worktree | None], ...] = ()


NOTHING: Final = Known()


class ShellPolicy(Struct, frozen=True):
    """Tiers (0 to 4) of what commands do, where people differ; and which folders and branches are special.

    The *working folder* is the call's ``cwd``. ``folders`` are more such folders, absolute.
    ``temporary_folders`` are absolute too. ``protected`` names branches; a name that ends in ``*``
    is a beginning.
    """

    inside: int = 1
    """Removing something in the working folder."""
    whole: int = 4
    """Removing the whole working folder, a folder above it, or the repository's own data."""
    temporary: int = 1
    """Removing something in a folder for temporary files."""
    outside: int = 4
    """Removing a tree anywhere else."""
    outside_file: int = 2
    """Removing single files anywhere else."""
    unknown: int = 4
    """Removing a tree whose name cannot be told from the command."""
    mirror: int = 4
    """Making a tree the same as another one: what the other does not hold is removed, whatever it is."""
    system: int = 4
    """Writing where the machine keeps its programs and configuration, or where keys are kept."""
    discard: int = 4
    """Throwing away changes that no commit holds."""
    push: int = 2
    """Pushing to a branch that is not protected."""
    push_protected: int = 2
    """Pushing to a protected branch."""
    force_push: int = 4
    """Replacing what others may have pushed."""
    force_push_protected: int = 4
    """Replacing a protected branch."""
    delete_branch: int = 4
    """Deleting a branch that may hold what no other holds, or one of a remote."""
    publish: int = 4
    """Publishing a release: others will have fetched it before it is taken back."""
    migrate: int = 3
    """Changing the schema of a database by a migration."""
    service: int = 4
    """Stopping or reconfiguring a service of the machine."""
    folders: tuple[str, ...] = ()
    temporary_folders: tuple[str, ...] = tuple(
        "/tmp /var/tmp /private/tmp /dev/shm /var/folders /private/var/folders".split()  # noqa: S108 - names, not used
    )
    protected: tuple[str, ...] = tuple("main master trunk develop production prod staging release* stable*".split())

    def protects(self, branch: str) -> bool:
        """Return True if a branch is protected."""
        return any(branch == name or (name[-1:] == "*" and branch.startswith(name[:-1])) for name in self.protected)
