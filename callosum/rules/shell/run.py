"""One line's judgement while it is being made: where we are, what is known, what was found."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.model import Key, Mode
from callosum.rules import keys
from callosum.rules.shell import places
from callosum.rules.shell.parser import MAX_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from callosum.model import Worktree
    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.policy import ShellPolicy
    from callosum.rules.shell.selfguard import Watch
    from callosum.rules.shell.words import Variables

    Handler = Callable[["Run", list[str], Command], None]

MAX_DEPTH: Final = 8
"""How deep commands are followed that run the text of others (``sh -c``, ``ssh``)."""
MAX_COMMANDS: Final = 1024
"""How many commands of a line are judged, those within others included."""
MAX_FOUND: Final = 512
"""How many keys of a line are collected before the strongest are chosen."""
_SHOWN: Final = 72


class Where(NamedTuple):
    """The folder at one point of a line.

    ``here``: absolute, or relative to an unknown folder, None where nothing is known. ``lost``: the
    line went to a folder that it does not name. ``machine`` is ``""`` for this one, else the start
    of a key such as ``host:web1`` or ``container:db``.
    """

    here: str | None
    lost: bool = False
    machine: str = ""


class Run:
    """What is known of a line so far. ``tier``, ``why`` and keys only ever grow.

    ``cwd`` is the working folder. ``tree`` is the root of the worktree it lies in (by its name where nobody said
    it, else ``cwd``), ``shared`` the repository of that worktree, None where nobody said it. ``brought`` are the files
    that the line has fetched from the net, so that nobody could look at them.
    """

    __slots__ = (
        "brought", "command", "commands", "cwd", "depth", "dispatch", "found", "nested", "policy", "repeats", "said",
        "shared", "stance", "tier", "tokens", "tree", "variables", "watch", "where", "writes",
    )  # fmt: skip

    def __init__(
        self,
        cwd: str | None,
        start: str | None,
        policy: ShellPolicy,
        worktree: Worktree | None,
        nested: Callable[[Run, str], None],
        dispatch: Callable[[Run, list[str], Command], None],
        watch: Watch | None = None,
    ) -> None:
        self.cwd = _folder(cwd)
        self.policy = policy
        self.tree, self.shared = self.cwd, None
        if worktree is not None and self.cwd is not None and _below(self.cwd, root := _folder(worktree.root)):
            self.tree, self.shared = root, _folder(worktree.repository)
        elif self.cwd is not None and (own := _WORKTREES.search(self.cwd)):
            self.tree = self.cwd[: own.end()]
        self.nested = nested
        self.dispatch = dispatch
        self.watch = watch
        self.where = Where(self.cwd if start == cwd else _folder(start))
        self.variables: Variables = {}
        self.brought: set[str] = set()
        self.tier = 0
        self.writes = False
        self.repeats = False
        self.stance = ""
        self.depth = 0
        self.tokens = MAX_TOKENS
        self.commands = MAX_COMMANDS
        self.found: list[tuple[int, Key]] = []
        self.said: list[tuple[int, list[str], str]] = []
        self.command: list[str] = []

    # What a command does

    def note(self, tier: int, what: str) -> None:
        """Says what the command at hand does, and how grave that is."""
        self.tier = max(self.tier, tier)
        if tier:
            self.writes = True
        if len(self.said) < 64:
            self.said.append((tier, self.command, what))

    def key(self, tier: int, name: str, mode: Mode = Mode.WRITE) -> None:
        """Adds a key as it stands; ``tier`` only orders the keys of a line."""
        if not name.isprintable():
            name = keys.clean(name).replace("%7C", "|")
        if name[-1:] == " ":  # a folder's name may end so
            name = name.rstrip("/ ")
        if name and len(self.found) < MAX_FOUND and not name.endswith(":unknown"):
            self.found.append((tier, Key(keys.fit(name), mode)))

    def keyed(self, tier: int, entity: str, value: str, mode: Mode = Mode.WRITE) -> None:
        """Adds ``entity:value`` where the command tells the value."""
        value, entity = keys.clean(value), keys.clean(entity)
        if value and entity and "$" not in value and "`" not in value:
            self.key(tier, f"{entity}:{self.on_machine(value)}", mode)

    def on_machine(self, value: str) -> str:
        """Returns a value with the machine it lives on, if that is another one."""
        return f"{self.where.machine}:{value}" if self.where.machine else value

    # Files

    def place(self, word: str) -> places.Place:
        """Returns where a word points."""
        where = self.where
        if not where.machine:
            return places.place(word, where.here, self.cwd, self.policy, lost=where.lost)
        found = places.place(word, where.here, None, self.policy, lost=where.lost)
        if found.kind in (places.INSIDE, places.WHOLE, places.HISTORY):
            return found._replace(kind=places.OUTSIDE)
        return found

    def file(self, tier: int, found: places.Place, mode: Mode, *, tree: bool = False, whole: bool = False) -> None:
        """Add the key of a file, or of a tree. ``whole``: what lies below it is removed, moved or changed as well."""
        path = found.path
        if mode is not Mode.READ and self.watch is not None:
            self.watch.file(self, found, whole=whole)
        if not path or found.kind in (places.NOWHERE, places.UNKNOWN):
            return
        if (tree or found.tree) and path[-1] != "/":
            path += "/"
        machine = self.where.machine
        self.key(tier, f"{machine}:{path}" if machine else f"file:{path}", mode)

    def reads(self, word: str) -> None:
        """A file whose content the session sees."""
        if word and word != "-" and "$" not in word and not any(one in word for one in "*?[{"):
            found = self.place(word)
            if not found.tree:
                self.file(0, found, Mode.READ)

    def makes(self, word: str, what: str, mode: Mode = Mode.WRITE, *, tree: bool = False) -> None:
        """A file or tree that is written."""
        if not word or word == "-":
            self.note(0, what)
            return
        found = self.place(word)
        kind = found.kind
        if kind == places.NOWHERE:
            self.note(0, "writes nothing that lasts")
            return
        tier = 1
        if kind in {places.DEVICE, places.KEPT_KEYS}:
            tier = 4
        elif kind == places.SYSTEM:
            tier = self.policy.system
        elif kind == places.HISTORY:
            tier = 2
        self.note(tier, what if tier == 1 else f"{what} {kind}" if kind != places.DEVICE else "writes to a device")
        if found.part and mode is Mode.WRITE and not any(one in word for one in "*?["):
            mode = Mode.APPEND  # a new name in a folder (``run-$(date).log``) is not all that lies there
        self.file(tier, found, mode, tree=tree)

    def brings(self, word: str) -> None:
        """A file that is fetched from the net."""
        found = self.place(word)
        if found.path and len(self.brought) < MAX_FOUND:
            self.brought.add(self.on_machine(found.path))

    def starts(self, word: str) -> None:
        """A file that is run: one that the same line has fetched is run unseen."""
        if self.brought and self.on_machine(self.place(word).path) in self.brought:
            self.note(4, "runs what it has fetched from the net, unseen")

    def removes(self, word: str, *, deep: bool, verb: str = "removes") -> None:
        """A file or tree that will be gone."""
        if not word:
            return
        policy = self.policy
        found = self.place(word)
        kind = found.kind
        if kind == places.NOWHERE:
            self.note(1, f"{verb} nothing that lasts")
            return
        what = f"{verb} a tree" if deep else f"{verb} files"
        if kind == places.INSIDE:
            tier = policy.inside
        elif kind == places.SHORT_LIVED:
            tier = policy.temporary
        elif kind == places.WHOLE:
            tier, what = policy.whole, verb
        elif kind == places.HISTORY:
            tier = policy.whole if deep else 2
            what = f"{verb} from" if not deep else verb
        elif kind == places.UNKNOWN:
            tier = policy.unknown if deep else policy.outside_file
        elif kind in (places.DEVICE, places.KEPT_KEYS):
            tier = 4
        elif deep or (found.tree and not found.part):
            tier = policy.outside
        else:
            tier = policy.system if kind == places.SYSTEM else policy.outside_file
        self.note(tier, f"{what} {kind}" if kind != places.UNKNOWN else f"{what} in {kind}")
        # A pattern in the working folder itself hardly ever means what others edit there.
        narrow = found.part and kind == places.INSIDE and found.path == self.cwd
        self.file(tier, found, Mode.APPEND if narrow else Mode.WRITE, tree=deep, whole=deep)

    def goes(self, word: str) -> None:
        """Follows ``cd``: what comes after happens in that folder."""
        where = self.where
        found = self.place(word)
        if found.kind == places.SHORT_LIVED and not found.path:
            self.where = where._replace(here=f"{self.policy.temporary_folders[0]}/$", lost=False)
        elif word == "-" or "$" in word or "`" in word or found.part or len(found.path) > places.MAX_PATH:
            self.where = where._replace(here=None, lost=True)
        elif not where.lost or word[:1] in ("/", "~"):
            self.where = where._replace(here=found.path or "/", lost=False)

    # Commands within commands

    def inner(self, argv: list[str], command: Command) -> None:
        """Judges a command that the command at hand runs."""
        if self.depth >= MAX_DEPTH or self.commands <= 0:
            self.note(4, "commands within commands, too deep to be read")
            return
        self.depth += 1
        self.commands -= 1
        self.dispatch(self, argv, command)
        self.depth -= 1

    def within(self, text: str) -> None:
        """Judges a text that a shell will run."""
        if self.depth >= MAX_DEPTH:
            self.note(4, "commands within commands, too deep to be read")
            return
        self.depth += 1
        where, variables, command = self.where, self.variables, self.command
        self.variables = dict(variables)
        self.nested(self, text)
        self.where, self.variables, self.command = where, variables, command
        self.depth -= 1

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Judge something for the guard alone: tier, keys and reasons of the line stay as they are."""
        kept = self.tier, self.writes, self.repeats, self.stance
        said, found, brought = len(self.said), len(self.found), set(self.brought)
        try:
            yield
        finally:
            self.tier, self.writes, self.repeats, self.stance = kept
            del self.said[said:], self.found[found:]
            self.brought = brought

    def aside(self, text: str) -> None:
        """Judge a text that a shell will run, for the guard alone."""
        with self.apart():
            self.within(text)

    def elsewhere(self, machine: str, text: str) -> None:
        """Judges a text that runs on another machine or in a container."""
        where = self.where
        self.where = Where(None, False, keys.clean(machine)[:256])
        self.within(text)
        self.where = where

    # git

    def repository(self) -> str | None:
        """Returns the folder whose HEAD and index a git command uses, None where it is not known."""
        where = self.where
        return None if where.lost or where.machine or where.here is None else where.here.rstrip("/") or "/"

    def git(self, tier: int, part: str, mode: Mode = Mode.WRITE, *, common: bool = False) -> None:
        """Adds a key of the repository; ``common`` parts are shared by all its worktrees."""
        here = self.repository()
        if here is not None:
            root = self.home(here)
            self.key(tier, f"git:{keys.clean(self.common(root) if common else root)}|{keys.clean(part)}", mode)

    def home(self, here: str) -> str:
        """Returns the root of the worktree a folder lies in, as far as its name and the call tell; else the folder."""
        tree = self.tree if _below(here, self.tree) else None
        inner = _WORKTREES.search(here, len(tree or ""))
        if inner is not None:
            return here[: inner.end()]
        return tree or here

    def common(self, root: str) -> str:
        """Returns what names the repository of a worktree from all of its worktrees."""
        if root != self.tree or self.shared is None:
            own = _WORKTREES.search(root)
            root = (root[: own.start()] or "/") if own else root
        return self.shared if root == self.tree and self.shared is not None else root

    def project(self) -> str | None:
        """Returns the folder at hand as all worktrees of its repository would call it: for what they share."""
        here = self.repository()
        if here is None:
            return None
        root = self.home(here)
        return self.common(root).rstrip("/") + here[len(root.rstrip("/")) :] or "/"


_WORKTREES: Final = re.compile(r"/(?:\.[\w-]+/)?\.?worktrees/[^/]+")
"""Where worktrees are put by custom: the folder above is the repository's."""


def _below(path: str, folder: str | None) -> bool:
    return folder is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))


@lru_cache(maxsize=256)
def _folder(path: str | None) -> str | None:
    return keys.path(keys.clean(path)).rstrip("/") or "/" if path and path.strip() else None


def shown(words: list[str]) -> str:
    """Returns the beginning of a command for people."""
    text = keys.clean(" ".join(words[:8])[: 2 * _SHOWN]).replace("%7C", "|")
    return text if len(text) <= _SHOWN and len(words) <= 8 else text[:_SHOWN].rstrip() + " …"
