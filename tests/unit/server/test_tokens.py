"""Tokens: made once, kept as digests, changed by commands while servers read them."""

import errno
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from callosum.errors import ConfigError
from callosum.server import tokens as module
from callosum.server.tokens import LOOK_EVERY, Role, Token, Tokens
from tests.acceptance.command import at_terminal, environment, run
from tests.support.clocks import Clock

NOW = 1_800_000_000.0


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tokens.json"


@pytest.fixture
def tokens(path: Path, clock: Clock) -> Tokens:
    return Tokens(path, clock=clock, ticks=clock)


def test_a_token_is_found_by_its_secret_alone(tokens: Tokens) -> None:
    secret = tokens.add("mira-laptop", instance="mira", namespaces=("work",))
    other = tokens.add("anna", role=Role.APPROVER)
    assert re.fullmatch(r"cal_mira-laptop_[A-Za-z0-9_-]{43}", secret)
    found = tokens.find(secret)
    assert found == tokens.list()[1]
    assert (found.name, found.role, found.instance, found.namespaces) == ("mira-laptop", "actor", "mira", ("work",))
    assert (found.created, found.expires) == (NOW, None)
    assert tokens.find(other) == tokens.list()[0]
    for wrong in (
        "",
        "cal_",
        "cal_mira-laptop_",
        secret[:-1],
        secret + "A",
        secret[:-1] + ("A" if secret[-1] != "A" else "B"),
        secret.replace("mira", "doug"),
        other[:9] + secret[-43:],
        secret.upper(),
        " " + secret,
        "\ud800" + secret,
        "é" * 60,
        "cal_nobody_" + "A" * 43,
        found.digest,
    ):
        assert tokens.find(wrong) is None


@pytest.mark.parametrize("name", ["a", "a.b_c-d", "a_b_", "A1" * 32])
def test_valid_names_are_accepted(tokens: Tokens, name: str) -> None:
    found = tokens.find(tokens.add(name))
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("at", "given"),
    [
        ("name", {"name": ""}), ("name", {"name": "-a"}), ("name", {"name": "a b"}), ("name", {"name": "a\n"}),
        ("name", {"name": "ä"}), ("name", {"name": "a" * 65}), ("name", {"name": "taken"}),
        ("instance", {"instance": ""}), ("instance", {"instance": "a\x1b"}),
        ("instance", {"instance": "mira", "role": Role.APPROVER}), ("namespace", {"namespaces": ()}),
        ("namespace", {"namespaces": ("a", "")}), ("expires", {"expires": NOW}), ("expires", {"expires": float("nan")}),
        ("expires", {"expires": float("inf")}),
    ],
)  # fmt: skip
def test_invalid_token_is_refused_with_its_field_and_changes_nothing(
    tokens: Tokens, path: Path, at: str, given: dict[str, Any]
) -> None:
    tokens.add("taken")
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        tokens.add(**{"name": "new", **given})
    assert caught.value.at == at
    assert path.read_bytes() == before


def test_a_token_ends_when_it_expires(tokens: Tokens, clock: Clock) -> None:
    secret = tokens.add("mira", expires=NOW + 60)
    found = tokens.find(secret)
    assert found is not None
    clock.sleep(59)
    assert tokens.find(secret)
    assert tokens.holds(found)
    clock.sleep(1)
    assert tokens.find(secret) is None
    assert not tokens.holds(found)
    with pytest.raises(ConfigError, match="expired"):
        tokens.rotate("mira")


def test_a_rotated_token_has_a_new_secret_and_the_old_one_for_a_while_if_wanted(tokens: Tokens, clock: Clock) -> None:
    first = tokens.add("mira", instance="mira")
    early = tokens.find(first)
    assert early is not None
    second = tokens.rotate("mira", grace=3600)
    late = tokens.find(first)
    assert late is not None
    assert (late.name, late.instance) == ("mira", "mira")
    assert tokens.holds(early)
    assert tokens.holds(late)
    clock.sleep(3600)
    assert tokens.find(first) is None
    assert not tokens.holds(early)
    assert not tokens.holds(late), "a stream that was opened with the old secret outlived it"
    third = tokens.rotate("mira")
    assert tokens.find(second) is None
    found = tokens.find(third)
    assert found is not None
    assert (found.instance, found.created) == ("mira", NOW)
    with pytest.raises(ConfigError):
        tokens.rotate("doug")
    with pytest.raises(ConfigError):
        tokens.rotate("mira", grace=-1)


def test_the_file_is_private_and_holds_no_secret(tokens: Tokens, path: Path) -> None:
    before = os.umask(0)
    try:
        secret = tokens.add("mira")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0
        assert secret[-43:].encode() not in file.read_bytes()
    assert hashlib.sha256(secret.encode()).hexdigest() in path.read_text()
    assert {file.name for file in path.parent.iterdir()} == {"tokens.json", "tokens.lock"}


def test_a_removed_token_stops_working_without_a_restart(path: Path, clock: Clock) -> None:
    """Each of the two stands in for a process of its own."""
    command, server = Tokens(path, clock=clock, ticks=clock), Tokens(path, clock=clock, ticks=clock)
    secret = command.add("mira")
    assert server.find(secret) is None  # it reads the file only at intervals
    clock.sleep(LOOK_EVERY)
    found = server.find(secret)
    assert found is not None
    command.remove("mira")
    clock.sleep(LOOK_EVERY)
    assert server.find(secret) is None
    assert not server.holds(found)
    with pytest.raises(ConfigError):
        command.remove("mira")


def test_a_removed_file_means_no_tokens(tokens: Tokens, path: Path, clock: Clock) -> None:
    secret = tokens.add("mira")
    path.unlink()
    clock.sleep(LOOK_EVERY)
    assert tokens.find(secret) is None
    assert tokens.list() == ()


ENTRY = {"name": "mira", "role": "actor", "created": 1, "digest": "0" * 64}
BROKEN: dict[str, tuple[Any, str]] = {
    "empty": (b"", ""),
    "half": (b'{"version": 1, "tokens": [', ""),
    "a list": (b"[]", ": body"),
    "no utf-8": (b'{"tokens": [{"name": "\xff"}]}', ""),
    "another version": ({"version": 2, "tokens": []}, ": version"),
    "a field that is none": ({"tokens": [{**ENTRY, "namespace": "work"}]}, ": tokens[0]"),
    "no role": ({"tokens": [{k: v for k, v in ENTRY.items() if k != "role"}]}, ": tokens[0].role"),
    "a role that is none": ({"tokens": [{**ENTRY, "role": "root"}]}, ": tokens[0].role"),
    "no digest": ({"tokens": [{**ENTRY, "digest": "secret"}]}, ": tokens[0].digest"),
    "no namespaces": ({"tokens": [{**ENTRY, "namespaces": []}]}, ": tokens[0].namespaces"),
    "a name twice": ({"tokens": [ENTRY, ENTRY]}, ": tokens[1].name"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_leaves_the_tokens_as_they_were(
    tokens: Tokens, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    content, place = BROKEN[name]
    secret = tokens.add("mira")
    good = path.read_bytes()
    bad = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(bad)
    for _ in range(3):
        clock.sleep(LOOK_EVERY)
        with caplog.at_level(logging.WARNING, "callosum"):
            assert tokens.find(secret)
    assert len(caplog.records) == 1
    assert f"{path}{place}: " in caplog.text
    assert tokens.error is not None
    for change in (lambda: tokens.add("doug"), lambda: tokens.remove("mira"), tokens.list, lambda: Tokens(path)):
        with pytest.raises(ConfigError) as caught:
            change()
        assert caught.value.at == f"{path}{place}"
    assert path.read_bytes() == bad
    path.write_bytes(good)
    clock.sleep(LOOK_EVERY)
    assert tokens.find(secret)
    assert tokens.error is None


def test_removed_token_ends_although_the_file_could_not_be_opened_at_first(
    tokens: Tokens, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the file changing once more: a fault that passes must not keep the token in force."""
    secret = tokens.add("mira")
    Tokens(path).remove("mira")
    opened = Path.open

    def full(self: Path, *args: Any, **more: Any) -> Any:
        if self == path:
            raise OSError(errno.EMFILE, "Too many open files", str(self))
        return opened(self, *args, **more)

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "callosum"):
        patched.setattr(Path, "open", full)
        for _ in range(3):
            clock.sleep(LOOK_EVERY)
            assert tokens.find(secret), "the tokens stay as they were"
    assert tokens.error is not None
    assert len(caplog.records) == 1
    clock.sleep(LOOK_EVERY)
    assert tokens.find(secret) is None
    assert tokens.error is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o640, 0o644])
def test_file_that_others_can_read_or_change_is_not_used(tokens: Tokens, path: Path, clock: Clock, mode: int) -> None:
    secret = tokens.add("mira")
    forged = json.loads(path.read_bytes())
    forged["tokens"].append({**ENTRY, "role": "approver", "name": "evil", "digest": hashlib.sha256(b"x").hexdigest()})
    path.write_text(json.dumps(forged))
    path.chmod(mode)
    clock.sleep(LOOK_EVERY)
    assert tokens.find(secret)
    assert tokens.error is not None
    assert [token.name for token in (tokens.find(secret),) if token] == ["mira"]
    assert tokens.named("cal_evil_" + "A" * 43) == ""
    path.chmod(0o600)
    clock.sleep(LOOK_EVERY)
    assert tokens.named("cal_evil_" + "A" * 43) == "evil"


def test_killed_command_does_not_block_the_next(tokens: Tokens, path: Path) -> None:
    tokens.add("mira")
    path.with_suffix(".part").write_text("{")
    tokens.add("doug")
    assert [token.name for token in tokens.list()] == ["doug", "mira"]


def test_a_folder_that_cannot_be_written_is_a_clear_error(path: Path) -> None:
    path.parent.write_text("a file where the folder should be")
    with pytest.raises(ConfigError) as caught:
        Tokens(path)
    assert caught.value.at == str(path)


_ADDS = """
import sys
from callosum.server.tokens import Tokens
tokens = Tokens(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for place in range(20):
    tokens.add(f"{sys.argv[2]}-{place}")
"""


def test_simultaneous_commands_lose_nothing(path: Path) -> None:
    Tokens(path).add("first")
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _ADDS, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(path.parent),
        )
        for name in ("a", "b", "c")
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.communicate("go\n", timeout=60)
    assert [child.returncode for child in children] == [0, 0, 0]
    assert len(Tokens(path).list()) == 61


def test_without_the_lock_simultaneous_commands_lose_tokens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: threads that each read the file before any of them wrote."""
    both = Barrier(2)
    read = module._read

    def slowly(path: Path) -> dict[str, Token]:
        found = read(path)
        both.wait(20)
        return found

    book = Tokens(path)
    book.reload = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("callosum.locks.fcntl", None)
    monkeypatch.setattr(module, "_write", lambda path, tokens: written.append(sorted(tokens)))
    monkeypatch.setattr(module, "_read", slowly)
    written: list[list[str]] = []
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(book.add, ("a", "b")))
    assert sorted(written) == [["a"], ["b"]]


def test_no_secret_in_reprs_errors_and_logs(
    tokens: Tokens, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = tokens.add("mira")
    found = tokens.find(secret)
    assert found is not None
    tokens.find(secret[:-1] + "x")
    second = tokens.rotate("mira", 60)
    texts = [repr(found), str(found), repr(tokens), repr(tokens.list())]
    for wrong in (lambda: tokens.add("mira"), lambda: tokens.rotate(secret), lambda: tokens.remove("doug")):
        with pytest.raises(ConfigError) as caught:
            wrong()
        texts.append(f"{caught.value!r} {caught.value}")
    path.write_bytes(path.read_bytes()[:-9])
    clock.sleep(LOOK_EVERY)
    tokens.find(second)
    texts += [record.getMessage() for record in caplog.records]
    assert caplog.records
    for one in (secret, second):
        assert all(one[-43:] not in text for text in texts)
    assert all(found.digest not in text for text in texts)
    assert all(hashlib.sha256(second.encode()).hexdigest() not in text for text in texts)


def test_name_in_a_wrong_token_is_repeated_only_if_that_token_exists(tokens: Tokens) -> None:
    tokens.add("mira")
    assert tokens.named("cal_mira_" + "A" * 43) == "mira"
    for claim in ("cal_password123_" + "A" * 43, "cal_mira_" + "A" * 42, "password", ""):
        assert tokens.named(claim) == ""


def test_every_lookup_makes_the_same_number_of_comparisons(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tokens.add("mira")
    tokens.rotate("mira", 60)
    counts: list[int] = []

    class Counting:
        @staticmethod
        def compare_digest(one: str, other: str) -> bool:
            assert len(one) == len(other) == 64
            counts[-1] += 1
            return one == other

    monkeypatch.setattr(module, "hmac", Counting)
    for one in (secret, secret[:-1] + "x", "cal_doug_" + "A" * 43, "nonsense"):
        counts.append(0)
        tokens.find(one)
    assert counts == [2, 2, 2, 2]


def test_secret_is_alone_on_standard_output(state: Path) -> None:
    made = run(state, "token", "add", "mira-laptop", "--instance", "mira", "--namespace", "work", "--namespace", "home")
    assert made.returncode == 0, made.stderr
    assert re.fullmatch(r"cal_mira-laptop_[A-Za-z0-9_-]{43}\n", made.stdout)
    assert "an actor's token for mira alone, in work, home" in made.stderr
    assert made.stdout.strip() not in made.stderr
    found = Tokens(state / "tokens.json").find(made.stdout.strip())
    assert found is not None
    assert (found.instance, found.namespaces) == ("mira", ("work", "home"))


def test_tokens_are_listed_rotated_and_removed(state: Path) -> None:
    assert run(state, "token", "list").stdout == "There are no tokens.\n"
    assert not state.exists()
    made = json.loads(run(state, "token", "add", "mira", "--expires", "30d", "--json").stdout)
    assert set(made) == {"name", "role", "instance", "namespaces", "created", "expires", "formerUntil", "token"}
    assert made["expires"] - made["created"] == pytest.approx(30 * 86400, abs=2)
    shown = run(state, "token", "list")
    assert "mira" in shown.stdout
    (listed,) = json.loads(run(state, "token", "list", "--json").stdout)["tokens"]
    assert {**listed, "token": made["token"]} == made
    assert made["token"][-43:] not in shown.stdout

    rotated = run(state, "token", "rotate", "mira", "--grace", "1h")
    tokens = Tokens(state / "tokens.json")
    assert tokens.find(rotated.stdout.strip())
    assert tokens.find(made["token"])
    assert run(state, "token", "remove", "mira").returncode == 0
    assert Tokens(state / "tokens.json").list() == ()
    for words in (("remove", "mira"), ("rotate", "mira")):
        gone = run(state, "token", *words)
        assert (gone.returncode, gone.stdout) == (1, "")
        assert "there is no token with this name" in gone.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("add", "a b"), 2, "name: "),
        (("add", "x", "--role", "root"), 2, "--role: "),
        (("add", "x", "--expires", "soon"), 2, "--expires: "),
        (("add", "x", "--expires", "0"), 2, "expires: "),
        (("rotate", "taken", "--grace", "400d"), 2, "grace: "),
        (("add", "taken"), 2, "name: "),
        (("add", "x", "--role", "approver"), 4, "only a person can have an approver's token"),
    ],
)
def test_impossible_command_says_why(state: Path, words: tuple[str, ...], code: int, says: str) -> None:
    Tokens(state / "tokens.json").add("taken")
    said = run(state, "token", *words)
    assert (said.returncode, said.stdout) == (code, "")
    assert says in said.stderr


def test_an_approvers_token_is_for_a_person_at_a_terminal(state: Path) -> None:
    shown = at_terminal(state, "token", "add", "anna", "--role", "approver")
    assert shown.code == 0, shown.text
    (token,) = Tokens(state / "tokens.json").list()
    assert token.role is Role.APPROVER
    secret = re.search(r"cal_anna_[A-Za-z0-9_-]{43}", shown.text)
    assert secret
    assert Tokens(state / "tokens.json").find(secret[0]) == token
    assert run(state, "token", "rotate", "anna").returncode == 4
    assert at_terminal(state, "token", "add", "x", "--role", "approver", env={"CLAUDECODE": "1"}).code == 4
