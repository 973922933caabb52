"""Commands that settings, variables and options hand to other programs, and text in code that is no statement."""

import pytest

from callosum.model import Call
from callosum.rules import RuleSet
from callosum.rules.shell import judge

RULES = RuleSet.parse(secret=b"secret")
LINES: dict[int, list[str]] = {
    4: [
        # settings of git
        "git -c core.pager='rm -rf /srv' log",
        "git -c pager.log='rm -rf /srv' log",
        "git -c core.fsmonitor='rm -rf /srv' status",
        "git -c diff.x.textconv='rm -rf /srv' diff",
        "git -c credential.helper='!rm -rf /srv' fetch",
        "git -c alias.x='!rm -rf /srv' x",
        "git -c alias.x='push --force' x",
        "git clone -c core.fsmonitor='rm -rf /srv' x",
        "git config core.pager 'rm -rf /srv'",
        "git config alias.x '!rm -rf /srv'",
        # options and addresses
        "git grep -O'rm -rf /srv' x",
        "git difftool -x 'rm -rf /srv'",
        "git clone --upload-pack='rm -rf /srv' x",
        "git clone 'ext::sh -c rm% -rf% /srv'",
        "rsync -e 'sh -c \"rm -rf /srv\"' a host:b",
        "ssh -o ProxyCommand='rm -rf /srv' host ls",
        # variables
        "GIT_PAGER='rm -rf /srv' git log",
        "env GIT_SSH_COMMAND='rm -rf /srv' git fetch",
        "export PAGER='rm -rf /srv'",
        "PROMPT_COMMAND='rm -rf /srv' bash -i",
        "LD_PRELOAD=/tmp/x.so ls",
        "tar cf a.tar --checkpoint=1 --checkpoint-action=exec='rm -rf /srv' x",
        "tar xf a.tar --to-command='rm -rf /srv'",
        "awk '{print | \"rm -rf /srv\"}' x",
        "awk 'BEGIN { \"rm -rf /srv\" | getline }'",
        # text that a shell or an interpreter reads, also from a file of the same line
        "source /dev/stdin <<< 'rm -rf /srv'",
        "bash /dev/stdin <<< 'rm -rf /srv'",
        "echo 'rm -rf /srv' > x.sh; bash x.sh",
        "cat > x.sh <<'E'\n#!/bin/bash\nrm -rf /srv\nE\nchmod +x x.sh && ./x.sh",
        "cat > x.py <<'E'\nimport shutil\nshutil.rmtree('/srv')\nE\npython3 x.py",
        "node --eval=\"require('fs').rmSync('/srv', {recursive: true})\"",
        "ruby -e '`rm -rf /srv`'",
        "python3 -c \"import subprocess as sp; sp.run(['rm', '-rf', '/srv'])\"",
        "python3 -c \"from subprocess import run; run(['rm', '-rf', '/srv'])\"",
        "python3 -c \"import os; os.execvp('rm', ['rm', '-rf', '/srv'])\"",
        "npx -y rimraf@5 /srv",
        # statements that a program hands to a database
        "python3 -c \"cur.execute('drop table users')\"",
        "python3 -c \"q = 'drop table users'; cur.execute(q)\"",
        "python3 -c \"import sqlite3; sqlite3.connect('a.db').execute('drop table t')\"",
        "node -e \"db.run('drop table x')\"",
        "perl -e '$dbh->do(\"drop table x\")'",
        "sqlite3 a.db 'drop table t'",
        "sqlite3 :memory: \"attach 'a.db' as a; drop table a.t\"",
        "sqlite3 :memory: '.shell rm -rf /srv'",
        # whatever a call is made on
        "python3 -c \"__import__('os').system('rm -rf /srv')\"",
        "node -e \"require('child_process').exec('rm -rf /srv')\"",
        # versions and packages
        "npm publish --dry-run=false",
        "shutdown -h",
        # configuration that is replaced or added to
        "echo x > /etc/hosts",
        "echo x >> /etc/hosts",
        "echo x > /var/log/syslog",
        # the program's own name
        "delete_list test",
        "doctl compute droplet-action power-off 5",
    ],
    3: [
        "power-off-droplet 5", "stop-server web", "awk 'BEGIN { system(c) }'",
        'python3 -c "import subprocess; subprocess.run(cmd)"', "${x%.py} -a",
    ],
    2: [
        "mkdir -p /var/log/x", "touch /etc/x", "install -d /var/lib/x", "mkdir -p ~/.ssh",
        "echo x >> /var/log/app.log", "lerna version",
    ],
    1: [
        "GIT_SSH_COMMAND='ssh -i key' git fetch", "GIT_EDITOR=true git rebase --continue",
        "LD_PRELOAD=/usr/lib/libjemalloc.so.2 node x.js", "git config alias.co checkout",
        "cat > x.py <<'E'\nprint(1)\nE\npython3 x.py", "echo '#!/usr/bin/env python3' > x; ./x",
        "echo 'bash x.sh; bash x.sh' > x.sh; bash x.sh", "tar -I zstd -xf x.tar.zst", "npx prettier@3 --check .",
        "npm version patch", "npm version 1.2.3", "npm pack", "yarn version --patch", "poetry version patch",
        "uv version --bump minor", "changeset version", "mytool version 2.0.0", "mytool src test dist",
        "mytool src list dist", "mytool one test", "python3 -c \"print('drop table x')\"",
        "node -e \"console.log('delete from cart')\"",
        "python3 -c \"import sqlite3; c = sqlite3.connect(':memory:'); c.execute('drop table t')\"",
        "sqlite3 :memory: 'create table t(a); drop table t;'", "node -e \"new RegExp('x').exec('rm -rf /srv')\"",
    ],
    0: [
        "git -c core.pager=less log", "git -c core.pager='less -R' log", "git -c core.fsmonitor=false status",
        "GIT_PAGER=cat git log", "git grep -O x", "awk '{print $1 \" | \" $2}' x", "awk '{print | \"sort -u\"}' x",
        "npm version", "npm version --json", "npm pack --dry-run", "npm publish --dry-run", "poetry version -s",
        "kubectl version --client -o json", "mytool test", "mytool users list", "duckdb -c \"select * from 'a.csv'\"",
        "shutdown --help",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("tier", "command"), [(tier, one) for tier, lines in LINES.items() for one in lines])
def test_line_has_the_tier_of_what_it_makes_other_programs_do(tier: int, command: str) -> None:
    found = judge(command, "/w")
    assert found.tier == tier, found.why
    assert found.effect == ("write" if tier else "read")


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("npm version patch", "file:/w/package.json"),
        ("poetry version patch", "file:/w/pyproject.toml"),
        ("mkdir -p /var/log/x", "file:/var/log/x"),
    ],
)
def test_written_file_is_a_key(command: str, key: str) -> None:
    assert [one.name for one in judge(command, "/w").keys] == [key]


NAMES: list[tuple[str, str, int]] = [
    ("power-off-droplet", "", 1),
    ("powerOnVm", "", 1),
    ("power_cycle_vm", "", 1),
    ("power_status", "", 0),
    ("power_of_two", "", 0),
    ("delete_list", "", 4),
    ("delete_list", "Returns True if the list is gone", 4),
    ("delete_view", "View deletion", 4),
    ("delete_status", "Get rid of a status", 4),
    ("remove_search", "Returns what is left", 1),
    ("report_user", "", 2),
    ("report_user", "Get the report about a user", 0),
    ("report_status", "", 0),
    ("snapshot_volume", "", 1),
    ("take_snapshot", "", 0),
    ("pull_changes", "", 1),
]


@pytest.mark.parametrize(("tool", "description", "tier"), NAMES)
def test_verb_is_not_mistaken_for_a_noun(tool: str, description: str, tier: int) -> None:
    found = RULES.classify(Call("a", tool, {"id": "5"}, description=description or None))
    assert found.tier == tier, found.why
    assert found.effect == ("write" if tier else "read")
