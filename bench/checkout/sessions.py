"""Two sessions in one git checkout: their files, their next calls as their host makes them, what each would take."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

_PEOPLE: Final = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_GIT: Final = {**_PEOPLE, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_EDITOR": "true"}
Input = dict[str, Any]


@dataclass
class Call:
    """One tool call of a session. ``takes`` tells whether it would take an effect from the other session now."""

    tool: str
    input: Input
    kind: str
    run: Callable[[Input], str]
    takes: Callable[[], bool] = lambda: False
    reads: str = ""
    plant: bool = False


class Checkout:
    """The repository, its remote, and the colleague who pushes from elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.path, self.remote, self.elsewhere = folder / "proj", folder / "remote.git", folder / "elsewhere"
        self.failed = ""
        self.env = {**os.environ, **_GIT, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self.shell(f"git init -q --bare -b main {self.remote} && git clone -q {self.remote} {self.path}", folder)
        for name in ("alpha", "beta", "colleague", "shared"):
            (self.path / name / "tests").mkdir(parents=True)
            for number in range(4):
                self.write(f"{name}/part{number}.py", f"VALUE = {number}\nNAME = '{name}'\n")
            self.write(f"{name}/tests/test_{name}.py", "import unittest\n")
        self.shell("git checkout -q -b main; git add . && git commit -qm first && git push -q -u origin main")
        self.shell(f"git clone -q {self.remote} {self.elsewhere}", folder)

    def shell(self, line: str, where: Path | None = None) -> str:
        done = subprocess.run(
            ["bash", "-c", line], cwd=where or self.path, env=self.env, capture_output=True, text=True, check=False
        )
        self.failed = f"Exit code {done.returncode}" if done.returncode else ""
        return (done.stdout + done.stderr)[-2000:] or "(no output)"

    def write(self, name: str, text: str) -> str:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return "ok"

    def text(self, name: str) -> str | None:
        path = self.path / name
        return path.read_text() if path.is_file() else None

    def changed(self, *folders: str, staged: bool = False) -> bool:
        """Tell whether files of these folders hold work that no commit holds, or that is staged."""
        what = "diff --cached" if staged else "diff HEAD"
        return self.shell(f"git {what} --name-only -- {' '.join(folders)}") != "(no output)"

    def settle(self) -> None:
        """Give up what met conflicts, and have the remote hold what the checkout holds, so that no later pull does."""
        for name, line in (("rebase-merge", "git rebase --abort"), ("MERGE_HEAD", "git merge --abort")):
            if (self.path / ".git" / name).exists():
                self.shell(line)
        self.shell("git push -qf origin main")

    def push_elsewhere(self, name: str, text: str) -> None:
        """Have the colleague change a file and push it."""
        self.shell("git fetch -q && git reset -q --hard origin/main", self.elsewhere)
        (self.elsewhere / name).write_text(text)
        self.shell("git commit -qam work && git push -q", self.elsewhere)


class Session:
    """One session: what it has seen, its folder, and its next calls in the form of its host."""

    def __init__(self, host: str, name: str, number: int, checkout: Checkout, chance: random.Random) -> None:
        self.host, self.name, self.checkout, self.chance = host, name, checkout, chance
        self.id = f"{number}{number}aa00bb-84dd-4d8a-a0fb-00000000000{number}"
        self.seen: dict[str, str | None] = {}
        self.other = "beta" if name == "alpha" else "alpha"
        self.turn, self.number = 0, 1000 * number

    # --- calls in the host's form -----------------------------------------------------------------

    def shell(self, line: str, takes: Callable[[], bool] = lambda: False, *, reads: str = "", kind: str = "") -> Call:
        tool, more = ("run_shell_command", {"description": "work"}) if self.host == "gemini" else ("Bash", {})
        kind = kind or " ".join(line.split()[:2])
        return Call(tool, {"command": line, **more}, kind, lambda _: self.checkout.shell(line), takes, reads)

    def read(self, name: str) -> Call:
        if self.host == "codex":
            return self.shell(f"cat {name}", reads=name, kind="read")
        tool = "Read" if self.host == "claude-code" else "read_file"
        said = {"file_path": str(self.checkout.path / name)}
        return Call(tool, said, "read", lambda _: self.checkout.text(name) or "File does not exist.", reads=name)

    def look(self) -> Call:
        """Return a listing or a search of its own folder or the whole checkout."""
        where = str(self.checkout.path / self.name)
        own = self.name
        lines = [f"ls {own}", "ls -la", "git status --short", "git log --oneline -3", f"grep -rn VALUE {own}"]
        if self.host == "claude-code" and self.chance.random() < 0.5:
            tool = self.chance.choice(("Glob", "Grep", "LS"))
            said = {"path": where} | {"Grep": {"pattern": "VALUE"}, "Glob": {"pattern": "*.py"}}.get(tool, {})
            return Call(tool, said, "look", lambda _: self.checkout.shell(f"ls {self.name}"))
        if self.host == "gemini" and self.chance.random() < 0.3:
            return Call("list_directory", {"dir_path": where}, "look", lambda _: self.checkout.shell(f"ls {self.name}"))
        return self.shell(self.chance.choice(lines), kind="look")

    def edit(self, name: str) -> Call:
        """Return the replacement of one line of a file that it knows."""
        before = self.seen.get(name) or ""
        self.number += 1
        old = before.split("\n")[0]
        new = f"VALUE = {self.number}"
        if self.host == "codex":
            patch = f"*** Begin Patch\n*** Update File: {name}\n@@\n-{old}\n+{new}\n*** End Patch"
            call = Call("apply_patch", {"command": patch}, "edit", lambda said: self._patch(name, said))
        else:
            said = {"file_path": str(self.checkout.path / name), "old_string": old, "new_string": new}
            tool = "Edit" if self.host == "claude-code" else "replace"
            call = Call(tool, said, "edit", lambda said: self._edit(name, said))
        call.takes = lambda: self.unseen(name)
        return call

    def write(self, name: str, text: str, kind: str = "new file") -> Call:
        """Return the writing of a whole file."""
        if self.host == "codex" and self.checkout.text(name) is None and self.chance.random() < 0.8:
            lines = "".join(f"+{line}\n" for line in text.splitlines())
            patch = f"*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch"
            call = Call("apply_patch", {"command": patch}, kind, lambda said: self._patch(name, said))
        elif self.host == "codex" or (kind == "new file" and self.chance.random() < 0.2):
            call = self.shell(f"cat > {name} <<'EOF'\n{text}EOF", kind=kind)
            call.run = lambda _: self._write(name, text)
        else:
            said = {"file_path": str(self.checkout.path / name), "content": text}
            tool = "Write" if self.host == "claude-code" else "write_file"
            call = Call(tool, said, kind, lambda said: self._write(name, said["content"]))
        call.takes = lambda: self.unseen(name)
        return call

    def unseen(self, name: str) -> bool:
        text = self.checkout.text(name)
        return text is not None and text != self.seen.get(name)

    def _write(self, name: str, text: str) -> str:
        self.seen[name] = text
        return self.checkout.write(name, text)

    def _edit(self, name: str, said: Input) -> str:
        text = self.checkout.text(name) or ""
        return self._write(name, text.replace(said["old_string"], said["new_string"], 1))

    def _patch(self, name: str, said: Input) -> str:
        body = said["command"].split("\n")[2:-1]
        new = "".join(f"{line[1:]}\n" for line in body if line[:1] == "+")
        old = "".join(f"{line[1:]}\n" for line in body if line[:1] == "-")
        return self._write(name, (self.checkout.text(name) or "").replace(old, new, 1) if old else new)

    # --- work ----------------------------------------------------------------------------------------

    def work(self) -> Iterator[Call]:
        """Yield the calls of one task after another."""
        while True:
            yield from self.task()

    def task(self) -> Iterator[Call]:
        chance, checkout, mine = self.chance, self.checkout, self.name
        foreign = lambda: checkout.changed(self.other)  # noqa: E731
        self.turn += 1
        touched = []
        for _ in range(chance.randint(1, 3)):
            yield self.look()
        for name in chance.sample([f"{mine}/part{number}.py" for number in range(4)], chance.randint(1, 2)):
            yield self.read(name)
            if chance.random() < 0.3:
                yield self.look()
            yield self.edit(name)
            touched.append(name)
        if chance.random() < 0.15:
            yield self.shell("git stash", foreign)
            yield self.shell("git stash pop")
            for name in touched:
                yield self.read(name)
        for _ in range(chance.randint(0, 2)):
            self.number += 1
            name = f"{mine}/new{self.number}.py"
            yield self.write(name, f"VALUE = {self.number}\n")
            touched.append(name)
        if chance.random() < 0.7:
            yield self.shell(f"python3 -m unittest {mine}/tests/test_{mine}.py", kind="tests")
        yield from self.commit(touched)
        if chance.random() < 0.3:
            checkout.push_elsewhere(f"colleague/part{chance.randrange(4)}.py", f"VALUE = {chance.random()}\n")
        if chance.random() < 0.7:
            yield self.shell("git pull --rebase origin main", kind="git pull")
            if chance.random() < 0.2:
                yield self.shell("git pull --rebase --autostash origin main", foreign, kind="git pull --autostash")
            if (checkout.path / ".git" / "rebase-merge").exists():
                checkout.settle()
            yield self.shell("git push origin main")

    def commit(self, touched: list[str]) -> Iterator[Call]:
        staged = partial(self.checkout.changed, self.other, staged=True)
        files, form = " ".join(touched), self.chance.random()
        if form < 0.5:
            yield self.shell(f"git add {files} && git commit -qm 'work {self.number}'", staged, kind="git commit")
        else:
            yield self.shell(f"git add {files}")
            if self.chance.random() < 0.3:
                yield self.shell("git diff --cached --stat", kind="look")
            named, takes = f" -- {files}", lambda: False
            if form <= 0.8:
                named, takes = "", lambda: staged() or not self.checkout.changed(*touched, staged=True)
            yield self.shell(f"git commit -qm 'work {self.number}'{named}", takes, kind="git commit")
