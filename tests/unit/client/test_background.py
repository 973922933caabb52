"""The background sender retries while records are pending."""

import threading

import pytest

from callosum.client import background
from callosum.client.background import BackgroundSender


def test_sender_that_cannot_start_a_thread_tries_again_at_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "EVERY", 0.001)
    carried = threading.Event()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one = BackgroundSender(lambda: not carried.is_set(), carried.set)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        one.wake()
    assert not carried.is_set()
    one.wake()
    assert carried.wait(10)
    one.stop()
