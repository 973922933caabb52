"""Sessions in one checkout: what a pull, a commit or a stash of one takes from the other, and what it does not."""

from pathlib import Path

import pytest

from callosum.model import Outcome, Verdict
from tests.support.world import World, kinds

STORIES = """
11.4 new files after a pull | d pull / m write new.py / m echo x > other.py / m edit more.py
11.4 new files after a switch | d git checkout main / m write new.py / m echo x > other.py
11.4 new files after a stash | d git stash / m write new.py
11.4 new files after a recursive command | d sed-all / m write new.py
11.4 new files while a pull runs | d& pull / m write new.py
11.4 file that another session is creating | d& write new.py / m? write new.py
11.4 file read before a pull | m read a.py / d pull / disk a.py / m? write a.py
11.4 file read before a pull that fails | m read a.py / d- pull / disk a.py / m? write a.py
11.4 one notice for files never read | d pull / m? write b.py / m write c.py / m edit d.py / m echo x > b.py
11.4 one notice a session | d pull / m? write b.py / v? write c.py
11.4 git status clears the notice | d pull / m git status / m write b.py / m write c.py
11.4 git log clears the notice | d pull / m git log / m write b.py
11.4 a read below the tree clears the notice | d pull / m read b.py / m write c.py
11.4 a search below the tree clears the notice | d pull / m grep -n one b.py / m write c.py
11.5 fourth switch beside a busy session | BUSY / m? git checkout main / BUSY / m? git checkout main / BUSY / m? git checkout main : the next attempt runs / BUSY / m! git checkout main
11.5 fourth edit in place beside a busy session | BUSY / m? sed-all / BUSY / m? sed-all / BUSY / m? sed-all : the next attempt runs / BUSY / m! sed-all
11.5 stash never takes what is edited | BUSY / m? git stash / BUSY / m? git stash / BUSY / m? git stash : It ends once d has committed / BUSY / m? git stash / BUSY / m? git stash
11.5 switch that also removes a tree | BUSY / m? both / BUSY / m? both / BUSY / m? both / BUSY / m? both / BUSY / m? both
11.9 commit after a commit | m git status / d git add b.py && git commit -m x / m git add a.py && git commit -m y
11.9 commit after a commit of all | m git status / d git commit -am x / m git add a.py && git commit -m y
11.9 commit after a pull | m git status / d pull / m git add a.py && git commit -m y
11.9 commit after a merge | m git status / d git merge topic / m git add a.py && git commit -m y
11.9 pull after a commit | m git status / d git commit -am x / m pull
11.9 rebase after a commit | m git status / d git commit -am x / m git rebase main
11.9 commit of what another has staged | d git add b.py / m? git commit -m y
11.9 commit after a switch | m git status / d git checkout -b topic / m? git commit -m y
11.9 commit after a switch and a commit | m git status / d git checkout -b topic / d git commit -am x / m? git commit -m y
11.9 commit after another may have taken what was staged | m git add a.py / d? git commit -m x / d git commit -m x / m? git commit -m y
11.9 commit after a look at what another took | m git add a.py / d? git commit -m x / d git commit -m x / m git status / m git commit -m y
F4 stash of what is edited | d edit b.py / m? git stash
F4 autostash of what is edited | d edit b.py / m? git pull --rebase --autostash
F4 stash of what is committed | d edit b.py / d git add b.py && git commit -m x / m git stash
F4 stash of what is committed in part | d edit b.py / d edit c.py / d git add c.py / d git commit -m x / m? git stash
F4 autostash of what is all committed | d edit b.py / d edit c.py / d git add -A / d git commit -m x / m git pull --rebase --autostash
F4 stash after a pull | d pull / m git stash
F9 look at a remote | d git push --force origin main / m? git push --force origin main : Run `git fetch`
F9 look at a switch | m git status / d git checkout topic / m? git checkout main : Run `git status`
F9 look at a tree | d pull / m? write b.py : Look at it again (`git status`, `git log`)
F9 look at a file | m read b.py / d edit b.py / disk b.py / m? write b.py : Read it again
B5 file that is gone | m read b.py / d rm b.py / gone b.py / m? write b.py : Find out why it is gone
B5 process | d npm run dev & / m? pkill -f 'npm run dev' : heck what runs now
F13 the same chmod | d chmod +x a.py / m chmod +x a.py / v? chmod 600 a.py
F13 pkill that only looks | d npm run dev & / m pkill -0 npm
F16 parent of a sub-agent | d:1 edit a.py / d? write a.py : (a sub-agent of this session)
"""
LINES = {
    "pull": "git pull --rebase origin main",
    "sed-all": "grep -rl x | xargs sed -i s/x/y/",
    "both": "git checkout main && rm -rf .",
}


def _rows() -> list[tuple[str, str]]:
    busy = "m git status / d edit a.py / d git commit -m x -- a.py / d edit b.py"
    rows = [row.split(" | ", 1) for row in STORIES.strip().split("\n")]
    return [(name, story.replace("BUSY", busy)) for name, story in rows]


@pytest.mark.parametrize("story", [story for _, story in _rows()], ids=[name for name, _ in _rows()])
def test_sessions_in_one_checkout(world: World, tmp_path: Path, story: str) -> None:
    """Tell a story: ``?`` marks a pause, ``!`` a warning, ``&`` a call that still runs, ``-`` one that fails."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.py").write_text("one")
    for told in story.split(" / "):
        step, _, advice = told.partition(" : ")
        mark, line = step.split(" ", 1)
        verb, _, name = line.partition(" ")
        who, path = mark.rstrip("?!&-"), folder / (name or line)
        if who in ("disk", "gone"):
            (folder / line).write_text("two") if who == "disk" else (folder / line).unlink()
            continue
        tool, params = {
            "write": ("Write", {"file_path": str(path), "content": who}),
            "read": ("Read", {"file_path": str(path)}),
            "edit": ("Edit", {"file_path": str(path), "old_string": "one", "new_string": who}),
        }.get(verb, ("Bash", {"command": LINES.get(line, line)}))
        world.after(2)
        decision = world.ask(who, tool, params=params, cwd=str(folder), pause=True)
        said = str(decision.warning)
        if mark[-1] == "?":
            assert (decision.proceed, advice in said, bool(kinds(decision))) == (False, True, True), (step, said)
            assert ("the next attempt runs" in said) is (advice == "the next attempt runs")
            continue
        assert decision.verdict is (Verdict.WARN if mark[-1] == "!" else Verdict.ALLOW), (step, said)
        world.after(1)
        assert mark[-1] == "&" or world.end(who, decision, Outcome.FAILED if mark[-1] == "-" else Outcome.DONE).ok
