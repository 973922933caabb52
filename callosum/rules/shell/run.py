"""One line's judgement while it is being made: where we are, what is known, what was found."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from callosum.model import Key, Mode
from callosum.rules import keys
from callosum.rules.shell import places
from callosum.rules.shell.parser import MAX_TEXT, MAX_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from callosum.model import Worktree
    from callosum.rules.shell.judgement import Known, ShellPolicy
    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.selfguard import Watch
    from callosum.rules.shell.words import Variables

    Handler = Callable[["Run", list[str], Command], None]

MAX_DEPTH: Final = 8
"""How deep commands are followed that run the text of others (``sh -c``, ``ssh``)."""
MAX_COMMANDS: Final = 1024
"""How many commands of a line are judged, those within others included."""
MAX_FOLDERS: Final = 16
"""How many folders of a line are looked at for their repository."""
MAX_FOUND: Final = 512
"""How many keys of a line are collected before the strongest are chosen."""
_SHOWN: Final = 72


class Where(NamedTuple):
    """The folder at one point of a line.

    ``here``: absolute, or relative to an unknown folder, None where nothing is known. ``lost``: the
    line went to a folder that it does not name. ``machine`` is ``""`` for this one, else the start
    of a key such as ``host:web1`` or ``container:db``. ``repository``: a folder of the repository that git uses there,
    ``""`` where it is the one that ``here`` lies in. ``below``: each of the repositories that lie in that one.
    """

    here: str | None
    lost: bool = False
    machine: str = ""
    repository: str = ""
    below: bool = False


class Run:
    """What is known of a line so far. ``tier``, ``why`` and keys only ever grow.

    ``cwd`` is the working folder. ``tree`` is the root of the worktree it lies in (by its name where nobody said
    it, else ``cwd``). ``repositories`` maps the root of each known worktree to its repository, ``roots`` each folder
    that somebody has looked at to the root of its worktree, or to itself outside of any. ``folders`` are those whose
    worktree nobody has told. ``user_home`` is the home of who runs the line, ``before`` where it was before the last
    ``cd``, ``pushed`` what ``popd`` goes back to. ``begun`` are repositories that the line itself makes. ``brought``
    are the files that the line has fetched from the net, so that nobody could look at them; ``written`` are
    those whose text it tells. ``inputs`` are the commands that are given something to read; ``readers`` judge it where
    a shell or an interpreter of the line reads what no text of its own command tells.
    """

    __slots__ = (
        "before", "begun", "brought", "command", "commands", "cwd", "depth", "dispatch", "folders", "found", "inputs",
        "nested", "policy", "pushed", "readers", "repeats", "repositories", "roots", "said", "stance", "tier", "tokens",
        "tree", "user_home", "variables", "watch", "where", "writes", "written",
    )  # fmt: skip

    def __init__(
        self,
        cwd: str | None,
        start: str | None,
        policy: ShellPolicy,
        known: Known,
        nested: Callable[[Run, str], None],
        dispatch: Callable[[Run, list[str], Command], None],
        watch: Watch | None = None,
    ) -> None:
        worktree = known.worktree
        self.cwd = _folder(cwd)
        self.policy = policy
        self.tree = self.cwd
        self.repositories: dict[str, str] = {}
        self.roots: dict[str, str] = {}
        self.folders: dict[str, None] = {}
        if worktree is not None and self.cwd is not None and _below(self.cwd, _folder(worktree.root)):
            self.tree = self._knows(worktree)
        elif self.cwd is not None and (own := _WORKTREES.search(self.cwd)):
            self.tree = self.cwd[: own.end()]
        for folder, one in known.worktrees:
            self.roots[folder] = folder if one is None else self._knows(one)
        self.user_home = known.home
        self.before: Where | None = None
        self.pushed: list[Where] = []
        self.begun: list[str] = []
        self.nested = nested
        self.dispatch = dispatch
        self.watch = watch
        self.where = Where(self.cwd if start == cwd else _folder(start))
        self.variables: Variables = {}
        self.brought: set[str] = set()
        self.written: dict[str, str] = {}
        self.inputs: list[Command] = []
        self.readers: dict[object, Callable[[Command], None]] = {}
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

    def _knows(self, worktree: Worktree) -> str:
        root = _folder(worktree.root) or worktree.root
        self.repositories[root] = _folder(worktree.repository) or worktree.repository
        return root

    # What a command does

    def note(self, tier: int, what: str) -> None:
        """Say what the command at hand does, and how grave that is."""
        if tier:
            self.writes = True
            self.tier = max(self.tier, tier)
        if len(self.said) < 64:
            self.said.append((tier, self.command, what))

    def key(self, tier: int, name: str, mode: Mode = Mode.WRITE) -> None:
        """Add a key as it stands; ``tier`` only orders the keys of a line."""
        if not name.isprintable():
            name = keys.clean(name).replace("%7C", "|")
        if name[-1:] == " ":  # a folder's name may end so
            name = name.rstrip("/ ")
        if name and len(self.found) < MAX_FOUND and not name.endswith(":unknown"):
            self.found.append((tier, Key(keys.fit(name), mode)))

    def keyed(self, tier: int, entity: str, value: str, mode: Mode = Mode.WRITE) -> None:
        """Add ``entity:value`` where the command tells the value."""
        value, entity = keys.clean(value), keys.clean(entity)
        if value and entity and "$" not in value and "`" not in value:
            self.key(tier, f"{entity}:{self.on_machine(value)}", mode)

    def on_machine(self, value: str) -> str:
        """Return a value with the machine it lives on, if that is another one."""
        return f"{self.where.machine}:{value}" if self.where.machine else value

    # Files

    def place(self, word: str) -> places.Place:
        """Return where a word points."""
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
        """Note a file whose content the session sees."""
        if word and word != "-" and "$" not in word and not any(one in word for one in "*?[{"):
            found = self.place(word)
            if not found.tree:
                self.file(0, found, Mode.READ)

    def makes(self, word: str, what: str, mode: Mode = Mode.WRITE, *, tree: bool = False, empty: bool = False) -> None:
        """Note a file or tree that is written. ``empty``: a folder or an empty file, which replaces nothing."""
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
        if kind != places.DEVICE and (empty or (mode is Mode.APPEND and found.path.startswith("/var/log/"))):
            tier = min(tier, 2)
        self.note(tier, what if tier == 1 else f"{what} {kind}" if kind != places.DEVICE else "writes to a device")
        if found.part and mode is Mode.WRITE and not any(one in word for one in "*?["):
            mode = Mode.APPEND  # a new name in a folder (``run-$(date).log``) is not all that lies there
        self.file(tier, found, mode, tree=tree)

    def brings(self, word: str) -> None:
        """Note a file that is fetched from the net."""
        found = self.place(word)
        if found.path and len(self.brought) < MAX_FOUND:
            self.brought.add(self.on_machine(found.path))

    def fetched(self, word: str) -> bool:
        """Return True if the line has fetched a file from the net."""
        return bool(self.brought) and self.on_machine(self.place(word).path) in self.brought

    def starts(self, word: str, reads: Callable[[Run, str], None] | None = None) -> None:
        """Judge a file that is run: one that the line fetched is run unseen, one that it wrote is judged.

        ``reads`` judges the text of another language than a shell's.
        """
        if self.fetched(word):
            self.note(4, "runs what it has fetched from the net, unseen")
        elif (path := _open_file(word) or self.on_machine(self.place(word).path)) in self.written:
            text = self.written.pop(path)  # it may run itself
            if reads is not None:
                reads(self, text)
            elif text[:2] != "#!" or "sh" in text.partition("\n")[0]:
                self.within(text)
            self.written[path] = text
        elif _open_file(path):
            self.note(3, "runs what comes through a descriptor")

    def reads_input(self, command: Command) -> None:
        """Note what a command is given to read, and the texts of the descriptors that it opens."""
        for name, text in command.texts.items():
            self.writes_text(name, text)
        if self.watch is not None:
            for target in (target for _, target in command.redirects if target[:5] == "/dev/"):
                self.watch.redirected(target)
        self.inputs.append(command)

    def writes_text(self, word: str, text: str) -> None:
        """Note a file whose text the line tells: it may be a script that the line runs."""
        path = self.place(word).path
        if path:
            self.written[self.on_machine(path)] = text[:MAX_TEXT]

    def removes(self, word: str, *, deep: bool, verb: str = "removes") -> None:
        """Note a file or tree that will be gone."""
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
        """Follow ``cd``: what comes after happens in that folder."""
        where = self.where
        if word == "-" and self.before is not None:
            self.where, self.before = self.before, where
            return
        self.before = where
        found = self.place(word)
        if found.kind == places.SHORT_LIVED and not found.path:
            self.where = where._replace(here=f"{self.policy.temporary_folders[0]}/$", lost=False)
        elif word == "-" or "$" in word or "`" in word or found.part or len(found.path) > places.MAX_PATH:
            self.where = where._replace(here=None, lost=True)
        elif not where.lost or word[:1] in ("/", "~"):
            self.where = where._replace(here=found.path or "/", lost=False)

    # Commands within commands

    def inner(self, argv: list[str], command: Command) -> None:
        """Judge a command that the command at hand runs."""
        if self.depth >= MAX_DEPTH or self.commands <= 0:
            self.note(4, "commands within commands, too deep to be read")
            return
        self.depth += 1
        self.commands -= 1
        self.dispatch(self, argv, command)
        self.depth -= 1

    def within(self, text: str) -> None:
        """Judge a text that a shell will run."""
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
        """Judge a text that runs on another machine or in a container."""
        where = self.where
        self.where = Where(None, False, keys.clean(machine)[:256])
        self.within(text)
        self.where = where

    # git

    def repository(self) -> str | None:
        """Return a folder of the repository whose HEAD and index a git command uses, None where it is not known."""
        where = self.where
        here = where.repository or (None if where.lost else where.here)
        if where.machine or here is None:
            return None
        if self.user_home and (here == "~" or here[:2] == "~/"):
            here = keys.at_home(here, self.user_home)
        return here.rstrip("/") or "/"

    def in_repository(self, folder: str) -> None:
        """From here on git uses the repository that ``folder`` holds: ``/r/.git``, ``/r.git``."""
        found = self.place(folder)
        if not found.path or found.part:
            self.where = self.where._replace(lost=True)
        else:
            path = "." if found.path == ".git" else found.path.removesuffix("/.git") or "/"
            self.where = self.where._replace(repository=path)

    def begins(self, folder: str) -> None:
        """Note a repository that the line makes: what lies below belongs to it, whatever was there before."""
        if found := self.place(folder).path:
            self.begun.append(found)

    def git(self, tier: int, part: str, mode: Mode = Mode.WRITE, *, common: bool = False) -> None:
        """Add a key of the repository; ``common`` parts are shared by all its worktrees."""
        here = self.repository()
        if here is not None and self.where.below:
            root = self.home(here)
            for folder in dict.fromkeys((root, self.common(root))):
                self.key(tier, f"git:{keys.clean(folder)}/", mode)
        elif here is not None:
            self.key(tier, self._git_key(here, part, common=common), mode)

    def _git_key(self, here: str, part: str, *, common: bool) -> str:
        root = self.home(here)
        return f"git:{keys.clean(self.common(root) if common else root)}|{keys.clean(part)}"

    def has_read(self, part: str, *, common: bool) -> bool:
        """Return True if an earlier command of the line has read a part of the repository; ``common`` as in ``git``."""
        here = self.repository()
        read = {key.name for _, key in self.found if key.mode is Mode.READ}
        return bool(read) and here is not None and keys.fit(self._git_key(here, part, common=common)) in read

    def home(self, here: str) -> str:
        """Return the root of the worktree a folder lies in, as far as its name and the call tell; else the folder."""
        for begun in self.begun:
            if _below(here, begun):
                return begun
        if here in self.roots:
            return self.roots[here]
        if here != self.cwd and (here[0] in "/~" or here[1:2] == ":") and len(self.folders) < MAX_FOLDERS:
            self.folders[here] = None
        tree = self.tree if _below(here, self.tree) else None
        inner = _WORKTREES.search(here, len(tree or ""))
        if inner is not None:
            return here[: inner.end()]
        return tree or here

    def common(self, root: str) -> str:
        """Return what names the repository of a worktree from all of its worktrees."""
        if root in self.repositories:
            return self.repositories[root]
        own = _WORKTREES.search(root)
        root = (root[: own.start()] or "/") if own else root
        return self.repositories.get(root, root)

    def project(self) -> str | None:
        """Return the folder at hand as all worktrees of its repository would call it: for what they share."""
        here = self.repository()
        if here is None:
            return None
        root = self.home(here)
        below = here[len(root.rstrip("/")) :] if _below(here, root) else ""
        return self.common(root).rstrip("/") + below or "/"


_DESCRIPTOR: Final = re.compile(r"^/(?:dev|proc/[^/]+(?:/task/[^/]+)?)/fd/([^/]*)$")
"""A path that names what a process has open."""


def _open_file(path: str) -> str:
    """Return the name of a descriptor below ``/dev/fd``, ``""`` for any other path."""
    match = _DESCRIPTOR.search(path)
    return f"/dev/fd/{match[1]}" if match else ""


_WORKTREES: Final = re.compile(r"/(?:\.[\w-]+/)?\.?worktrees/[^/]+")
"""Where worktrees are put by custom: the folder above is the repository's."""


def _below(path: str, folder: str | None) -> bool:
    return folder is not None and (path == folder or path.startswith(folder.rstrip("/") + "/"))


@lru_cache(maxsize=256)
def _folder(path: str | None) -> str | None:
    return keys.path(keys.clean(path)).rstrip("/") or "/" if path and path.strip() else None


def shown(words: list[str]) -> str:
    """Return the beginning of a command for people."""
    text = keys.clean(" ".join(words[:8])[: 2 * _SHOWN]).replace("%7C", "|")
    return text if len(text) <= _SHOWN and len(words) <= 8 else text[:_SHOWN].rstrip() + " …"
