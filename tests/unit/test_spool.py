"""The file of the spool: shared by processes, taken in once, and harmless if another file is in its place."""

import errno
import json
import multiprocessing
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from callosum import LocalGate, spool
from callosum.model import Call, Event
from callosum.settings import Settings
from callosum.spool import FILE, MAX_LINE, Spool, merged, written


def line(number: int) -> bytes:
    return written({"kind": "call", "v": 2, "call": {"instance": "mira", "tool": "note", "callId": f"c{number}"}})


class RecordTaker:
    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def accept(self, page: Sequence[bytes]) -> None:
        self.lines += page


def test_file_is_there_until_the_last_record_is_entered(tmp_path: Path) -> None:
    """A second gate that finds no file decides at once: by then everything must be entered."""
    one = Spool(str(tmp_path))
    one.add(line(1))
    seen: list[bool] = []
    assert one.take(lambda _page: seen.append(one.waiting())) == 1
    assert seen == [True]
    assert not one.waiting()


def test_second_taker_waits_for_the_first(tmp_path: Path) -> None:
    one, other = Spool(str(tmp_path)), Spool(str(tmp_path))
    one.add(line(1))
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()
    entered: list[bytes] = []

    def slowly(page: Sequence[bytes]) -> None:
        begun.set()
        assert go_on.wait(20)
        entered.extend(page)

    def second() -> None:
        other.take(slowly, wait=20)
        assert entered == [line(1)], "it returns when the first has entered all"
        done.set()

    first = threading.Thread(target=lambda: one.take(slowly))
    first.start()
    assert begun.wait(20)
    waiting = threading.Thread(target=second)
    waiting.start()
    assert not done.is_set()
    go_on.set()
    first.join(20)
    waiting.join(20)
    assert done.is_set()


def test_record_written_during_the_intake_is_taken_too(tmp_path: Path) -> None:
    one = Spool(str(tmp_path))
    one.add(line(1))
    taker = RecordTaker()

    def accept(page: Sequence[bytes]) -> None:
        if not taker.lines:
            assert one.add(line(2))
        taker.accept(page)

    assert one.take(accept) == 2
    assert taker.lines == [line(1), line(2)]


def test_taking_ends_even_if_others_keep_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision waits only for earlier records; the next one takes in the rest once."""
    monkeypatch.setattr(spool, "_CHASE", 0.05)
    one, taker = Spool(str(tmp_path)), RecordTaker()
    numbers = iter(range(10**6))
    one.add(line(next(numbers)))

    def accept_and_add(page: Sequence[bytes]) -> None:
        taker.accept(page)
        one.add(line(next(numbers)))

    one.take(accept_and_add)
    assert line(0) in taker.lines
    assert one.waiting()
    one.take(taker.accept)
    assert not one.waiting()
    assert taker.lines == [line(number) for number in range(next(numbers))]


def test_record_of_a_writer_without_locks_is_not_lost_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node has no locks: it writes between the last check of the file and its removal."""
    one = Spool(str(tmp_path))
    one.add(line(1))
    real = os.unlink

    def unlink(path: str) -> None:
        with Path(path).open("ab") as file:
            file.write(b"\n" + line(2) + b"\n")
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    taker = RecordTaker()
    one.take(taker.accept)
    assert taker.lines == [line(1), line(2)]


def test_rejected_record_stays(tmp_path: Path) -> None:
    one = Spool(str(tmp_path))
    one.add(line(1))

    def fail(_page: Sequence[bytes]) -> None:
        raise RuntimeError("the store is away")

    with pytest.raises(RuntimeError):
        one.take(fail)
    taker = RecordTaker()
    assert one.take(taker.accept) == 1


@pytest.mark.parametrize("planted", ["link", "folder", "pipe", "other owner"])
def test_foreign_file_is_left_alone_and_named(
    tmp_path: Path, planted: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, target = tmp_path / FILE, tmp_path / "target"
    target.write_text("keep")
    if planted == "link":
        path.symlink_to(target)
    elif planted == "folder":
        path.mkdir()
    elif planted == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(line(1))
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    one, taker = Spool(str(tmp_path)), RecordTaker()
    assert not one.add(line(2))
    for _ in range(3):
        assert one.take(taker.accept) == 0
    assert taker.lines == []
    assert target.read_text() == "keep"
    assert os.path.lexists(path)
    assert FILE in caplog.text
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        assert gate.intercept(Call("mira", "read", {"path": "/a"})).proceed, "no decision fails for it"


def test_spool_on_a_file_system_that_was_read_only_is_taken_in_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is unchanged since it could not be opened, and is still tried again."""
    one, taker = Spool(str(tmp_path)), RecordTaker()
    one.add(line(1))
    opened = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if path == one.path:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        assert one.take(taker.accept) == 0
    assert one.take(taker.accept) == 1
    assert taker.lines == [line(1)]


def test_full_spool_refuses_records_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spool, "MAX_FILE", 300)
    one = Spool(str(tmp_path))
    added = [one.add(line(number)) for number in range(6)]
    assert added.count(True) == len((tmp_path / FILE).read_bytes().split()) < 6
    assert (tmp_path / FILE).stat().st_size <= 300
    assert caplog.text.count("is full") == 1


def test_truncated_and_malformed_records_do_not_delay_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = Spool(str(tmp_path))
    one.add(line(1))
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'\n{"call": {"instance": "mira", "tool"')  # its writer died here
    one.add(json.dumps({"kind": "from-tomorrow", "call": {"instance": "mira", "tool": "note"}}).encode())
    one.add(line(2))
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        gate.intercept(Call("doug", "read", {"path": "/a"}))
        late = [entry.body["callId"] for entry in gate.entries() if entry.event is Event.LATE]
    assert late == ["c1", "c2"]
    assert "cannot be used" in caplog.text
    assert "later version" in caplog.text
    assert not one.waiting()


def test_call_and_its_report_are_one_record(tmp_path: Path) -> None:
    call = {"instance": "mira", "tool": "note", "callId": "c1"}
    begun = written({"kind": "call", "v": 2, "call": call, "running": True, "outcome": "done", "started": 1})
    other = line(2)
    ended = written({"kind": "report", "v": 2, "call": {**call, "tool": "?"}, "outcome": "failed", "ended": 2})
    (whole, second) = merged([begun, other, ended])
    assert json.loads(whole) == {
        "kind": "call", "v": 2, "call": call, "outcome": "failed", "started": 1, "ended": 2,
    }  # fmt: skip
    assert second == other
    assert merged([ended, begun]) == [ended, begun], "the control: a report before its call is another's"


def test_long_record_is_cut() -> None:
    record = {"kind": "call", "v": 2, "call": {"instance": "m", "tool": "t", "params": {"text": "x" * 2 * MAX_LINE}}}
    assert len(written(record)) < 1000


def _write(folder: str, first: int) -> None:
    one = Spool(folder)
    for number in range(first, first + 40):
        assert one.add(line(number))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_processes_that_write_while_gates_decide_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(str(tmp_path), first)) for first in (0, 40, 80)]
    with LocalGate(settings=Settings(state=tmp_path)) as gate:
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            gate.intercept(Call("doug", "read", {"path": "/a"}))
        assert [writer.exitcode for writer in writers] == [0, 0, 0]
        gate.intercept(Call("doug", "read", {"path": "/a"}))
        late = [entry.body["callId"] for entry in gate.entries(limit=5000) if entry.event is Event.LATE]
    assert sorted(late) == sorted(f"c{number}" for number in range(120))
