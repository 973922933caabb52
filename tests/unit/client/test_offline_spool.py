"""Late calls: none is lost, none is sent twice but a page whose sender died, and secrets never reach the disk."""

import fcntl
import json
import multiprocessing
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from callosum import spool
from callosum.client import spool as module
from callosum.client.errors import Unreachable
from callosum.client.spool import MAX_KEPT, ClientSpool, PageRefused
from callosum.locks import locked
from tests.support.peer import lines_of
from tests.support.threads import all_at_once

FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that is what is tested


def call(number: int = 1, *, call_id: str | None = None, **params: Any) -> dict[str, Any]:
    made = {"instance": "mira", "tool": "note", "params": {"n": number, **params}, "namespace": "default"}
    return made if call_id is None else {**made, "callId": call_id}


class Gate:
    """Accepts pages. ``fails`` is how many further requests get no response."""

    def __init__(self, *, fails: int = 0, refuse: Callable[[dict[str, Any]], bool] = lambda one: False) -> None:
        self.pages: list[list[dict[str, Any]]] = []
        self.fails = fails
        self._refuse = refuse
        self.says_where = True

    def post(self, body: bytes, count: int) -> None:
        if self.fails:
            self.fails -= 1
            raise Unreachable("nobody", sent=False)
        calls = json.loads(body)["calls"]
        assert len(calls) == count
        for place, one in enumerate(calls):
            if self._refuse(one):
                raise PageRefused("no", place if self.says_where else None)
        self.pages.append(calls)

    @property
    def outcomes(self) -> dict[int, str]:
        return {one["call"]["params"]["n"]: one["outcome"] for page in self.pages for one in page}

    @property
    def numbers(self) -> list[int]:
        return [one["call"]["params"]["n"] for page in self.pages for one in page]


@pytest.fixture(params=["memory", "file"])
def late(request: pytest.FixtureRequest, tmp_path: Path) -> ClientSpool:
    return ClientSpool(str(tmp_path / "state") if request.param == "file" else None)


def test_spooled_call_is_sent_once(late: ClientSpool) -> None:
    assert not late.waiting()
    for number in range(3):
        late.let_through(call(number))
    assert late.waiting()
    gate = Gate()
    assert late.flush(gate.post) == 3
    assert late.flush(gate.post) == 0
    assert gate.numbers == [0, 1, 2]
    assert not late.waiting()
    assert gate.pages[0][0]["call"] == {
        "instance": "mira", "tool": "note", "namespace": "default", "params": {"n": 0},
        "callId": gate.pages[0][0]["call"]["callId"],
    }  # fmt: skip


def test_nothing_is_lost_while_the_gate_is_unreachable(late: ClientSpool) -> None:
    gate = Gate(fails=2)
    for number in range(2):
        late.let_through(call(number))
        with pytest.raises(Unreachable):
            late.flush(gate.post)
    late.let_through(call(2))
    late.flush(gate.post)
    assert sorted(gate.numbers) == [0, 1, 2]


@pytest.mark.parametrize("call_id", [None, "c-1"])
def test_the_outcome_joins_its_call(late: ClientSpool, call_id: str | None) -> None:
    late.let_through(call(1, call_id=call_id))
    late.report(call(1, call_id=call_id), "failed")
    gate = Gate()
    late.flush(gate.post)
    assert gate.outcomes == {1: "failed"}
    assert len(gate.numbers) == 1


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_an_outcome_after_the_call_was_sent_is_sent_too(late: ClientSpool, outcome: str) -> None:
    """The gate dates the change by the end of the tool."""
    gate = Gate()
    late.let_through(call())
    late.flush(gate.post)
    late.report(call(), outcome)
    late.flush(gate.post)
    first, second = (page[0] for page in gate.pages)
    assert (first["outcome"], first["running"]) == ("done", True)
    assert (second["kind"], second["outcome"], second["call"]) == ("report", outcome, first["call"])
    assert second["ended"] >= first["started"]


def test_equal_calls_are_reported_oldest_first(late: ClientSpool) -> None:
    for _ in range(2):
        late.let_through(call())
    late.report(call(), "failed")
    late.report(call(), "done")
    gate = Gate()
    late.flush(gate.post)
    assert [one["outcome"] for one in gate.pages[0]] == ["failed", "done"]


def test_report_of_a_call_that_is_not_in_the_spool_counts(late: ClientSpool) -> None:
    late.report(call(), "done")
    gate = Gate()
    late.flush(gate.post)
    assert gate.outcomes == {1: "done"}


@pytest.mark.parametrize("says_where", [True, False])
def test_record_that_the_gate_refuses_does_not_delay_others(late: ClientSpool, says_where: bool) -> None:
    gate = Gate(refuse=lambda one: one["call"]["params"]["n"] in (3, 7))
    gate.says_where = says_where
    for number in range(10):
        late.let_through(call(number))
    assert late.flush(gate.post) == 8
    assert sorted(gate.numbers) == [0, 1, 2, 4, 5, 6, 8, 9]
    assert not late.waiting()


def test_calls_of_another_instance_are_left_to_its_client(tmp_path: Path) -> None:
    """A token that speaks for one instance, and a file that two share."""
    for number in range(6):
        ClientSpool(str(tmp_path)).let_through({**call(number), "instance": ("mira", "doug")[number % 2]})

    class OneGate(Gate):
        def __init__(self, own: str) -> None:
            super().__init__()
            self.own = own
            self.posts = 0

        def post(self, body: bytes, count: int) -> None:
            self.posts += 1
            for place, one in enumerate(json.loads(body)["calls"]):
                if one["call"]["instance"] != self.own:
                    raise PageRefused("not yours", place, theirs=True)
            super().post(body, count)

    mira, doug = OneGate("mira"), OneGate("doug")
    assert ClientSpool(str(tmp_path)).flush(mira.post) == 3
    assert ClientSpool(str(tmp_path)).flush(mira.post) == 0
    assert ClientSpool(str(tmp_path)).flush(doug.post) == 3
    assert (mira.numbers, doug.numbers) == ([0, 2, 4], [1, 3, 5])
    assert mira.posts == 3
    assert lines_of(tmp_path) == []


def test_pages_are_bounded(late: ClientSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (module, spool):
        monkeypatch.setattr(where, "MAX_PAGE", 4)
    for number in range(10):
        late.let_through(call(number))
    gate = Gate()
    assert late.flush(gate.post) == 10
    assert [len(page) for page in gate.pages] == [4, 4, 2]


def test_one_flush_at_a_time(late: ClientSpool) -> None:
    late.let_through(call())
    gate = Gate()

    def post(body: bytes, count: int) -> None:
        assert late.flush(gate.post) == 0
        gate.post(body, count)

    assert late.flush(post) == 1
    assert gate.numbers == [1]


def test_many_threads_share_one_spool(late: ClientSpool) -> None:
    gate = Gate()

    def work(first: int) -> None:
        for number in range(first, first + 25):
            late.let_through(call(number))
            if number % 10 == 0:
                late.flush(gate.post)

    all_at_once([partial(work, first) for first in range(0, 100, 25)])
    late.flush(gate.post)
    assert sorted(gate.numbers) == list(range(100))


def test_record_that_cannot_be_written_stays_in_memory(late: ClientSpool) -> None:
    late.let_through({**call(), "instance": 5, "cwd": object(), "params": {"n": 1, "odd": object(), "\udc80": b"x"}})
    gate = Gate()
    late.flush(gate.post)
    assert gate.numbers == [1]


def test_size_of_a_record_is_bounded(late: ClientSpool) -> None:
    late.let_through({**call(), "cwd": "x" * 1_000_000, "action": "a" * 1_000_000})
    gate = Gate()
    late.flush(lambda body, count: gate.pages.append(json.loads(body)["calls"]))
    assert len(json.dumps(gate.pages)) < 2000


def test_the_memory_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    late = ClientSpool(None)
    for number in range(MAX_KEPT + 50):
        late.let_through(call(number))
    gate = Gate()
    late.flush(gate.post)
    assert gate.numbers == list(range(50, MAX_KEPT + 50))
    assert caplog.text.count("are forgotten") == 1


def test_record_added_while_a_page_is_sent_stays() -> None:
    late = ClientSpool(None)
    late.let_through(call(1))
    gate = Gate()

    def post(body: bytes, count: int) -> None:
        if not gate.pages:
            late.let_through(call(2))
            late.report(call(1), "failed")
        gate.post(body, count)

    late.flush(post)
    assert [(one["call"]["params"]["n"], one["outcome"]) for page in gate.pages for one in page] == [
        (1, "done"), (2, "done"), (1, "failed"),
    ]  # fmt: skip


def _child(late: ClientSpool, told: Any) -> None:
    gate = Gate()
    late.let_through(call(2))
    late.flush(gate.post)
    told.send(gate.numbers)
    told.close()


@FORKS
def test_forked_child_sends_only_its_own_records() -> None:
    late = ClientSpool(None)
    late.let_through(call(1))
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    with late._lock:  # as if another thread were at it
        process = context.Process(target=_child, args=(late, theirs))
        process.start()
    assert mine.recv() == [2]
    process.join(10)
    gate = Gate()
    late.flush(gate.post)
    assert gate.numbers == [1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_the_file_is_private_and_holds_no_secret(folder: Path) -> None:
    ClientSpool(str(folder)).let_through({**call(), "params": {"password": "hunter2hunter2", "text": "x" * 5000}})
    path = folder / "late.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    text = path.read_text()
    assert "hunter2" not in text
    assert len(text) < 1000


def test_killed_sender_repeats_one_page_at_most(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (module, spool):
        monkeypatch.setattr(where, "MAX_PAGE", 3)
    late = ClientSpool(str(folder))
    for number in range(9):
        late.let_through(call(number))
    gate = Gate()

    class Died(BaseException):
        pass

    def post(body: bytes, count: int) -> None:
        gate.post(body, count)
        if len(gate.pages) == 2:
            raise Died

    with pytest.raises(Died):
        late.flush(post)
    ClientSpool(str(folder)).flush(gate.post)
    assert gate.numbers == [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 8]
    assert lines_of(folder) == []


def test_progress_of_a_killed_sender_is_kept_while_the_gate_is_unreachable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in (module, spool):
        monkeypatch.setattr(where, "MAX_PAGE", 2)
    late = ClientSpool(str(folder))
    for number in range(5):
        late.let_through(call(number))
    gate = Gate()

    def post(body: bytes, count: int) -> None:
        if len(gate.pages) in (1, 2) and not gate.fails:
            gate.fails = 1
        gate.post(body, count)

    for _ in range(2):
        with pytest.raises(Unreachable):
            late.flush(post)
    late.flush(gate.post)
    assert gate.numbers == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "left", ['{"call": {"instance": "mira", "to', "\0\0\0", "[1]", '{"call": 5}', "x" * 300, '{"sent":']
)
def test_truncated_line_spoils_no_other(folder: Path, left: str) -> None:
    late = ClientSpool(str(folder))
    late.let_through(call(1))
    with (folder / "late.jsonl").open("a") as file:
        file.write(left)  # its writer died here
    late.let_through(call(2))
    gate = Gate()
    late.flush(gate.post)
    assert gate.numbers == [1, 2]


def test_records_stay_in_memory_when_the_file_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MAX_FILE", 1000)
    late = ClientSpool(str(folder))
    for number in range(20):
        late.let_through(call(number))
    assert (folder / "late.jsonl").stat().st_size <= 1000
    gate = Gate()
    late.flush(gate.post)
    assert gate.numbers == list(range(20))


def test_records_stay_in_memory_when_the_folder_is_not_writable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    late = ClientSpool(str(tmp_path / "file" / "state"))
    for number in range(2):
        late.let_through(call(number))
    gate = Gate()
    late.flush(gate.post)
    assert gate.numbers == [0, 1]
    assert caplog.text.count("cannot be written") == 1


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (tmp_path / "target").write_text("keep")
    (folder / "late.jsonl").symlink_to(tmp_path / "target")
    late = ClientSpool(str(folder))
    late.let_through(call(1))
    gate = Gate()
    late.flush(gate.post)
    assert (tmp_path / "target").read_text() == "keep"
    assert gate.numbers == [1]


def test_a_file_that_another_process_sends_is_left_to_it(folder: Path) -> None:
    ClientSpool(str(folder)).let_through(call(1))
    gate = Gate()
    with locked(folder / "late.lock") as mine:
        assert mine
        assert ClientSpool(str(folder)).flush(gate.post) == 0
    assert ClientSpool(str(folder)).flush(gate.post) == 1


def test_a_line_never_lands_in_a_file_that_is_being_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer opened the file before it was renamed and writes afterwards: it must notice."""
    late = ClientSpool(str(folder))
    late.let_through(call(1))
    gate = Gate()
    real = fcntl.flock
    taken = False

    def flock(descriptor: int, how: int) -> None:
        nonlocal taken
        if how & fcntl.LOCK_SH and not taken:
            taken = True
            ClientSpool(str(folder)).flush(gate.post)  # between the writer's open and its lock
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    late.let_through(call(2))
    assert taken
    assert gate.numbers == [1]
    assert [one["call"]["params"]["n"] for one in lines_of(folder)] == [2]


def test_without_the_check_of_the_file_name_that_line_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the test above."""
    monkeypatch.setattr(spool, "_same", lambda descriptor, path: True)
    with pytest.raises(AssertionError):
        test_a_line_never_lands_in_a_file_that_is_being_sent(folder, monkeypatch)


def _write(folder: str, first: int) -> None:
    late = ClientSpool(folder)
    for number in range(first, first + 50):
        late.let_through(call(number))


@FORKS
def test_processes_that_write_while_others_send_lose_nothing(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(str(folder), first)) for first in (0, 50, 100)]
    for writer in writers:
        writer.start()
    gate = Gate()
    late = ClientSpool(str(folder))
    while any(writer.is_alive() for writer in writers):
        late.flush(gate.post)
        writers[0].join(0.005)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    late.flush(gate.post)
    assert sorted(gate.numbers) == list(range(150))
    assert lines_of(folder) == []


def test_descriptors_are_closed(folder: Path) -> None:
    late = ClientSpool(str(folder))
    gate = Gate(fails=3)
    before = _descriptors()
    for number in range(5):
        late.let_through(call(number))
        try:
            late.flush(gate.post)
        except Unreachable:
            continue
    assert _descriptors() == before


def _descriptors() -> int:
    """Return how many file descriptors are open; 0 where the system does not show it."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
