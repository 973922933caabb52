"""A command line is cut into its simple commands as a shell would cut it."""

import pytest

from callosum.rules.shell.parser import MAX_TEXT, Command, parse
from tests.support.cpu import cpu_within


def commands(text: str) -> list[Command]:
    return [one for one in parse(text).steps if isinstance(one, Command)]


def words(text: str) -> list[list[str]]:
    return [one.words for one in commands(text)]


WORDS: list[tuple[str, list[list[str]]]] = [
    ("ls -la", [["ls", "-la"]]),
    ("  a   b  ", [["a", "b"]]),
    ("", []),
    ("# nothing", []),
    ("a # b", [["a"]]),
    ("a#b", [["a#b"]]),
    ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
    ("a\nb\n\nc", [["a"], ["b"], ["c"]]),
    ("'a b' \"c d\" e\\ f", [["a b", "c d", "e f"]]),
    ("r'm' \"-\"rf x", [["rm", "-rf", "x"]]),
    ("\\rm x", [["rm", "x"]]),
    ("rm \\\n  -rf x", [["rm", "-rf", "x"]]),
    ("echo $'\\x72m' $'a\\tb'", [["echo", "rm", "a\tb"]]),
    ("echo '$(rm x)' \"\\$(rm x)\"", [["echo", "$(rm x)", "$(rm x)"]]),
    ("a $(b c) d", [["b", "c"], ["a", "$(b c)", "d"]]),
    ('a "x $(b "c d") y"', [["b", "c d"], ["a", "x $(b c d) y"]]),
    ("a `b`", [["b"], ["a", "$(b)"]]),
    ("a <(b) >(c)", [["b"], ["c"], ["a", "$(b)", "$(c)"]]),
    ("$(echo rm) -rf x", [["echo", "rm"], ["rm", "-rf", "x"]]),
    ("cd $(git rev-parse --show-toplevel)", [["git", "rev-parse", "--show-toplevel"], ["cd", "$PWD"]]),
    ("rm $(mktemp -d)/x", [["mktemp", "-d"], ["rm", "$TMPDIR/mktemp/x"]]),
    ("(a; b) && { c; d; }", [["a"], ["b"], ["c"], ["d"]]),
    ("if a; then b; elif c; then d; else e; fi", [["a"], ["b"], ["c"], ["d"], ["e"]]),
    ("while ! a; do b; done", [["a"], ["b"]]),
    ("for f in a b; do c $f; done", [["for", "f", "in", "a", "b"], ["c", "$f"]]),
    ("case $x in a|b) c;; (d) e;; *) f; esac; g", [["c"], ["e"], ["f"], ["g"]]),
    ("case x in\n a)\n b\n ;;\nesac\nc", [["b"], ["c"]]),
    ("f() { a; }; f", [["a"], ["f"]]),
    ("function f { a; }", [["a"]]),
    ("[[ a < b && $x =~ (y) ]] && c", [["[[", "a", "<", "b", "&&", "$x", "=~", "y", "]]"], ["c"]]),
    ("echo $((1 + 2)) $(( $(a) * 2 ))", [["a"], ["echo", "$((1 + 2))", "$(( $(a) * 2 ))"]]),
    ("((i++)); a", [["((i++))"], ["a"]]),
    # brackets within sums and lists
    ("x=$((2 * (1 + 3))); a", [["x=$((2 * 1 + 3))"], ["a"]]),
    ("a $((1+(2))) $(( ((1+2)) * (3) ))", [["a", "$((1+2))", "$(( 1+2 * 3 ))"]]),
    ("a[$((1*(2)))]=3; b", [["a[$((1*2))]=3"], ["b"]]),
    ("(x=(a b)); c", [["x=a b"], ["c"]]),
    ("for ((i=0; i<(3-1); i++)); do a; done", [["for", "((i=0; i<3-1; i++))"], ["a"]]),
    ("case $((1+(2))) in (3) a;; (4|5) b;; esac", [["a"], ["b"]]),
    # a body behind brackets needs no separator
    ("for ((;;)) do a; done; b", [["a"], ["b"]]),
    ("for ((;;)) { a; }; b", [["a"], ["b"]]),
    ("while ((i)) do a; done", [["a"]]),
    ("if [[ -f x ]] then a; else b; fi", [["a"], ["b"]]),
    ("a $(printf '\\x72m') $(echo -e '\\x41')", [["printf", "\\x72m"], ["echo", "-e", "\\x41"], ["a", "rm", "A"]]),
    ("$((rm a); b)", [["rm", "a"], ["b"], ["$(rm a | b)"]]),
    ("x=(a $(b) c) d", [["b"], ["x=a $(b) c", "d"]]),
    ("echo ${x:-$(a)} ${y//b/}", [["a"], ["echo", "${x:-$(a)}", "${y//b/}"]]),
    ("time a", [["time", "a"]]),
]


@pytest.mark.parametrize(("text", "expected"), WORDS, ids=[one[0][:40] for one in WORDS])
def test_words_are_split(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected
    assert not parse(text).odd


def test_redirections_are_read() -> None:
    (one,) = commands("a < in > out 2>> log 2>&1 &> all >| force b")
    assert one.words == ["a", "b"]
    assert one.redirects == [("<", "in"), (">", "out"), (">>", "log"), ("&>", "all"), (">|", "force")]


def test_here_documents_are_read() -> None:
    first, second = commands("cat <<'A' - <<-B > f; ls\n$(rm x)\nA\n\tb\n\tB\n")
    assert (first.words, first.redirects, first.stdin) == (["cat", "-"], [(">", "f")], "\tb\n")
    assert second.words == ["ls"]
    assert commands("cat <<< 'a b'")[0].stdin == "a b"


def test_substitution_in_an_unquoted_here_document_is_a_command() -> None:
    assert words("cat <<A\n$(rm x) \" `ls` '\nA\nb") == [["cat"], ["rm", "x"], ["ls"], ["b"]]
    assert words("cat <<'A'\n$(rm x)\nA") == [["cat"]]


def test_a_message_in_a_here_document_is_plain() -> None:
    text = "git commit -m \"$(cat <<'A'\nfix ) it\nA\n)\" && git push"
    assert words(text) == [["cat"], ["git", "commit", "-m", "fix ) it"], ["git", "push"]]


def test_pipes_and_lists_are_read() -> None:
    first, second, third = commands("a | b |& c &")
    assert (first.end, second.end, third.end) == ("|", "|&", "&")
    assert (first.piped, second.piped, third.piped) == (None, first, second)
    *_, last = commands("(a; b) | c")
    assert last.piped is not None
    assert last.piped.words == ["b"]


def test_subshells_are_marked() -> None:
    steps = parse("(cd x; a); b").steps
    assert [one if isinstance(one, bool) else one.words[0] for one in steps] == [True, "cd", "a", False, "b"]


def test_function_that_calls_itself_is_recognised() -> None:
    first, second, third = commands(":(){ :|:& };:")
    assert (first.inside, second.inside, third.inside) == (":", ":", "")


@pytest.mark.parametrize(
    "text",
    [
        "echo 'a", 'echo "a', "echo $(a", "echo `a", "cat <<A\nb", "cat <<A", "a)", "a.b('c')", "a.b()",
        "x $(( (1)", "a \\",
    ],
)  # fmt: skip
def test_invalid_shell_syntax_is_marked_as_odd(text: str) -> None:
    assert parse(text).odd


def test_commands_in_invalid_shell_syntax_are_still_read() -> None:
    assert ["rm", "x"] in words("echo $(rm x")
    assert ["rm", "x"] in words("a) rm x")


N = 200_000
HUGE = {
    "word": "x" * N,
    "commands": "a b && " * (N // 7) + "c",
    "substitutions": "$(" * (N // 2),
    "sums": "$((" * (N // 3),
    "half sums": "$((a ) " * (N // 7),
    "subshells": "(" * N,
    "braces": "{ " * (N // 2),
    "quotes": "a'b'" * (N // 4),
    "backticks": "`" * N,
    "parameters": "${" * (N // 2),
    "documents": "a <<b\n" * (N // 6),
    "long document": "cat <<A\n" + "b $(c)\n" * (N // 7) + "A\n",
    "tabs": "cat <<-A\n" + "\tA b\n" * (N // 5),
    "cases": "case x in a) " * (N // 13),
    "functions": "f() { " * (N // 6),
    "lists": "a=(" * (N // 3),
}


@pytest.mark.parametrize("kind", HUGE)
def test_parsing_is_bounded(kind: str) -> None:
    with cpu_within(0.5):
        parse(HUGE[kind])


def test_a_thousand_commands_are_read_to_the_end() -> None:
    found = parse(" && ".join(f"rm -rf a{number}" for number in range(1000)))
    assert len(found.steps) == 1000
    assert not found.cut


def test_too_long_or_too_deep_lines_are_marked() -> None:
    assert parse("a " * 100_000).cut
    assert parse("$(" * 10_000).cut
    assert parse("x" * (MAX_TEXT + 1)).cut
