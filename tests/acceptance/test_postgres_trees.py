"""The cache of trees in use, over PostgreSQL: it must never allow a call below a tree that is held."""

from collections.abc import Callable

import pytest

from callosum.model import SECOND, Applied, Change, Entry, Event, Key, Opening, Scope, State, View
from callosum.stores.base import Request
from callosum.stores.postgres import PostgresStore
from callosum.stores.postgres.view import PostgresView

TREE, BELOW = "file:/repo/", "file:/repo/a.py"


def take(session: str, key: str) -> Request:
    """Take the key unless it is taken; return whether it was taken."""

    def step(view: View) -> Change:
        if any(place.live for place in view.keys):
            return Change(answer=False)
        entry = Entry(Event.INTERCEPT, session, tier=4, keys=(Key(key),))
        return Change((entry,), Opening(State.OPEN, view.now + 60 * SECOND), answer=True)

    return Scope("default", session, (Key(key),), live=True), step


def taken(store: PostgresStore, *requests: Request) -> list[object]:
    """Return the answers of a batch."""
    return [answer.change.answer for answer in store.transact(requests) if isinstance(answer, Applied)]


def test_tree_first_used_in_a_batch_is_known_to_the_whole_batch(postgres_url: str) -> None:
    """A later request of the batch below the tree also sees it in the same transaction."""
    one, other = PostgresStore(postgres_url), PostgresStore(postgres_url)
    assert taken(one, take("mira", TREE), take("doug", BELOW)) == [True, False]
    assert taken(other, take("anna", BELOW)) == [False]
    one.close()
    other.close()


def test_tree_cached_by_another_thread_is_not_used_early(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread read before the tree was in use, and uses the result after a second thread has learned of the tree."""
    one, other = PostgresStore(postgres_url), PostgresStore(postgres_url)
    assert taken(one, take("warm", "file:/else/b.py")) == [True]
    assert taken(other, take("anna", TREE)) == [True]
    ask: Callable[[PostgresView], None] = PostgresView.send
    second: list[list[object]] = []

    def late(reader: PostgresView) -> None:
        ask(reader)
        if not second:
            second.append([])
            second[0] = taken(one, take("doug", "file:/repo/b.py"))

    monkeypatch.setattr(PostgresView, "send", late)
    assert taken(one, take("mira", BELOW)) == [False]
    assert second == [[False]]
    one.close()
    other.close()
