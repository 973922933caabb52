"""``git``: what each command changes of HEAD, index, stash, branches, remotes and working tree.

The repository is the one of the folder that the command runs in (``cd``, ``-C``, ``--git-dir`` and ``GIT_DIR`` are
followed). Nothing here may look for ``.git``: the call names the worktree of its own folder, and ``Run.folders`` tells
whoever can look which others the line goes to. Stash, branches, tags and remotes are shared by all worktrees of a
repository.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from callosum.model import Mode, Tier
from callosum.rules import command as patches
from callosum.rules import keys
from callosum.rules.shell import options, places, programs, table, wrap
from callosum.rules.shell.programs import groups, lists
from callosum.rules.shell.words import expand

if TYPE_CHECKING:
    from collections.abc import Callable

    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run

    Part = Callable[[Run, options.Options, list[str], Command], None]


_PATHS: Final = " --pathspec-from-file"
_MERGES: Final = "-X --strategy --strategy-option"


def git(run: Run, argv: list[str], command: Command) -> None:
    """Judge a git command."""
    where = run.where
    at = _settle(run, argv, command)
    name = argv[at] if at < len(argv) else ""
    rest = argv[at + 1 :]
    if name in programs.GIT_RUNNERS:
        _handed(run, name, rest)
    if not name or name in ("help", "version") or "--help" in rest:
        run.note(0, "only tells of itself")
    elif name in programs.GIT_READS:
        run.note(0, "only looks")
        if name == "ls-remote":
            named = options.read(rest, programs.GIT_LS_REMOTE_TAKES).args
            _looks_at(run, named[:1] or ["origin"], named[1:])
        elif name in ("status", "log", "diff", "show"):
            run.git(0, "HEAD", Mode.READ)
            if name in ("status", "diff"):
                run.git(0, "index", Mode.READ)
    else:
        found = options.read(rest, groups.GIT_TAKES.get(name, options.NONE))
        if "--" in rest:
            found.flags.add("--")
        handler = _COMMANDS.get(name)
        if name not in _ROWS or not _by_row(run, name, found, rest):
            if handler is None:
                run.note(1, "changes the repository")
            else:
                handler(run, found, rest, command)
    run.where = where


_ROWS: Final = table.by_word("git")


def _by_row(run: Run, name: str, found: options.Options, rest: list[str]) -> bool:
    """Judge a command by the first row that fits; return False if none does, or it leaves the form to a function."""
    words, flags = [name, *found.args], found.flags
    for row in _ROWS[name]:
        size = table.matches(row, words, words)
        if size is None or not row.without.isdisjoint(flags):
            continue
        if row.options and flags.isdisjoint(row.options) and not any(_given(found, one) for one in row.options):
            continue
        if row.tier == "-":
            return False
        tier = table.tier_of(run, row)
        run.note(tier, row.what)
        for template, mode in row.keys:
            _keys(run, tier, template, mode, words[size:], found, rest)
        return True
    return False


def _given(found: options.Options, option: str) -> bool:
    """Return True if an option of a row is given: ``-a&-b`` both, ``-a=`` with a value, ``-a=b`` with this one."""
    if "&" in option:
        return found.flags.issuperset(option.split("&"))
    name, equals, value = option.partition("=")
    return equals != "" and (found.value(name) == value if value else found.value(name) != "")


def _keys(
    run: Run, tier: int, template: str, mode: Mode, behind: list[str], found: options.Options, rest: list[str]
) -> None:
    """Add the keys of a row: ``{1}`` stands for the first word behind the row's, ``{*}`` for each."""
    entity, _, part = template.partition(":")
    part, _, place = part.partition("{")
    place = place[:-1]
    if place == "--":
        behind = rest[rest.index("--") + 1 :]
    elif place.isdecimal():
        behind = behind[int(place) - 1 : int(place)]
    elif place != "*":
        behind = [found.value(*place.split(","))]
    for one in behind[: 32 if entity == "git" else 64]:
        if entity != "git":
            found_at = run.place(one)
            tree = entity == "tree" or (entity == "path" and found_at.kind == places.WHOLE)
            run.file(tier, found_at, mode, tree=tree)
        elif part == "branch:":
            _branch(run, tier, one, mode)
        elif part == "tree":
            _tree(run, tier, mode)
        else:
            run.git(tier, part + one, mode, common=part not in ("HEAD", "index"))


def _settle(run: Run, argv: list[str], command: Command) -> int:
    """Go to the folder and the repository that git's options and variables name; return where its command stands."""
    at = 1
    directory, tree = _variable(run, command, "GIT_DIR"), _variable(run, command, "GIT_WORK_TREE")
    while at < min(len(argv), 64) and argv[at][:1] == "-":
        word = argv[at]
        value = argv[at + 1] if at + 1 < len(argv) else ""
        if word == "-C":
            run.goes(value or ".")
        elif word == "--git-dir":
            directory = value
        elif word == "--work-tree":
            tree = value
        elif word.startswith("--git-dir="):
            directory = word[10:]
        elif word.startswith("--work-tree="):
            tree = word[12:]
        elif word == "-c":
            _setting(run, *value.partition("=")[::2])
        at += 2 if word in programs.GIT_GLOBAL else 1
    if tree and not directory and (here := run.repository()):
        run.where = run.where._replace(repository=here)  # it is sought from here, not from the worktree
    if directory:
        run.in_repository(directory)
    if tree:
        run.goes(tree)
    return at


def _variable(run: Run, command: Command, name: str) -> str:
    """Return what a variable of git's holds for a command: set before it in the line, or for it alone."""
    start = f"{name}="
    for word in command.words:
        if word.startswith(start):  # of ``env``; what the shell itself sets is a variable
            return expand([word[len(start) :]], run.variables)[0]
        if word.rpartition("/")[2] == "git":
            break
    return next(iter(run.variables.get(name, ())), "") if run.variables else ""


_RUN_BY_SETTING: Final = re.compile(
    r"(?:core\.(?:pager|editor|sshcommand|askpass|fsmonitor|gitproxy|alternaterefscommand)|pager\.[^.]+|sequence\.editor"
    r"|diff\.external|interactive\.difffilter|credential\.(?:.+\.)?helper|gpg\.(?:.+\.)?program|sendemail\..*cmd"
    r"|(?:diff|difftool|merge|mergetool|filter|browser|man|trailer|remote|tar)\..+\."
    r"(?:command|cmd|textconv|driver|clean|smudge|process|uploadpack|receivepack))",
    re.IGNORECASE,
)
"""Settings of git whose value is a command."""


def _setting(run: Run, name: str, value: str) -> None:
    """Judge what a setting makes git run."""
    if name[:6].lower() == "alias.":
        run.within(value[1:] if value[:1] == "!" else f"git {value}")
    elif _RUN_BY_SETTING.fullmatch(name, 0, 256):
        wrap.runs_as_told(run, value.lstrip("!"))


def _handed(run: Run, name: str, words: list[str]) -> None:
    """Judge the programs that options and addresses make a git command run."""
    for at, word in enumerate(words[:64]):
        option, equals, value = word.partition("=")
        if option in programs.GIT_RUNNING_OPTIONS:
            wrap.runs_as_told(run, value if equals else "".join(words[at + 1 : at + 2]))
        elif (name == "grep" and word[:2] == "-O") or (name == "difftool" and word[:2] == "-x"):
            wrap.runs_as_told(run, word[2:] or "".join(words[at + 1 : at + 2]))
        elif word[:5] == "ext::":
            run.within(word[5:].replace("% ", "\\ "))
        elif name == "clone" and word in ("-c", "--config"):
            _setting(run, *"".join(words[at + 1 : at + 2]).partition("=")[::2])


def _tree(run: Run, tier: int, mode: Mode = Mode.WRITE) -> None:
    """All files of the working tree may change; where nobody said how far it reaches, those from here on."""
    here = run.repository()
    if run.where.repository:  # then the worktree begins where git runs
        here = None if run.where.lost or run.where.here is None else run.where.here.rstrip("/") or "/"
    elif here is not None and (root := run.home(here)) in run.repositories:
        here = root
    if here is not None:
        run.key(tier, f"file:{here.rstrip('/')}/", mode)


def _state(run: Run, tier: int, *parts: str, mode: Mode = Mode.WRITE) -> None:
    for part in parts:
        if part == "tree":
            _tree(run, tier, mode)
        else:
            run.git(tier, part, mode, common=part in ("stash", "config", "remotes"))


def _takes_over(run: Run, found: options.Options) -> None:
    """Bring commits to the branch that HEAD names. Git itself refuses to lose what no commit holds."""
    if found.has("--abort", "--skip", "--quit", "--no-commit", "--squash", "-n"):
        _state(run, 1, "HEAD", "index", "tree")
        return
    _state(run, 1, "HEAD", "tree", mode=Mode.APPEND)
    if found.has("--autostash"):
        run.git(1, "stash", Mode.APPEND, common=True)
        _tree(run, 1)


def _moves_head(what: str, run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    run.note(1, what)
    _takes_over(run, found)
    for line in found.values.get("-x", []) + found.values.get("--exec", []):
        run.within(line)


def _branch(run: Run, tier: int, name: str, mode: Mode = Mode.WRITE) -> None:
    if name and "$" not in name:
        run.git(tier, f"branch:{name.removeprefix('refs/heads/')}", mode, common=True)


def _push(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    policy = run.policy
    remote, *specs = found.args or [found.value("--repo") or "origin"]
    force = found.has("-f", "--force", "--force-with-lease", "--mirror", "--prune") or any(
        one[:1] == "+" for one in specs
    )
    delete = found.has("-d", "--delete")
    tier, what = policy.push, "pushes"
    if found.has("--mirror", "--prune", "--all", "--branches") or not specs:
        if force:
            tier, what = max(policy.force_push, tier), "replaces what others may have pushed"
        _pushed(run, tier, remote, "", force=force, all_of_it=bool(specs) or found.has(*lists.GIT_PUSH_ALL))
    for spec in specs[:32]:
        source, _, target = spec.lstrip("+").partition(":")
        branch = (target or source).removeprefix("refs/heads/")
        guarded = policy.protects(branch)
        if delete or (not source and target):
            grave, doing = policy.delete_branch, f"deletes {branch} of the remote"
        elif force:
            grave = policy.force_push_protected if guarded or branch in ("HEAD", "") else policy.force_push
            doing = "replaces what others may have pushed"
        else:
            grave, doing = (
                (policy.push_protected, "pushes to a protected branch") if guarded else (policy.push, "pushes")
            )
        _pushed(run, grave, remote, branch, force=force or grave >= Tier.CRITICAL)
        if grave >= tier:
            tier, what = grave, doing
    run.note(tier, what)


def _pushed(run: Run, tier: int, remote: str, branch: str, *, force: bool, all_of_it: bool = True) -> None:
    """Judge a push to a branch of a remote; without a name to all that the remote has, or the branch of this worktree.

    Behind a fetch or a pull in the same line it adds to what was there, as git takes no other push without force.
    """
    if "$" in remote or "$" in branch:
        branch = "" if "$" in branch else branch
        remote = "origin" if "$" in remote else remote
    if branch in ("HEAD", "@"):
        branch, all_of_it = "", False
    whole, common = f"remote:{remote}", bool(branch) or all_of_it  # two worktrees are never on one branch
    part = f"{whole}/{branch}"
    adds = not force and (run.has_read(part, common=common) or run.has_read(whole, common=True))
    run.git(tier, part, Mode.APPEND if adds else Mode.WRITE, common=common)


def _looks_at(run: Run, remotes: list[str], named: list[str]) -> None:
    """Read what remotes have: the branches that are ``named``, else all of them."""
    branches = [one.lstrip("+").partition(":")[0].removeprefix("refs/heads/") for one in named[:32]]
    plain = [one for one in branches if one and _PATTERN.isdisjoint(one)]
    for remote in remotes[:8]:
        if "$" in remote:
            continue
        whole = f"remote:{remote}"
        for branch in plain:
            run.git(0, f"{whole}/{branch}", Mode.READ, common=True)
        if not plain or len(plain) < len(branches):
            for common in (False, True):  # what a push without a branch changes, and one with
                run.git(0, f"{whole}/", Mode.READ, common=common)
                run.git(0, whole, Mode.READ, common=common)


_PATTERN: Final = frozenset("*?[$`")


def _checkout(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    paths = [one for one in found.args if one in (".", "./", "*") or one[:2] == "./" or "*" in one]
    paths += found.args[1:] if len(found.args) > 1 and not found.has("-t", "--track") else []
    if paths:
        run.note(run.policy.discard, "throws away changes that no commit holds")
        for path in list(dict.fromkeys(paths))[:64]:
            place = run.place(path)
            run.file(run.policy.discard, place, Mode.WRITE, tree=place.kind == places.WHOLE)
        return
    if found.has("-p", "--patch", "--ours", "--theirs"):
        run.note(1, "replaces files")
        return
    run.note(1, "goes to another branch")
    if run.watch is not None:
        for one in found.args:
            run.watch.word(run, one)  # it may be a file as well
    _state(run, 1, "HEAD", "index", "tree")


def _switch(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    tier = 1
    if found.has("-f", "--force", "--discard-changes"):
        tier = run.policy.discard
        run.note(tier, "throws away changes that no commit holds")
    made = found.value("-c", "-C", "--create", "--force-create", "--orphan")
    run.note(tier, "goes to another branch")
    if made:
        _branch(run, 1, made)
        _state(run, tier, "HEAD")
    else:
        _state(run, tier, "HEAD", "index", "tree")


def _clean(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    tier = run.policy.discard
    run.note(tier, "removes files that no commit holds")
    if found.args:
        for one in found.args[:64]:
            run.file(tier, run.place(one), Mode.WRITE, tree=True, whole=found.has("-d"))
    else:
        _tree(run, tier)
        if run.watch is not None:
            run.watch.word(run, ".", whole=found.has("-d"))


def _deletes_branches(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    guarded = any(run.policy.protects(one) for one in found.args)
    tier = run.policy.delete_branch if guarded and found.has("-r", "--remotes") else 1
    run.note(tier, "deletes a branch that is merged")
    for one in found.args[:32]:
        _branch(run, tier, one)


def _fetch(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    run.note(1, "fetches")
    run.git(1, "remotes", Mode.APPEND, common=True)
    if found.has("--all", "--multiple"):
        _looks_at(run, found.args or ["origin"], [])
    else:
        _looks_at(run, found.args[:1] or ["origin"], found.args[1:])
    for one in found.args[1:33]:
        _branch(run, 1, one.partition(":")[2])


def _pull(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    run.note(1, "fetches and merges")
    _takes_over(run, found)
    _looks_at(run, found.args[:1] or ["origin"], found.args[1:])
    if len(found.args) > 1 and "$" not in found.args[0]:  # what it merges is the branch that this worktree is on now
        run.git(0, f"remote:{found.args[0]}/", Mode.READ)


def _each_submodule(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    where = run.where
    run.where = where._replace(below=True)
    run.within(" ".join(found.args[1:]))
    run.where = where


def _remove(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    run.git(1, "index", Mode.APPEND)
    for path in found.args[:64]:
        run.removes(path, deep=found.has("-r"))
    run.note(1, "removes files")


def _config(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    if len(found.args) > 1 and (found.args[1][:1] == "!" or found.args[0][:6].lower() != "alias."):
        _setting(run, *found.args[:2])
    if found.has("--global", "--system"):
        run.note(2, "changes the configuration of git for all repositories")
        run.key(2, "setting:git")
    else:
        run.note(1, "changes the configuration of git")
        _state(run, 1, "config")


def _remotes(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    if found.args[0] == "update":
        run.note(1, "fetches")
        run.git(1, "remotes", Mode.APPEND, common=True)
        _looks_at(run, found.args[1:] or ["origin"], [])
    else:
        run.note(0, "only looks")
        if not found.has("-n"):
            _looks_at(run, found.args[1:2], [])


def _bisect(run: Run, _found: options.Options, rest: list[str], command: Command) -> None:
    if rest[:1] == ["run"]:
        run.inner(rest[1:], command)
    if rest[:1] in (["log"], ["view"], ["visualize"]):
        run.note(0, "only looks")
        return
    run.note(1, "moves HEAD")
    _state(run, 1, "HEAD", "tree")


def _apply(parts: tuple[str, ...], run: Run, found: options.Options, _rest: list[str], command: Command) -> None:
    if found.has("--check", "--stat", "--numstat", "--summary"):
        run.note(0, "only looks")
        _state(run, 1, *parts)
        return
    run.note(1, "patches files")
    for path in found.args[:32]:
        run.reads(path)
    named = patches.patched({"patch": wrap.source(command)[0]})
    for path in named:
        run.makes(path, "patches a file")
    if not named and not found.has("--cached"):
        _tree(run, 1)
    if found.has("--index", "--cached", "-3", "--3way"):
        run.git(1, "index", Mode.APPEND)
    _state(run, 1, *parts)


def _begin(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    run.note(1, "makes a repository")
    run.begins(found.args[0] if found.args else ".")
    for one in found.args[:1] or ["."]:
        run.file(1, run.place(f"{one.rstrip('/')}/.git"), Mode.WRITE, tree=True)


def _pushes_large(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    run.note(1, "works on large files")
    _pushed(run, 2, found.args[1] if len(found.args) > 1 else "origin", "", force=False, all_of_it=False)
    run.note(run.policy.push, "pushes")


def _clone(run: Run, found: options.Options, _rest: list[str], _command: Command) -> None:
    args = found.args
    target = args[1] if len(args) > 1 else args[0].rstrip("/").rsplit("/", 1)[-1].removesuffix(".git") if args else ""
    run.makes(keys.clean(target) or "", "makes a repository", tree=True)
    if target:
        run.begins(target)


_COMMANDS: Final[dict[str, Part]] = {
    "push": _push, "checkout": _checkout, "switch": _switch, "clean": _clean, "fetch": _fetch, "pull": _pull,
    "branch": _deletes_branches, "rm": _remove, "submodule": _each_submodule, "config": _config, "remote": _remotes,
    "bisect": _bisect, "apply": partial(_apply, ()), "am": partial(_apply, ("HEAD", "index")), "clone": _clone,
    "init": _begin, "lfs": _pushes_large,
    "merge": partial(_moves_head, "merges"), "rebase": partial(_moves_head, "replays commits"),
    "cherry-pick": partial(_moves_head, "takes over commits"), "revert": partial(_moves_head, "takes back commits"),
}  # fmt: skip
