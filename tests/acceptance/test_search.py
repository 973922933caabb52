"""``callosum search`` as people and programs use it, and several processes that index at once."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from callosum.cli.search import _bring_up_to_date
from callosum.corpus.bus import Corpus
from callosum.gate import LocalGate
from callosum.model import DEFAULT_NAMESPACE, Call, Change, Entry, Event, Outcome, Scope, View
from callosum.regions import search
from callosum.regions.search import Cortex
from tests.acceptance.command import at_terminal, environment, run
from tests.support import forking
from tests.support.world import InstanceGate

HOSTILE = "acme [bold red]x[/] \x1b[2J\x07\u202e\u009b31m needle"


@pytest.fixture
def gate(state: Path) -> Iterator[LocalGate]:
    with InstanceGate(state) as gate:
        yield gate


def mail(gate: LocalGate, instance: str, to: str, body: str = "Hello") -> int:
    return gate.intercept(Call(instance, "send_email", {"to": to, "body": body}, pause=True)).id


def test_search_without_a_store_finds_nothing(state: Path) -> None:
    shown = run(state, "search", "alice")
    assert (shown.returncode, shown.stdout, shown.stderr) == (1, "Nothing has been decided here yet.\n", "")
    shown = run(state, "search", "alice", "--json")
    assert (shown.returncode, shown.stdout, shown.stderr) == (1, "", "")
    assert not state.exists()


def test_hits_are_shown_best_first(state: Path, gate: LocalGate) -> None:
    for number in range(20):  # a word that is in every entry says nothing
        gate.intercept(Call("ops", "write", {"path": f"/repo/{number}.md", "content": "x"}))
    sent = mail(gate, "mira", "alice@example.com")
    gate.complete("mira", id=sent, outcome=Outcome.DONE)
    mail(gate, "doug", "alice@example.com", "Me too")
    mail(gate, "doug", "bob@example.com", "alice says hello")
    (state / "brain" / "topics").mkdir(parents=True)
    (state / "brain" / "topics" / "alice.md").write_text("# alice\n\nmira and doug write to her\n")
    shown = run(state, "search", "alice")
    assert (shown.returncode, shown.stderr) == (0, ""), shown
    heads = [line for line in shown.stdout.splitlines() if line and not line.startswith(" ")]
    assert [line.split()[1:] for line in heads[:-1]] == [
        ["mira", "send_email", "done", "email:alice@example.com"],
        ["mira", "send_email", "allow", "email:alice@example.com"],
        ["doug", "send_email", "confirm", "recent", "email:alice@example.com"],
        ["topics/alice.md", "topic"],
        ["doug", "send_email", "allow", "email:bob@example.com"],
    ]
    assert heads[-1] == "5 hits."
    assert run(state, "search", "alice", "--limit", "5").stdout.endswith("\n5 hits.\n")
    assert run(state, "search", "alice", "--limit", "4").stdout.endswith("\nThe best 4; --limit shows more.\n")
    assert len(run(state, "search", "alice", "--limit", "4", "--json").stdout.splitlines()) == 4
    assert "    to: bob@example.com, body: alice says hello\n" in shown.stdout
    assert "    # alice mira and doug write to her\n" in shown.stdout


def test_options_narrow_the_search(state: Path, gate: LocalGate) -> None:
    for instance, to in (("mira", "alice@example.com"), ("doug", "bob@example.com"), ("doug", "carol@example.com")):
        mail(gate, instance, to)
    gate.intercept(Call("ops", "send_email", {"to": "dan@example.com", "body": "Hello"}, namespace="other"))

    def keys(*words: str) -> list[str]:
        shown = run(state, "search", "--json", *words)
        assert shown.stderr == ""
        assert shown.returncode == (0 if shown.stdout else 1)
        return sorted(json.loads(line)["key"].partition(":")[2].partition("@")[0] for line in shown.stdout.splitlines())

    assert keys("hello") == ["alice", "bob", "carol", "dan"]
    assert keys("hello", "-mira") == keys("hello -mira") == ["bob", "carol", "dan"]
    assert keys("-bob", "hello", "--session", "doug", "-hello2") == ["carol"]
    assert keys("hello", "--", "-bob") == ["alice", "carol", "dan"]
    assert keys("hello", "--namespace", "other") == ["dan"]
    assert len(keys("hello", "--limit", "2")) == 2
    assert keys("hello", "--since", "1h") == ["alice", "bob", "carol", "dan"]
    assert keys("hello", "--since", "2100-01-01") == []
    assert keys('"hello', 'bob"') == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("",), "callosum: query: expected a word to look for\n"),
        (("--", "-alice"), "callosum: query: expected a word to look for beside those to leave out\n"),
        (("x " * 40,), "callosum: query: at most 32 words, got 40\n"),
        (("x", "--since", "soon"), "callosum: --since: expected a time"),
        (("x", "--sesion", "mira"), "No such option"),
        (("x", "--limit", "0"), "Invalid value"),
        (("x", "-limit", "3"), "did you mean --limit?"),
        (("x", "-json"), "did you mean --json?"),
        (("x", "-since=2d"), "did you mean --since?"),
        ((), "Missing argument"),
    ],
)
def test_invalid_options_are_refused(state: Path, words: tuple[str, ...], says: str) -> None:
    shown = run(state, "search", *words)
    assert (shown.returncode, says in shown.stderr) == (2, True), shown
    assert "Traceback" not in shown.stderr
    assert not state.exists()


def test_help_option_shows_the_help(state: Path) -> None:
    for help in ("-h", "--help"):
        assert "QUERY" in run(state, "search", help).stdout


def test_hostile_text_is_escaped_at_a_terminal(state: Path, gate: LocalGate) -> None:
    gate.intercept(Call("mira", "send_email", {"to": f"{HOSTILE}@example.com", "body": HOSTILE}))
    shown = at_terminal(state, "search", "needle")
    assert shown.code == 0
    assert "acme [bold red]x[/]" in shown.text
    for bad in ("\x1b[2J", "\x07", "\u202e", "\u009b"):
        assert bad not in shown.text
    assert "\x1b[1;36mneedle\x1b[0m" in shown.text


def test_a_foreign_gate_is_refused_and_a_foreign_index_is_not(state: Path, gate: LocalGate) -> None:
    mail(gate, "mira", "alice@example.com")
    (state / "brain").mkdir()
    (state / "brain" / "search.db").write_text("somebody's notes")
    shown = run(state, "search", "alice")
    assert shown.returncode == 0, shown
    assert "is built again from the journal" in shown.stderr
    gate.close()
    (state / "gate.db").write_text("somebody's notes, not a database at all")
    shown = run(state, "search", "alice")
    assert shown.returncode == 3, shown
    assert "is not a database of Callosum" in shown.stderr


def test_search_in_an_incomplete_index_reports_it(
    state: Path, gate: LocalGate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        mail(gate, "mira", f"user{number}@example.com")
    monkeypatch.setattr(search, "BUDGET", 3)
    with Corpus() as corpus:
        cortex = Cortex(corpus, store=gate.store, state=state)
        _bring_up_to_date(cortex, None)
        assert "the index ends at" in (said := capsys.readouterr().err)
        assert "search again for the next part" in said
        _bring_up_to_date(cortex, None)
        assert capsys.readouterr().err == ""
        assert len(cortex.search("mira")) == 5


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a folder that can be written, and the same one that not even root can write to."""
    source, place = tmp_path / "source", tmp_path / "read-only"
    source.mkdir()
    place.mkdir()
    for command in (["mount", "--bind", str(source), str(place)], ["mount", "-o", "remount,bind,ro", str(place)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted read-only here: {done.stderr.strip()}")
    yield source, place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_read_only_folder_is_searched_up_to_the_end_of_its_index(read_only: tuple[Path, Path]) -> None:
    source, place = read_only
    with LocalGate(source) as gate:
        mail(gate, "mira", "alice@example.com")
    shown = run(place, "search", "alice")
    assert (shown.returncode, shown.stdout) == (3, "")
    assert "Read-only file system" in shown.stderr
    assert run(source, "search", "alice").returncode == 0
    shown = run(place, "search", "alice")
    assert shown.returncode == 0, shown
    assert "email:alice@example.com" in shown.stdout
    assert "the index ends at" in shown.stderr
    assert "Read-only file system" in shown.stderr


ENTRIES = 1500

INDEXER = """
import sys
from pathlib import Path
from callosum.corpus.bus import Corpus
from callosum.errors import StoreUnavailable
from callosum.regions import search
from callosum.stores.sqlite import SqliteStore

state, how = Path(sys.argv[1]), sys.argv[2]
search._CHUNK = 20
real, add = search._watermark, search._add

def stale(db):
    "What it was when this process last looked, as if it were read before the transaction."
    caller = sys._getframe(1).f_locals
    return caller["after"] if "after" in caller else real(db)

def blind(db, rows):
    "Adds without looking whether they are in."
    db.executemany(f"insert into doc values({', '.join('?' * len(rows[0]))})", rows)
    search._add_words(db, rows)
    return len(rows)

def telling(db, rows):
    print("taken", flush=True)
    return add(db, rows)

if "stale" in how:
    search._watermark = stale
if "blind" in how:
    search._add = blind
if "telling" in how:
    search._add = telling
with Corpus() as corpus:
    cortex = search.Cortex(corpus, store=SqliteStore(state / "gate.db"), state=state)
    print("ready", flush=True)
    sys.stdin.readline()
    print(cortex.index(), flush=True)
"""


@pytest.fixture
def journal(state: Path, gate: LocalGate) -> int:
    """Fill a journal; return its length."""

    def step(number: int) -> Change:
        return Change((Entry(Event.INTERCEPT, "mira", tool="write", body={"params": {"text": f"needle {number}"}}),))

    scope = Scope(DEFAULT_NAMESPACE, "mira")

    def request(number: int) -> tuple[Scope, object]:
        def change(view: View) -> Change:
            return step(number)

        return scope, change

    gate.store.transact([request(number) for number in range(ENTRIES)])  # type: ignore[misc]
    return ENTRIES


def indexer(state: Path, how: str = "") -> subprocess.Popen[str]:
    process = forking.Popen(
        [sys.executable, "-c", INDEXER, str(state), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(state),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def rows(state: Path) -> int:
    """Return how many rows there are; their words must be those of the entries."""
    with closing(sqlite3.connect(state / "brain" / "search.db")) as db:
        db.execute("insert into words(words, rank) values('integrity-check', 1)")
        (count,) = db.execute("select count(*) from doc").fetchone()
        (matched,) = db.execute("select count(*) from words where words match 'needle'").fetchone()
        assert matched == count
        db.rollback()
    return int(count)


def race(state: Path, how: str) -> tuple[list[int], str]:
    """Index in three processes at once; return how much each added, and their errors."""
    processes = [indexer(state, how) for _ in range(3)]
    for process in processes:
        start(process)
    said = [process.communicate(timeout=60) for process in processes]
    return [int(out or 0) for out, _ in said], "".join(err for _, err in said)


@pytest.mark.parametrize("how", ["", "blind"])
def test_processes_that_index_at_once_add_each_entry_once(state: Path, journal: int, how: str) -> None:
    taken, faults = race(state, how)
    assert faults == ""
    assert sum(taken) == journal
    assert rows(state) == journal


def test_index_that_reads_before_its_transaction_is_detected(state: Path, journal: int) -> None:
    """The negative control."""
    taken, faults = race(state, "blind stale")
    assert sum(taken) != journal or "UNIQUE constraint failed" in faults


def test_a_process_that_is_killed_in_the_middle_loses_nothing(state: Path, journal: int) -> None:
    for _ in range(2):
        process = indexer(state, "telling")
        start(process)
        assert process.stdout is not None
        for _ in range(10):
            assert process.stdout.readline() == "taken\n"
        process.kill()
        process.communicate(timeout=60)
        assert 0 < rows(state) < journal
    process = indexer(state)
    start(process)
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert 0 < int(out) < journal
    assert rows(state) == journal
