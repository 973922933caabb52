"""Whatever a command line holds: no exception, twice the same answer, bounded, and wrapping lowers nothing."""

import random
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callosum.model import MAX_KEY
from callosum.rules.keys import MAX_KEYS
from callosum.rules.shell import judge
from tests.support.cpu import cpu_within

PIECES = st.sampled_from(
    [
        *"|&;<>()$`\\\"' \n*?[]#~=%!{}^",
        *"&& || ;; << <<- <<< >> >& &> $( ${ $(( )) (( [[ ]] |& ;& 2>&1 \\\n".split(" "),
        *"if then fi for in do done case esac while function { } ! EOF".split(),
        *"rm -rf / . .. ~ a b/c *.o /tmp/x git push --force reset --hard -C stash sudo env A=1 xargs find -exec {} +".split(),
        *"sh -c bash eval ssh host docker exec web curl -X DELETE https://x.org mail a@x.org python -e 'x' psql".split(),
        *"kill $(lsof aws s3 rm kubectl delete --dry-run npm publish dd of=/dev/sda tee -a sed -i cd".split(),
        "\x00",
        "\ud800",
        "\u202e",
        "漢",
    ]
)
LINES = st.lists(PIECES, max_size=24).map(" ".join) | st.lists(PIECES, max_size=24).map("".join) | st.text(max_size=60)


@settings(max_examples=400, deadline=None)
@given(LINES, st.none() | st.sampled_from(["/w", "", "~", "C:\\x", "a/../b", "\x00"]))
def test_parser_never_raises(text: str, cwd: str | None) -> None:
    seen = judge(text, cwd)
    assert seen == judge(text, cwd)
    assert 0 <= seen.tier <= 4
    assert seen.effect == ("write" if seen.tier else "read")
    assert seen.why
    assert len(seen.keys) <= MAX_KEYS
    for key in seen.keys:
        assert 0 < len(key.name) <= MAX_KEY
        assert all(char.isprintable() or unicodedata.category(char) == "Cf" for char in key.name)


COMMANDS = st.sampled_from(
    [
        "ls", "rm -rf build", "rm -rf /srv", "git push", "git reset --hard", "mail a@x.org",
        "curl -X DELETE https://x.org/a", "psql -c 'drop table x'", "kubectl delete pod x", "sed -i s/a/b/ x",
        "dd if=a of=/dev/sda", "python -c 'import shutil; shutil.rmtree(\"/srv\")'",
    ]
)  # fmt: skip
PREFIXES = st.sampled_from(["sudo {}", "env A=1 {}", "nohup {}", "timeout 5 {}"])
AROUND = st.sampled_from(
    [
        "( {} )", "ls; {}", "{} && ls", "$( {} )", 'echo "$( {} )"', "if a; then {}; fi", "{} | cat", "x() {{ {}; }}",
        "{} >/dev/null",
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(COMMANDS, st.lists(PREFIXES, max_size=3), st.lists(AROUND, max_size=4))
def test_wrapping_never_lowers_a_tier(command: str, prefixes: list[str], around: list[str]) -> None:
    wrapped = command
    for one in prefixes + around:
        wrapped = one.format(wrapped)
    bare, seen = judge(command, "/w"), judge(wrapped, "/w")
    assert seen.tier >= bare.tier
    assert {key.name for key in bare.keys} <= {key.name for key in seen.keys}


@settings(max_examples=100, deadline=None)
@given(st.lists(COMMANDS, min_size=1, max_size=6))
def test_line_has_the_highest_tier_of_its_commands(commands: list[str]) -> None:
    for sign in ("; ", " && ", " || ", "\n", " & "):
        assert judge(sign.join(commands), "/w").tier == max(judge(one, "/w").tier for one in commands) or sign == " & "


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
