"""Command lines: raw, and from a grammar, so that a shell's reading of them is known."""

from __future__ import annotations

import shlex
from typing import Final

from callosum.rules.shell import ShellJudgement, judge
from callosum.rules.shell.parser import parse
from fuzz.check import check, well_formed
from fuzz.source import Source

WORDS: Final = (
    *"| & ; < > ( ) $ ` \\ \" ' # ~ = % ! { } [ ] * ? && || ;; << <<- <<< >> >& &> $( ${ $(( )) (( [[ ]] |& ;& 2>&1".split(),
    *"if then elif else fi for in do done case esac while until function select time coproc !".split(),
    *"rm -rf -r / .. ~ /srv /tmp git push --force reset --hard stash clean -fdx checkout sudo env nohup timeout xargs".split(),
    *"find -exec -delete {} + sh -c bash eval exec source ssh docker kubectl aws psql curl -X DELETE wget mail dd of=".split(),
    *"python -e perl node tee -a sed -i cd pushd export alias trap kill pkill npm publish chmod chown mv cp ln EOF".split(),
    "<<'E'\n", "\\\n", "\n", "\r\n", "\t", "\0", "${x:-", "$'\\x", "$((", "<(", ">(", "\u202e", "--", "-", "=",
)  # fmt: skip
DANGERS: Final = (
    "rm -rf /srv/data", "git push --force origin main", "dd if=/dev/zero of=/dev/sda", "mkfs.ext4 /dev/sda1",
    "kubectl delete namespace prod", "aws s3 rb s3://data --force", "psql -c 'drop table users'", "rm -rf ~",
    "terraform destroy -auto-approve", "find / -delete",
)  # fmt: skip
_CWD: Final = "/w"
_PLAIN: Final = (
    "ls", "ls -la src", "cat README.md", "echo hello", "git status", "git commit -m 'a b'", "make test", "rm -rf build",
    "mv a b", "cp -r a b", "sed -i s/a/b/ x", "python -m pytest -q", "npm install", "grep -rn x .", "touch y", "cd sub",
    "curl https://x.org/a", "docker ps", "kill 12", "export A=1", "A=1 B=2", "tee out.txt", "true", "mkdir -p d", "pwd",
    "pip install x", "find . -name '*.py'", "xargs -n1 echo", "wc -l", "git checkout -b f", "ssh h uptime", "test -f x",
)  # fmt: skip
_WORDS: Final = (
    "a",
    "b/c",
    "*.o",
    "-n",
    "--all",
    "$A",
    "${A}",
    "${A:-b}",
    '"$A b"',
    "'a b'",
    "~",
    "..",
    "a\\ b",
    "{a,b}",
)
_AROUND: Final = (
    "( {} )", "{{ {}; }}", "if {}; then ls; fi", "if ls; then {}; else pwd; fi", "for i in a b; do {}; done",
    "while {}; do ls; done", "case x in a) {};; *) ls;; esac", "f() {{ {}; }}; f", "! {}", "time {}", 'echo "$( {} )"',
    "echo $( {} )", "cat <( {} )", "sudo {}", "env A=1 {}", "nohup {}", "timeout 5 {}", "{} | cat", "{} >/dev/null",
    "{} 2>&1", "{} < in.txt",
)  # fmt: skip
_COMPOUND: Final = frozenset("( { if for while case f() ! time".split())
_BETWEEN: Final = ("; ", " && ", " || ", "\n", " | ", " & ")
_OPEN: Final = (
    " 'x",
    ' "x',
    " $(x",
    " `x",
    " ${x",
    " ( x",
    "; if x; then y",
    "; for i in a; do b",
    "; { x",
    "; case x in",
)


def run(source: Source) -> None:
    """Classify a line; then with more commands in it, inside another shell, and cut off."""
    if source.maybe():
        _made(source)
    else:
        _raw(source)


def _raw(source: Source) -> None:
    """Check any text without knowing its meaning."""
    danger = source.pick(DANGERS)
    text = source.remaining()
    seen = _judged(text)
    for line in (f"{danger}\n{text}", f"{danger}; {text}"):
        check(_judged(line).tier == 4, "what is grave stays grave, whatever comes after it", line)
    if text.endswith("\\"):
        return  # the next line belongs to it
    after = _judged(f"{text}\n{danger}")
    # text that no shell accepts is read for possible commands: a guess, and another one for a longer text
    odd = parse(text).odd or any("no command that a shell would take" in one for one in seen.why)
    least = min(seen.tier, 3) if odd else seen.tier
    check(after.tier >= least, "a dangerous command more lowers no tier", seen, after, text, danger)
    wrapped = _judged(f"sh -c {shlex.quote(text)}")
    if text.strip() and text[:1] not in ("-", "+"):  # those would be options of the shell
        check(wrapped.tier >= least, "a shell around a line lowers no tier", seen, wrapped, text)


def _made(source: Source) -> None:
    """Check a line that a shell accepts: any command that is added to it counts."""
    line = _line(source, 3)
    danger, between = source.pick(DANGERS), source.pick(_BETWEEN)
    seen = _judged(line)
    grave = _judged(f"{line}{between}{danger}")
    check(grave.tier == 4, "a dangerous command counts wherever it stands", grave, line, between, danger)
    first = _judged(f"{danger}{between}{line}")
    check(first.tier == 4, "a dangerous command counts wherever it stands", first, danger, between, line)
    names = {one.name for one in seen.keys}
    if between != " | " and len(grave.keys) < 32:
        missing = names - {one.name for one in grave.keys}
        check(not missing, "what a line touches it touches with a command more", missing, line, between, danger)
    broken = _judged(line + source.pick(_OPEN))
    check(broken.effect == "write" and broken.tier >= 1, "what no shell would take counts as a write", broken, line)
    for shell in ("sh -c {}", "bash -lc {}", "eval {}", "sudo sh -c {}"):
        wrapped = _judged(shell.format(shlex.quote(line)))
        check(wrapped.tier >= seen.tier, "a shell around a line lowers no tier", seen, wrapped, line)
    document = _judged(f"bash <<'E'\n{line}\n{danger}\nE\n")
    check(document.tier == 4, "a here-document for a shell is a line of commands", document, line, danger)


def _line(source: Source, depth: int) -> str:
    parts = [_command(source, depth)]
    for _ in source.times(3):
        parts += [source.pick(_BETWEEN), _command(source, depth)]
    return "".join(parts)


def _command(source: Source, depth: int) -> str:
    made = source.pick(_PLAIN)
    for _ in source.times(3):
        made += " " + source.pick(_WORDS)
    for _ in source.times(depth):
        around = source.pick(_AROUND)
        if around[:5] in ("sudo ", "env A", "nohup", "timeo") and made.split(maxsplit=1)[0] in _COMPOUND:
            continue  # these take a program, no keyword
        made = around.format(made)
    return made


def _judged(text: str) -> ShellJudgement:
    seen = judge(text, _CWD)
    check(seen == judge(text, _CWD), "the same line is judged alike twice", text)
    check(0 <= seen.tier <= 4, "a tier lies from 0 to 4", seen, text)
    check(seen.effect == ("write" if seen.tier else "read"), "what only reads is tier 0", seen, text)
    check(seen.why and all(seen.why), "an answer has its reasons", seen, text)
    well_formed(seen.keys)
    return seen
