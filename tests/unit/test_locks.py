"""Test lock files: one holder at a time, even if a child of the holder still has the file open."""

import fcntl
import os
import threading
from pathlib import Path

import pytest

from callosum.locks import locked


def test_one_holder_at_a_time_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with locked(path) as first:
        assert first
        with locked(path) as second, locked(path, wait=0.01) as third:
            assert not second
            assert not third
    with locked(path) as again:
        assert again
    assert path.stat().st_mode & 0o777 == 0o600


def test_waiter_gets_the_lock_when_it_is_free(tmp_path: Path) -> None:
    path, got = tmp_path / "a.lock", []

    def wait() -> None:
        with locked(path, wait=20) as mine:
            got.append(mine)

    with locked(path):
        thread = threading.Thread(target=wait)
        thread.start()
    thread.join(20)
    assert got == [True]


def leaked(path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the lock is free after its holder is done while a child still has a descriptor of it open."""
    handles: list[int] = []
    open_ = os.open

    def opened(*args: object) -> int:
        handle = open_(*args)  # type: ignore[arg-type]
        handles.append(os.dup(handle))  # shares the lock, as a descriptor inherited through a fork does
        return handle

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opened)
        with locked(path):
            pass
    try:
        with locked(path) as mine:
            return mine
    finally:
        for handle in handles:
            os.close(handle)


def test_forked_child_does_not_keep_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert leaked(tmp_path / "a.lock", monkeypatch)


def test_without_unlocking_the_forked_child_would_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control."""
    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda handle, how: None if how == fcntl.LOCK_UN else flock(handle, how))
    assert not leaked(tmp_path / "a.lock", monkeypatch)


def test_unopenable_file_is_an_error_and_an_exception_frees_the_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), locked(tmp_path / "none" / "a.lock"):
        pass
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "a.lock"):
        _ = 1 / 0
    with locked(tmp_path / "a.lock") as mine:
        assert mine
