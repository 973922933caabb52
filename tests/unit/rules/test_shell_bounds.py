"""Command lines of a megabyte take bounded time. The fuzz target ``shell`` tries what a line may hold."""

import random
import time

import pytest

from callosum.rules.keys import MAX_KEYS
from callosum.rules.shell import judge
from tests.support.cpu import cpu_within

M = 1_000_000
_RANDOM = random.Random(7)
HUGE = {
    "word": "x" * M,
    "substitutions": "$(" * (M // 2),
    "shells": "sh -c '" * (M // 7),
    "removals": "rm -rf " + "a/* " * (M // 4),
    "commands": "rm -rf a && " * (M // 12) + "b",
    "signs": "".join(_RANDOM.choices("|&;<>()$`\\\"' \n*?[#~=%!{}ab", k=M)),
    "binary": _RANDOM.randbytes(M).decode("latin-1"),
    "document": "cat > f <<'E'\n" + "abc $(x)\n" * (M // 9) + "E\n",
    "code": "python <<'E'\n" + "os.remove('x')\n" * (M // 15) + "E\n",
    "dots": "python -c '" + "a." * (M // 2) + "'",
    "sql": 'psql -c "select ' + "drop table x; " * (M // 14) + '"',
    "addresses": "mail " + "a@b.c " * (M // 6),
    "variables": "A=b;" * (M // 4),
    "growing": "A=aaaaaaaaaaaaaaaa; " + "".join(f"{b}={'$' + a * 1}{('$' + a) * 7}; " for a, b in zip("ABCDEF", "BCDEFG", strict=True)) + "rm $G$G",
    "braces": "rm " + "{a,b}" * (M // 5),
    "list": "rm {" + "a," * (M // 2) + "b}",
    "opened": "rm " + "{a," * (M // 3),
    "worktrees": "git -C " + "/.worktrees/a" * (M // 13) + " stash",
    "windows": "tmux new '" + "tmux new " * (M // 9) + "'",
    "typed": "tmux send-keys " + "a " * (M // 2),
    "plain": "git push origin " + "a " * (M // 2),
    "ports": "docker run " + "-p 1:2 " * (M // 7) + "x",
    "prefixes": "sudo " * (M // 5),
    "xargs": "xargs " * (M // 6),
    "find": "find . " + "-exec rm {} ; " * (M // 14),
    "folders": "git " + "-C a " * (M // 5),
    "cd": "cd a && " * (M // 8),
    "pipes": "cat a | " * (M // 8) + "sh",
    "piped": "echo '" + "rm -rf /; " * (M // 10) + "' | sh",
    "containers": "docker exec a " * (M // 14),
    "mutations": "curl -X POST http://x/graphql -d '" + "mutation {" * (M // 10) + "'",
    "stars": "rm -rf " + "*" * M,
    "up": "cd " + "../" * (M // 3),
    "bare": "select " + "a " * (M // 2),
}  # fmt: skip


@pytest.mark.parametrize("kind", HUGE)
def test_a_megabyte_is_bounded(kind: str) -> None:
    judge("ls")
    with cpu_within(0.5):
        seen = judge(HUGE[kind], "/w")
    assert len(seen.keys) <= MAX_KEYS


@pytest.mark.parametrize("kind", ["substitutions", "shells", "removals", "commands", "prefixes", "xargs", "containers"])
def test_line_that_is_not_read_to_its_end_has_a_high_tier(kind: str) -> None:
    assert judge(HUGE[kind], "/w").tier >= 3


def test_end_of_a_long_brace_list_is_read() -> None:
    assert judge("rm -rf {" + "a," * 80 + "/}", "/w").tier == 4
    assert judge("rm -rf {" + "a," * 80 + "b}", "/w").tier == 4  # nobody has read it to its end
    assert judge("rm -rf {" + "a," * 60 + "b}", "/w").tier == 1


@pytest.mark.parametrize("kind", ["list", "opened", "plain", "cd", "variables", "signs"])
def test_parsing_time_grows_with_the_length(kind: str) -> None:
    def took(text: str) -> float:
        best = 9.0
        for _ in range(3):
            started = time.process_time()
            judge(text, "/w")
            best = min(best, time.process_time() - started)
        return best

    text = HUGE[kind]
    assert took(text) < 16 * max(took(text[: len(text) // 4]), 0.002)


def test_ten_thousand_nested_commands_are_bounded() -> None:
    assert judge("$(" * 10_000 + "rm -rf /" + ")" * 10_000, "/w").tier >= 3
    assert judge("( " * 200 + "rm -rf /" + " )" * 200, "/w").tier == 4
    assert judge(" && ".join(["ls"] * 999 + ["rm -rf /"]), "/w").tier == 4
