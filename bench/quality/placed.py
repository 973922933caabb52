"""Calls of two sessions in folders that lie in one another: homes, repositories below a folder, remotes.

They are written by hand before the code they judge. ``build`` makes the folders; no git runs, and nothing here needs
one. In a command ``@shop`` stands for the path of the folder ``shop``; see ``FOLDERS``.

A case is a list of steps; the last one is judged. It collides if its session must be told of the other's step before
it. Pairs without an order of their own are played in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any, Final

ONE, TWO = "one", "two"

FOLDERS: Final = {
    "home": "home/dev",
    "projects": "home/dev/projects",
    "shop": "home/dev/projects/shop",
    "blog": "home/dev/projects/blog",
    "plain": "home/dev/projects/plain",
    "mono": "srv/mono",
    "sub": "srv/mono/sub",
    "lib": "srv/mono/lib",
    "tools": "srv/mono/tools",
    "left": "srv/trees/left",
    "right": "srv/trees/right",
    "bare": "srv/bare.git",
}
"""``shop`` and ``blog`` are repositories in a plain folder, ``plain`` is none. ``mono`` holds another repository
(``sub``), a submodule (``lib``) and a plain folder (``tools``); ``left`` and ``right`` are its other worktrees."""
_NAMED: Final = re.compile(r"@(" + "|".join(sorted(FOLDERS, key=len, reverse=True)) + r")\b")


@dataclass(frozen=True)
class Ask:
    """A call of a session in a folder. ``fails``: it runs, and its tool reports an error."""

    tool: str
    params: dict[str, Any]
    cwd: str = "mono"
    who: str = ONE
    fails: bool = False


@dataclass(frozen=True)
class Case:
    """``swapped``: it has to come out the same with the two sessions' calls in the other order."""

    kind: str
    collide: bool
    steps: tuple[Ask, ...]
    swapped: bool = False

    @property
    def identity(self) -> str:
        said = "; ".join(f"{one.who} in {one.cwd}: {one.tool} {one.params}" for one in self.steps)
        return f"{self.kind}/{self.collide}: {said}"


def build(folder: Path) -> None:
    """Make the folders as git leaves them on the disk, without running it."""
    for name in FOLDERS.values():
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("shop", "blog", "mono", "sub"):
        _repository(folder / FOLDERS[name] / ".git")
        (folder / FOLDERS[name] / "src").mkdir()
    _repository(folder / FOLDERS["bare"])
    mono = folder / FOLDERS["mono"] / ".git"
    _repository(mono / "modules" / "lib")
    (folder / FOLDERS["lib"] / ".git").write_text("gitdir: ../.git/modules/lib\n")
    for name in ("left", "right"):
        own = mono / "worktrees" / name
        own.mkdir(parents=True)
        (own / "HEAD").write_text(f"ref: refs/heads/{name}\n")
        (own / "commondir").write_text("../..\n")
        (own / "gitdir").write_text(f"{folder / FOLDERS[name] / '.git'}\n")
        (folder / FOLDERS[name] / ".git").write_text(f"gitdir: {own}\n")
        (folder / FOLDERS[name] / "src").mkdir()


def _repository(git: Path) -> None:
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n")


def filled(value: Any, folder: Path) -> Any:
    """Return params with ``@shop`` as the path of that folder below ``folder``."""
    if isinstance(value, dict):
        return {name: filled(one, folder) for name, one in value.items()}
    return _NAMED.sub(lambda match: str(folder / FOLDERS[match[1]]), value) if isinstance(value, str) else value


def sh(command: str, cwd: str = "mono", who: str = ONE) -> Ask:
    return Ask("Bash", {"command": command}, cwd, who)


def _pair(kind: str, one: Ask, other: Ask, *, collide: bool) -> Case:
    return Case(kind, collide, (one, replace(other, who=TWO)), swapped=True)


# --- ~ ---------------------------------------------------------------------------------------------------

_TEXT: Final = "A line that was not there before, for whoever opens it next."


def _put(path: str, cwd: str = "shop") -> Ask:
    return Ask("Write", {"file_path": path, "content": f"{_TEXT} {path}"}, cwd)  # equal bytes undo nothing


def _spelled(file: str) -> list[Ask]:
    """Return ways to write one file in the home, none of which reads it."""
    above, _, name = file.rpartition("/")
    below = f"/{above}" if above else ""
    return [
        _put(f"@home/{file}"),
        _put(f"~/{file}"),
        sh(f"echo z > ~/{file}", "shop"),
        sh(f"echo z > $HOME/{file}", "blog"),
        sh(f'echo z > "${{HOME}}/{file}"', "plain"),
        sh(f"cd ~{below} && echo z > {name}", "mono"),
        sh(f"cd && echo z > {file}", "shop"),
        sh(f"printf z | tee $HOME{below}/./{name}", "shop"),
        sh(f"cp /srv/other.txt ~/{file}", "shop"),
        sh(f"sed -i s/a/b/ ~/{file}", "sub"),
        sh(f"(cd $HOME; echo z > {file})", "shop"),
        sh(f"cd @projects && echo z > ../{file}", "shop"),
        sh(f"H=$HOME; echo z > $H/{file}", "shop"),
        Ask("write_file", {"path": f"~/projects/../{file}", "content": _TEXT}, "shop"),
        Ask("Edit", {"file_path": f"$HOME/{file}", "old_string": "a", "new_string": "b"}, "shop"),
    ]


def _homes() -> Iterator[Case]:
    for file in ("notes.md", ".config/tool/settings.ini"):
        ways = _spelled(file)
        for other in ways[1:]:
            yield _pair("~", ways[0], other, collide=True)
    ways = _spelled("list.txt")
    for a, b in ((1, 3), (2, 4), (5, 9), (6, 14), (7, 13), (8, 11), (10, 12)):
        yield _pair("~", ways[a], ways[b], collide=True)
    for one, other in (
        (_put("~root/notes.md"), _put("/root/notes.md")),
        (sh("echo z > ~root/notes.md"), _put("/root/notes.md")),
        (sh("cp a.txt ~root/.profile.d/x"), sh("echo z > /root/.profile.d/x")),
        (sh("mv ~/a.txt ~/b.txt", "shop"), _put("@home/b.txt")),
        (sh("ln -sf ~/a ~/c", "shop"), _put("@home/c")),
    ):
        yield _pair("~user", one, other, collide=True)


def _other_homes() -> Iterator[Case]:
    names = ("notes.md", "list.txt", "todo.md", ".config/tool/a.ini", "projects/shop/readme.md")
    for one, other in combinations(names, 2):
        yield _pair("~", _spelled(one)[0], _spelled(other)[1], collide=False)
        yield _pair("~", _spelled(one)[2], _spelled(other)[3], collide=False)
    for name in names[:4]:
        yield _pair("~", _put(f"~/{name}"), _put(f"~root/{name}"), collide=False)
        yield _pair("~", _put(f"~/{name}"), _put(f"@shop/{name}"), collide=False)
        yield _pair("~", sh(f"echo z > ~/{name}", "shop"), sh(f"echo z > ./{name}", "shop"), collide=False)
        yield _pair("~", sh(f"cat ~/{name}", "shop"), sh(f"cat $HOME/{name}", "blog"), collide=False)
        yield _pair("~", sh(f"ssh web1 'echo z > ~/{name}'"), _put(f"~/{name}"), collide=False)
        yield _pair("~", sh(f"echo z >> ~/{name}", "shop"), sh(f"echo y >> @home/{name}", "shop"), collide=False)
    yield _pair("~", sh("echo a > ./~/x.md", "shop"), _put("~/x.md"), collide=False)


# --- repositories below a folder -------------------------------------------------------------------------


def _ways(repo: str, parent: str, command: str) -> list[Ask]:
    """Ways to give a git command in a repository, from the folder above it and from within."""
    name = FOLDERS[repo].rsplit("/", 1)[-1]
    return [
        sh(f"git {command}", repo),
        sh(f"cd {name} && git {command}", parent),
        sh(f"git -C {name} {command}", parent),
        sh(f"(cd {name}; git {command})", parent),
        sh(f"pushd {name} && git {command}; popd", parent),
        sh(f"cd @{repo} && git {command}", "home"),
        sh(f"cd ./{name} || exit 1; git {command}", parent),
        sh(f"bash -c 'cd {name} && git {command}'", parent),
        sh(f"D={name}; cd $D && git {command}", parent),
        sh(f"git -C @{repo} {command}", "home"),
    ]


def _by_directory(repo: str, parent: str, command: str) -> list[Ask]:
    """Ways that name the repository's own folder."""
    name = FOLDERS[repo].rsplit("/", 1)[-1]
    return [
        sh(f"GIT_DIR={name}/.git git {command}", parent),
        sh(f"git --git-dir={name}/.git {command}", parent),
        sh(f"git --git-dir {name}/.git --work-tree {name} {command}", parent),
        sh(f"env GIT_DIR=@{repo}/.git git {command}", "home"),
        sh(f"export GIT_DIR={name}/.git; git {command}", parent),
    ]


_ACTS: Final = ("push --force", "push --force origin main", "commit --amend -m x", "stash", "reset --hard HEAD~1")


def _nested() -> Iterator[Case]:
    for (repo, parent), act in product((("shop", "projects"), ("sub", "mono"), ("lib", "mono")), _ACTS):
        ways = _ways(repo, parent, act)
        for at in (1, 2, 3, 5):
            yield _pair("nested", ways[0], ways[at], collide=True)
    for repo, parent in (("shop", "projects"), ("sub", "mono")):
        ways = _ways(repo, parent, "push --force")
        for one, other in ((1, 2), (3, 4), (4, 6), (5, 9), (7, 1), (8, 2)):
            yield _pair("nested", ways[one], ways[other], collide=True)
        ways += _by_directory(repo, parent, "push --force")
        for at in range(10, 15):
            yield _pair("git dir", ways[0], ways[at], collide=True)
            yield _pair("git dir", ways[1], ways[at], collide=True)
    yield _pair(
        "nested", sh("cd src && git commit --amend -m x", "shop"), sh("git commit --amend -m x", "shop"), collide=True
    )
    yield _pair("nested", sh("cd ~/projects/shop && git push -f"), sh("git push -f", "shop"), collide=True)
    yield _pair("nested", sh("cd tools && git commit --amend -m x"), sh("git commit --amend -m x"), collide=True)
    yield _pair("nested", sh("cd shop/src && git push -f", "projects"), sh("git push -f", "shop"), collide=True)
    yield _pair("nested", sh("git push -f", "bare"), sh("git -C @bare push -f", "mono"), collide=True)
    yield _pair(
        "submodules", sh("git submodule foreach 'git push --force'"), sh("git push --force", "lib"), collide=True
    )
    yield _pair("nested", Ask("git_commit", {"repo_path": "@shop/src", "message": "x"}, "mono"),
                sh("git commit --amend -m x", "shop"), collide=True)  # fmt: skip
    yield _pair("nested", Ask("git_commit", {"repo_path": "sub", "message": "x"}, "mono"),
                sh("git commit -am y", "sub"), collide=True)  # fmt: skip
    for act in ("stash pop", "push --force origin main", "branch -D topic"):
        yield _pair("worktrees", sh(f"cd @left && git {act}", "home"), sh(f"git {act}", "mono"), collide=True)
        yield _pair("worktrees", sh(f"git -C ../trees/left {act}"), sh(f"git {act}", "right"), collide=True)
        yield _pair("worktrees", sh(f"cd src && git {act}", "left"), sh(f"git {act}", "left"), collide=True)


def _apart() -> Iterator[Case]:
    for act in (*_ACTS, "add -A", "checkout -b topic", "tag v1"):
        shop, blog = _ways("shop", "projects", act), _ways("blog", "projects", act)
        for at in (0, 1, 2, 3, 4, 5, 7, 9):
            yield _pair("apart", shop[at], blog[at], collide=False)
        yield _pair("apart", shop[1], blog[2], collide=False)
        yield _pair("apart", shop[2], blog[0], collide=False)
        sub, lib = _ways("sub", "mono", act), _ways("lib", "mono", act)
        yield _pair("apart", sub[1], lib[1], collide=False)
        yield _pair("apart", sub[2], lib[0], collide=False)
        if act not in ("stash", "reset --hard HEAD~1"):  # they replace a tree: what lies in it counts as replaced
            yield _pair("apart", sub[1], sh(f"git {act}"), collide=False)
            yield _pair("apart", lib[2], sh(f"git {act}"), collide=False)
            yield _pair("apart", sub[3], sh(f"git {act}"), collide=False)
        first, second = _by_directory("shop", "projects", act), _by_directory("blog", "projects", act)
        trees = act in ("stash", "reset --hard HEAD~1")  # the files they change are those of the folder they run in
        for one, other in list(zip(first, second, strict=True))[2 if trees else 0 : 3 if trees else None]:
            yield _pair("git dir", one, other, collide=False)
        yield _pair("git dir", first[0], sh(f"git {act}", "mono"), collide=False)
    for act in ("commit --amend -m x", "add -A", "reset --hard", "checkout main", "push --force"):
        yield _pair("worktrees", sh(f"git {act}", "left"), sh(f"git {act}", "right"), collide=False)
        yield _pair("worktrees", sh(f"cd @left && git {act}", "home"), sh(f"git {act}", "right"), collide=False)
        yield _pair("worktrees", sh(f"git -C ../trees/left {act}"), sh(f"git -C ../trees/right {act}"), collide=False)
    for look in ("status", "log --oneline -5", "diff", "branch -a"):
        yield _pair(
            "apart", sh(f"cd shop && git {look}", "projects"), sh("git commit --amend -m x", "blog"), collide=False
        )
        yield _pair(
            "apart", sh(f"cd shop && git {look}", "projects"), sh(f"git -C shop {look}", "projects"), collide=False
        )


# --- remotes ---------------------------------------------------------------------------------------------

_LOOKS: Final = (
    "git fetch", "git fetch origin", "git pull", "git pull --rebase", "git ls-remote", "git ls-remote origin",
    "git remote update", "git fetch --prune origin", "git -C . fetch", "git pull --ff-only origin main",
)  # fmt: skip
_PUSHES: Final = ("git push", "git push origin main", "git push -u origin HEAD")


def _remotes() -> Iterator[Case]:
    push, force = "git push origin main", "git push --force origin main"
    for look in _LOOKS:
        # looked at before the other's push, and not since
        yield Case("remotes", True, (sh(look, "shop", TWO), sh(push, "shop"), sh(push, "shop", TWO)))
        yield Case("remotes", True, (sh(look, "shop", TWO), sh(push, "shop"), sh(force, "shop", TWO)))
    for mine, theirs in product((force, "git push --force", "git push --force-with-lease"), (push, force)):
        yield Case("remotes", True, (sh(theirs, "shop"), sh(mine, "shop", TWO)))
    for look in ("git fetch", "git pull --rebase"):
        # the agent has not seen what was fetched: the force push is in the same line
        yield Case("remotes", True, (sh(force, "shop"), sh(f"{look} && {force}", "shop", TWO)))
        yield Case("remotes", True, (sh(force, "shop"), sh(look, "blog", TWO), sh(force, "shop", TWO)))
        yield Case("remotes", True, (sh(force, "shop"), sh(f"{look} upstream", "shop", TWO), sh(force, "shop", TWO)))
    yield Case("remotes", True, (sh(force, "shop"), sh("git status", "shop", TWO), sh(force, "shop", TWO)))
    yield Case("remotes", True, (sh(force, "shop"), sh("git remote -v", "shop", TWO), sh(force, "shop", TWO)))
    yield Case("remotes", True, (sh(force, "shop"), replace(sh("git fetch", "shop", TWO), fails=True),
                                 sh(force, "shop", TWO)))  # fmt: skip


def _looked_at() -> Iterator[Case]:
    for look, push in product(_LOOKS, _PUSHES):
        theirs = sh("git push origin main", "shop")
        yield Case("remotes", False, (theirs, sh(look, "shop", TWO), sh(push, "shop", TWO)))
        yield Case("remotes", False, (theirs, sh(f"{look} && {push}", "shop", TWO)))
    for look in (
        "git fetch",
        "git fetch origin main",
        "git ls-remote origin",
        "git remote update",
        "git pull --rebase",
    ):
        for force in ("git push --force origin main", "git push --force-with-lease origin main"):
            for pushed in ("git push origin main", "git push --force origin main"):
                yield Case("remotes", False, (sh(pushed, "shop"), sh(look, "shop", TWO), sh(force, "shop", TWO)))
    for line in ("git pull --rebase && git push", "git pull --rebase origin main && git push origin main",
                 "git fetch && git rebase origin/main && git push", "cd shop && git pull --rebase && git push",
                 "git -C @shop pull --rebase && git -C @shop push"):  # fmt: skip
        cwd = "projects" if line.startswith("cd") else "shop"
        for pushed in ("git push", "git push origin main"):
            yield Case("remotes", False, (sh(pushed, "shop"), sh(line, cwd, TWO)))
    for one, other in combinations(_LOOKS[:6:2], 2):
        yield _pair("remotes", sh(one, "left"), sh(other, "right"), collide=False)
    for act in ("git push", "git push --force"):
        yield _pair("remotes", sh(f"{act} origin a", "left"), sh(f"{act} origin b", "right"), collide=False)
        yield _pair("remotes", sh(f"{act} origin main", "shop"), sh(f"{act} origin main", "blog"), collide=False)
        yield _pair("remotes", sh(f"{act} origin main", "shop"), sh(f"{act} fork main", "shop"), collide=False)
        yield Case("remotes", False, (sh(f"{act} origin main", "shop"), sh("git fetch", "shop", TWO)))


ALL: Final = tuple(
    {
        case.identity: case for part in (_homes, _other_homes, _nested, _apart, _remotes, _looked_at) for case in part()
    }.values()
)
