"""What the stores' notices say of what ended, and what is made of a notice that says less."""

from __future__ import annotations

import sys
import threading

import msgspec
import pytest

from callosum.stores.notifications import Notifier
from callosum.stores.postgres import notifications as postgres
from callosum.stores.redis import notifications as redis
from callosum.stores.redis.names import NamespaceKeys, changed_by, known_by, of_action

KEYS = ("file:/repo/a.py", "doc:plan|title", "mail:\u00fcml\u00e4ut@example.com")


def test_postgres_says_where_and_on_which_keys() -> None:
    assert postgres._said(postgres.notice("work", KEYS)) == ("work", KEYS)


def test_where_the_keys_are_too_many_they_are_left_out() -> None:
    many = [f"file:/repo/{number:0200d}" for number in range(100)]
    said = postgres.notice("n" * 256, many)
    assert len(said.encode()) < 8000
    assert postgres._said(said) == ("n" * 256, ())


@pytest.mark.parametrize("notice", ["default", "", "[]", "{}", "[1]"])
def test_what_another_version_says_may_concern_all(notice: str) -> None:
    assert postgres._said(notice) == (None, ())


@pytest.mark.parametrize("namespace", ["default", "a{b}:c%7D", "\u00fcml\u00e4ut"])
def test_redis_says_where_and_on_which_keys(namespace: str) -> None:
    channel = NamespaceKeys("callosum", namespace).key("wake").encode()
    names = [name for key in KEYS for name in (*changed_by(key), known_by(key, "mira"), of_action(7))]
    assert redis._said(channel, msgspec.msgpack.encode(names)) == (namespace, KEYS)
    assert redis._said(channel, b"1795352944361458") == (namespace, ())


class Silent(Notifier):
    """Connects at once, and nothing is ever said."""

    def follow(self, stop: threading.Event) -> None:
        self.begun()
        stop.wait()


def test_notices_are_followed_once_a_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait for which there was no thread only lasts its time, and the next wait tries again."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    word = Silent()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        word.wait(0.01)
        assert not word.hears()
    word.wait(0.01)
    assert word.hearing(10)
    word.close()


def test_listener_that_comes_while_notices_begin_is_told_once() -> None:
    """Each round is another chance for the thread to begin between the two steps of ``listen``."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            word = Silent()
            told: list[tuple[str | None, tuple[str, ...]]] = []
            end = word.listen(lambda namespace, keys, told=told: told.append((namespace, keys)))  # type: ignore[misc]
            assert word.hearing(10)
            word.close()
            end()
            assert told == [(None, ())]
    finally:
        sys.setswitchinterval(before)
