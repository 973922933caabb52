"""The daily log of real processes: many writers, killed and ending processes, and full disks."""

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.cpu import HANG

LINE = re.compile(r"\d\d:\d\d:\d\d \| ([a-z]+\.[A-Za-z.]+) \| (\{.*\})")
START = """
import os, sys, threading, time
from pathlib import Path
from callosum.corpus.bus import Corpus
from callosum.corpus.day_files import DayFiles
from callosum.corpus.events import *
from callosum.corpus.daily_log import DailyLog
folder, corpus = Path(sys.argv[1]), Corpus()
"""


def start(script: str, folder: Path, *args: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", START + textwrap.dedent(script), str(folder), *args]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, **options)


def finish(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    told, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    return told, errors


def lines_of(folder: Path) -> list[str]:
    """Return all lines of all days. Each file must have one heading at its start."""
    found = []
    for file in sorted(folder.iterdir()):
        head, empty, *lines = file.read_text().splitlines()
        assert (head, empty) == (f"## {file.name.removesuffix('.log.md')}", "")
        assert not [line for line in lines if line.startswith("## ")]
        found += lines
    return found


def damaged(lines: list[str]) -> list[str]:
    return [line for line in lines if not is_whole(line)]


def is_whole(line: str) -> bool:
    match = LINE.fullmatch(line)
    try:
        return match is not None and isinstance(json.loads(match[2]), dict)
    except ValueError:
        return False


def ids(folder: Path) -> list[str]:
    """Return the ids of the logged tasks."""
    lines = lines_of(folder)
    assert not damaged(lines)
    found = [json.loads(line.split(" | ", 2)[2]) for line in lines]
    return [one["taskId"] for one in found if "taskId" in one]


CROWD = """
class Torn(DayFiles):
    '''The mistakes that must not be made: no lock, no append, a line in two writes.'''

    def append(self, day, lines):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.path(day), "a+b") as file:
            end = file.seek(0, 2)
            os.sched_yield()
        with open(self.path(day), "r+b", buffering=0) as file:
            file.seek(end)
            file.write(b"".join(lines) if end else f"## {day}\\n\\n".encode() + b"".join(lines))
        return 0

log = DailyLog(corpus, folder, every=0.001)
if sys.argv[3] == "torn":
    log._files.__class__ = Torn

def emit(thread):
    for number in range(1000):
        corpus.emit(TaskStopped(f"{sys.argv[2]}-{thread}-{number}", "x" * (number % 300)))
        if number % 10 == 0:
            log.flush()

threads = [threading.Thread(target=emit, args=(thread,)) for thread in range(3)]
print("ready", flush=True)
sys.stdin.readline()
for thread in threads: thread.start()
for thread in threads: thread.join()
log.close()
"""
EXPECTED = {f"p{process}-{thread}-{number}" for process in range(2) for thread in range(3) for number in range(1000)}


def crowd(folder: Path, how: str) -> list[str]:
    """Run two processes of three threads each that write to one folder; return the lines afterwards."""
    writers = [start(CROWD, folder, f"p{number}", how) for number in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        finish(writer)
    return [line for file in folder.iterdir() for line in file.read_text("utf-8", "replace").splitlines()]


def test_processes_and_threads_write_at_once(tmp_path: Path) -> None:
    crowd(tmp_path / "log", "whole")
    found = ids(tmp_path / "log")
    assert len(found) == len(EXPECTED)
    assert set(found) == EXPECTED
    for process in range(2):
        for thread in range(3):
            mine = [one for one in found if one.startswith(f"p{process}-{thread}-")]
            assert mine == [f"p{process}-{thread}-{number}" for number in range(1000)], "in the order of its emits"


def test_a_torn_writer_is_caught(tmp_path: Path) -> None:
    """Negative control: the same processes with a broken writer leave the faults that the test above checks for.

    At most ten attempts, because two processes may take turns by chance.
    """

    def loses(folder: Path) -> bool:
        lines = crowd(folder, "torn")
        return bool(EXPECTED - {json.loads(line.split(" | ", 2)[2]).get("taskId") for line in lines if is_whole(line)})

    assert any(loses(tmp_path / f"log{attempt}") for attempt in range(10)), "nothing was lost: the crowd proves nothing"


def lines_from(pipe: IO[str] | None) -> Iterator[str]:
    assert pipe is not None
    for line in pipe:
        yield line.rstrip("\n")


def test_kill_loses_only_the_newest_events(tmp_path: Path) -> None:
    """The process emits all the time, prints the time of each event, and is killed in between."""
    script = """
    log, pause = DailyLog(corpus, folder, every=0.5), threading.Event()
    for number in range(1_000_000):
        corpus.emit(TaskStopped(str(number), "x"))
        print(number, time.monotonic(), flush=True)
        pause.wait(0.002)
    """
    process = start(script, tmp_path / "log")
    began, emitted = time.monotonic(), 0.0
    for line in lines_from(process.stdout):
        emitted, at = map(float, line.split())
        if at > began + 3:
            break
    process.kill()
    process.communicate(timeout=30)
    found = ids(tmp_path / "log")
    assert found == [str(number) for number in range(len(found))], "those that are lost are the newest"
    assert len(found) > emitted / 3, "it wrote all the time, not once"


def test_kill_loses_events_that_were_not_yet_written(tmp_path: Path) -> None:
    """Negative control: only the write interval decides whether an event is kept."""
    script = """
    log = DailyLog(corpus, folder, every=3600)
    corpus.emit(TaskStopped("1", "x"))
    log.flush()
    corpus.emit(TaskStopped("2", "x"))
    print("emitted", flush=True)
    sys.stdin.read()
    """
    process = start(script, tmp_path / "log")
    assert next(lines_from(process.stdout)) == "emitted"
    process.kill()
    process.communicate(timeout=30)
    assert ids(tmp_path / "log") == ["1"]


def test_log_is_written_within_two_seconds_by_default(tmp_path: Path) -> None:
    script = """
    log = DailyLog(corpus, folder)
    append = DayFiles.append
    def timed(files, day, lines):
        dropped = append(files, day, lines)
        print(time.monotonic() - began, flush=True)
        return dropped
    DayFiles.append = timed
    began = time.monotonic()
    corpus.emit(TaskStopped("1", "x"))
    sys.stdin.read()
    """
    process = start(script, tmp_path / "log")
    took = float(next(lines_from(process.stdout)))
    process.kill()
    process.communicate(timeout=30)
    assert 1.9 < took < HANG
    assert ids(tmp_path / "log") == ["1"]


ENDS = {
    "return": ("pass", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "exception": ("raise RuntimeError('on purpose')", 1),
    "KeyboardInterrupt": ("raise KeyboardInterrupt", -2),
    "in a thread": ("threading.Thread(target=lambda: corpus.emit(TaskStopped('late', 'x'))).start()", 0),
    "later at exit": ("", 0),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_process_that_ends_loses_nothing(tmp_path: Path, how: str) -> None:
    last, code = ENDS[how]
    script = f"""
    import atexit
    if {how == "later at exit"}:  # what is registered first is called last
        atexit._clear()
        atexit.register(lambda: [corpus.emit(TaskStopped(f"late {{n}}", "x")) for n in range(3)])
        atexit.register(lambda: corpus.emit(LlmToken("late")))
        from callosum.corpus import worker
        atexit.register(worker._finish_all)
    log = DailyLog(corpus, folder, every=3600)
    for number in range(3000):
        corpus.emit(TaskStopped(str(number), "x"))
    corpus.emit(LlmToken("an answer"))
    {last}
    """
    finish(start(script, tmp_path / "log"), code)
    late = {"in a thread": ["late"], "later at exit": ["late 0", "late 1", "late 2"]}.get(how, [])
    assert ids(tmp_path / "log") == [*map(str, range(3000)), *late]
    deltas = [line for line in lines_of(tmp_path / "log") if "llm.token" in line]
    assert len(deltas) == (2 if how == "later at exit" else 1)


def test_child_writes_only_its_own_lines(tmp_path: Path) -> None:
    """After ``fork``, with pending lines and a running thread; the lock of the parent does not outlive the parent."""
    script = """
    log = DailyLog(corpus, folder, every=3600)
    corpus.emit(TaskStopped("parent, before", "x"))
    corpus.emit(LlmToken("parent"))
    for child in range(3):
        if os.fork() == 0:
            corpus.emit(TaskStopped(f"child {child}", "x"))
            sys.exit(0)
    corpus.emit(TaskStopped("parent, after", "x"))
    for child in range(3):
        os.wait()
    """
    finish(start(script, tmp_path / "log"))
    found = ids(tmp_path / "log")
    assert sorted(found) == ["child 0", "child 1", "child 2", "parent, after", "parent, before"]
    assert sum("llm.token" in line for line in lines_of(tmp_path / "log")) == 1


def test_fork_during_a_write_loses_and_repeats_no_line(tmp_path: Path) -> None:
    """The child keeps the file open and lives on; no other process waits for its lock."""
    script = """
    log = DailyLog(corpus, folder, every=3600)
    append, inside, forked = os.write, threading.Event(), threading.Event()
    def slow(handle, data):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            forked.wait(30)
        return append(handle, data)
    os.write = slow
    corpus.emit(TaskStopped("parent", "x"))
    flusher = threading.Thread(target=log.flush)
    flusher.start()
    inside.wait(30)
    log._lock.acquire()  # somebody emits just now
    child = os.fork()
    if child == 0:
        corpus.emit(TaskStopped("child", "x"))
        assert log._job.worker.thread.is_alive()
        forked.set()
        corpus.emit(TaskStopped("child, again", "x"))
        sys.stdin.read()
        sys.exit(0)
    log._lock.release()
    forked.set()
    flusher.join()
    print("forked", flush=True)
    os.kill(os.getpid(), 9)
    """
    process = start(script, tmp_path / "log")
    assert next(lines_from(process.stdout)) == "forked"
    other = start('log = DailyLog(corpus, folder); corpus.emit(TaskStopped("other", "x"))', tmp_path / "log")
    began = time.monotonic()
    _, errors = finish(other)
    assert time.monotonic() - began < HANG
    assert "cannot be written" not in errors
    assert ids(tmp_path / "log") == ["parent", "other"]
    process.communicate(timeout=30)  # which ends the child's input
    file = next((tmp_path / "log").iterdir())
    within(HANG, lambda: "child, again" in file.read_text())
    assert ids(tmp_path / "log") == ["parent", "other", "child", "child, again"]


def within(seconds: float, is_so: Callable[[], bool]) -> None:
    """Wait for a process that this process did not start."""
    ends = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends
        os.sched_yield()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_multiprocessing(tmp_path: Path, method: str) -> None:
    (tmp_path / "work.py").write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from callosum.corpus.bus import Corpus\n"
        "from callosum.corpus.events import TaskStopped\n"
        "from callosum.corpus.daily_log import DailyLog\n"
        "corpus = Corpus()\n"
        "log = DailyLog(corpus, Path(sys.argv[1]), every=3600)\n"
        "def work(number):\n"
        "    corpus.emit(TaskStopped(str(number), 'x'))\n"
        "if __name__ == '__main__':\n"
        "    import multiprocessing\n"
        "    corpus.emit(TaskStopped('parent', 'x'))\n"
        f"    context = multiprocessing.get_context('{method}')\n"
        "    children = [context.Process(target=work, args=(number,)) for number in range(2)]\n"
        "    for child in children: child.start()\n"
        "    for child in children: child.join()\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "work.py"), str(tmp_path / "log")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(ids(tmp_path / "log")) == ["0", "1", "parent"]


TROUBLE = """
import logging
logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
log = DailyLog(corpus, folder, every=0.05)
seen = threading.Event()
warnings = []
corpus.on(HealthWarning, lambda event: (warnings.append(f"{event.resource}: {event.value}"), seen.set()))
corpus.emit(TaskStopped("before", "x"))
print(log.flush(), flush=True)
sys.stdin.readline()
for number in range(3000):
    corpus.emit(TaskStopped(str(number), "y" * 100))
seen.wait(30)
print(*warnings, log.flush(), sep=", ", flush=True)
sys.stdin.readline()
print(log.flush(), flush=True)
"""


def through_trouble(folder: Path, begins: Callable[[], object], ends: Callable[[], object]) -> tuple[list[str], str]:
    """Run a process that logs while a fault begins and ends; return its warnings and its log."""
    process = start(TROUBLE, folder)
    answers = lines_from(process.stdout)
    assert process.stdin is not None
    assert next(answers) == "True"
    begins()
    process.stdin.write("\n")
    process.stdin.flush()
    *warnings, flushed = next(answers).split(", ")
    assert flushed == "False"
    assert not damaged(lines_of(folder)), "what does not fit whole is not there at all"
    ends()
    process.stdin.write("\n")
    process.stdin.flush()
    assert next(answers) == "True"
    _, errors = finish(process)
    return warnings, errors


def test_a_full_disk(tmp_path: Path, mounted: Callable[..., None]) -> None:
    disk = tmp_path / "disk"
    mounted(disk, "-t", "tmpfs", "-o", "size=200k", "none")
    filler = disk / "filler"

    def fill() -> None:
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):  # noqa: PT012
            while True:
                file.write(b"x" * 4096)

    def empty() -> None:
        filler.unlink()
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)

    warnings, errors = through_trouble(disk / "log", fill, empty)
    assert warnings == ["log: No space left on device"]
    assert errors.count("cannot be written") == 1
    assert ids(disk / "log") == ["before", *map(str, range(3000))]


def test_a_disk_that_becomes_read_only(tmp_path: Path, mounted: Callable[..., None]) -> None:
    disk = tmp_path / "disk"
    mounted(disk, "-t", "tmpfs", "-o", "size=8m", "none")
    warnings, _ = through_trouble(
        disk / "log",
        lambda: subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True),
        lambda: subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True),
    )
    assert warnings == ["log: Read-only file system"]
    assert ids(disk / "log") == ["before", *map(str, range(3000))]


def test_lines_that_cannot_be_written_at_the_end_are_reported(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    script = """
    log = DailyLog(corpus, folder, every=3600)
    for number in range(5):
        corpus.emit(TaskStopped(str(number), "x"))
    """
    _, errors = finish(start(script, tmp_path / "log"))
    assert "daily log: 6 lines were lost at the end of the process: Not a directory" in errors
