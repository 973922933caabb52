"""Commands that a line hides have a higher tier than readable ones; indirectly given commands are read."""

import pytest

from callosum.rules.shell import judge

UNREAD: list[str] = [
    "$CMD", "$CMD -x a", '"$@"', "${CMD[@]}", "sudo $CMD", "nohup $CMD &", 'eval "$CMD"', 'eval "$(cat x)"',
    'eval "$(/bin/cat /tmp/x)"', 'bash -c "$CMD"', 'bash -c "$(cat x.sh)"', "bash <(cat x)", 'ssh host "$CMD"',
    'docker run x sh -c "$CMD"', "cat list | xargs -I{} bash -c '{}'", '"$FOLDER/$NAME" x', "/bin/c?? x",
    'python3 -c "$CODE"', 'node -e "$(cat x.js)"', "bash /dev/fd/7", "bash <&7", "exec {fd}<<<ls; bash /dev/fd/$fd",
    "coproc bash; echo ls >&${COPROC[1]}",
]  # fmt: skip
HIDDEN: list[str] = [
    'bash -c "$(echo bHM= | base64 -d)"', 'eval "$(base64 -d x)"', ". <(echo bHM= | base64 -d)", "bash <(xxd -r x)",
    "$(echo sl | rev) -l", "cmd=$(echo sl | rev); $cmd -l", 'python3 -c "$(echo aW1w | base64 -d)"',
    "python3 -c \"import base64; exec(base64.b64decode('aW1w'))\"", "node -e \"eval(atob('bHM='))\"",
    "node -e \"eval(Buffer.from('bHM=', 'base64').toString())\"",
    "perl -MMIME::Base64 -e 'eval(decode_base64(\"bHM=\"))'",
]  # fmt: skip
TOLD: dict[int, list[str]] = {
    4: [
        "$(command -v rm) -rf /srv", "\"$SHELL\" -c 'rm -rf /srv'", "sh -c \"$(printf '\\x72\\x6d -rf /srv')\"",
        'cmd=(rm -rf /srv); "${cmd[@]}"', "IFS=,; c=rm,-rf,/srv; $c", "rm${IFS}-rf${IFS}/srv",
        'for c in ls "rm -rf /srv"; do $c; done', 'run() { "$@"; }; run rm -rf /srv',
        "second() { $2; }; second a reboot", "alias ll='rm -rf'; ll /srv", "alias ls='rm -rf'; ls /srv",
        "trap 'rm -rf /srv' EXIT; exit",
    ],
    1: [
        'run() { "$@"; }; run ls', "$(which python) x.py", "$PYTHON -m pytest", "$npm_execpath run test",
        "$(npm bin)/eslint .", '"$VENV/bin/python" -m pytest', "$TOOL --version", 'eval "$(ssh-agent -s)"',
        'eval "$(pyenv init -)"', 'eval "$(/opt/homebrew/bin/brew shellenv)"', "source <(kubectl completion bash)",
        "tmp=$(mktemp -d); trap 'rm -rf \"$tmp\"' EXIT",
    ],
    0: [
        "c=ls; $c -l", "for c in ls pwd; do $c; done", "alias ll='ls -l'; ll", "trap - EXIT", 'eval "echo $x"',
        "echo bHM= | base64 -d", "python3 -c \"print('$x')\"", 'while IFS= read -r f; do echo "$f"; done < list',
    ],
}  # fmt: skip


GIVEN: list[str] = [
    "bash <(echo 'X')", "source <(echo X)", "sh /dev/fd/3 3<<<'X'", "bash /proc/self/fd/3 3<<EOF\nX\nEOF\n",
    "exec 3< <(echo X); bash <&3", "bash < <(echo X)", "echo 'X' > >(bash)", "tee >(bash) <<< 'X'",
    "bash --rcfile <(echo 'X') -i", "BASH_ENV=<(echo 'X') bash -c true", "{ bash; } <<< 'X'", "echo 'X' | (bash)",
    "f() { bash; }; f <<< 'X'", "exec <<< 'X'; bash", "echo 'X' > f; bash < f", "bash -c '. /dev/stdin' <<< 'X'",
    "python3 <(echo \"import os; os.system('X')\")", "(python3) <<< \"import os; os.system('X')\"",
]  # fmt: skip
"""Ways in which a text reaches a shell or an interpreter."""


@pytest.mark.parametrize("way", GIVEN)
def test_text_that_reaches_a_shell_is_read(way: str) -> None:
    assert judge(way.replace("X", "rm -rf /srv"), "/w").tier == 4
    assert judge(way.replace("X", "ls"), "/w").tier <= 1


@pytest.mark.parametrize(("command", "tier"), [*((one, 3) for one in UNREAD), *((one, 4) for one in HIDDEN)])
def test_unreadable_command_is_tier_3_and_an_encoded_one_is_critical(command: str, tier: int) -> None:
    found = judge(command, "/w")
    assert found.tier == tier, found.why


@pytest.mark.parametrize(("tier", "command"), [(tier, one) for tier, lines in TOLD.items() for one in lines])
def test_indirectly_given_command_is_read(tier: int, command: str) -> None:
    found = judge(command, "/w")
    assert found.tier == tier, found.why


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("echo / | xargs -I{} bash -c 'rm -rf {}'", "file:/"),
        ("echo /srv | xargs -I % sh -c 'rm -rf %'", "file:/srv/"),
        ("echo /srv | xargs -i sh -c 'rm -rf {}'", "file:/srv/"),
        ("echo /srv | xargs --replace rm -rf {}", "file:/srv/"),
        ("echo /srv | xargs -J % rm -rf %", "file:/srv/"),
        ("parallel 'rm -rf {}' ::: a /srv", "file:/srv/"),
        ("echo /srv | xargs -I{} python3 -c \"import shutil; shutil.rmtree('{}')\"", "file:/srv/"),
    ],
)
def test_operand_in_a_text_that_is_run_is_the_whole_operand(command: str, key: str) -> None:
    found = judge(command, "/w")
    assert (found.tier, key in [one.name for one in found.keys]) == (4, True), found


def test_operand_after_a_folder_set_by_the_command_is_only_its_name() -> None:
    found = judge("ls src | xargs -I{} cp src/{} dest/{}", "/w")
    assert [one.name for one in found.keys] == ["file:/w/dest/"]
    assert [one.name for one in judge("echo a/b | xargs -I{} mv {} dest/{}", "/w").keys] == [
        "file:/w/a/b",
        "file:/w/dest/b",
    ]


def test_unknown_operand_is_no_separate_command() -> None:
    assert judge("seq 3 | xargs -I{} sh -c 'echo {}'", "/w").tier == 0
