"""Content of the stores' notifications that something ended, and the handling of notifications with less content."""

import sys
import threading

import pytest

from callosum.model import Action, Entry, Event, Key, Mode, State
from callosum.stores.notifications import Notifier, notice
from callosum.stores.port import Written
from callosum.stores.redis import notifications as redis

KEYS = ("file:/repo/a.py", "doc:plan|title", "mail:\u00fcml\u00e4ut@example.com")


def told(data: str) -> tuple[str | None, tuple[str, ...]]:
    """Return what a listener hears of a notification."""
    notifier, heard = Connected(), list[tuple[str | None, tuple[str, ...]]]()
    notifier._listeners = (lambda namespace, keys: heard.append((namespace, keys)),)
    notifier.notify(data)
    return heard[0]


def test_notification_leaves_out_keys_that_do_not_fit() -> None:
    many = [f"file:/repo/{number:0200d}" for number in range(100)]
    said = notice("n" * 256, many)
    assert len(said.encode()) < 8000
    assert told(said) == ("n" * 256, ())


@pytest.mark.parametrize("said", ["default", "", "[]", "{}", "[1]", "1795952344361458"])
def test_notification_of_another_version_may_concern_everything(said: str) -> None:
    assert told(said) == (None, ())


@pytest.mark.parametrize("namespace", ["default", "a{b}:c%7D", "\u00fcml\u00e4ut"])
def test_notification_names_namespace_and_keys(namespace: str) -> None:
    entry = Entry(Event.COMPLETE, "mira", namespace, action=7)
    about = Action(7, namespace, "mira", "tool", 3, State.OPEN, 7, keys=tuple(Key(key, Mode.WRITE) for key in KEYS))
    (said,) = redis.notices([Written(8, entry, b"", about), Written(9, entry, b"")])
    assert told(said) == (namespace, KEYS)


class Connected(Notifier):
    """Connects at once and never receives a notification."""

    def follow(self, stop: threading.Event) -> None:
        self.begin()
        stop.wait()


def test_notifications_are_received_once_a_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait without a thread only ends by its time, and the next wait tries again."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    notifier = Connected()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        notifier.wait(0.01)
        assert not notifier.is_connected()
    notifier.wait(0.01)
    assert notifier.wait_until_connected(10)
    notifier.close()


def test_listener_added_while_notifications_begin_is_called_once() -> None:
    """Each round is another chance for the thread to connect between the two steps of ``listen``."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            notifier = Connected()
            calls: list[tuple[str | None, tuple[str, ...]]] = []
            end = notifier.listen(lambda namespace, keys, calls=calls: calls.append((namespace, keys)))  # type: ignore[misc]
            assert notifier.wait_until_connected(10)
            notifier.close()
            end()
            assert calls == [(None, ())]
    finally:
        sys.setswitchinterval(before)
