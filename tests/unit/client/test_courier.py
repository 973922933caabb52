"""The courier: it tries again and again while something waits."""

from __future__ import annotations

import threading

import pytest

from callosum.client import courier
from callosum.client.courier import Courier


def test_courier_that_finds_no_thread_tries_again_at_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "EVERY", 0.001)
    carried = threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one = Courier(lambda: not carried.is_set(), carried.set)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        one.wake()
    assert not carried.is_set()
    one.wake()
    assert carried.wait(10)
    one.stop()
