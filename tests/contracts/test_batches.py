"""What is left of a batch whose transaction had to be undone: all of those in it that can be stored, and all of each."""

from __future__ import annotations

from callosum.model import Applied, Change, Opening, State, View
from callosum.stores.base import Ancestry
from callosum.testing import ManualClock
from callosum.testing.script import LEASE, StoreScript, ids

KEY = "doc:plan"


def test_who_comes_from_where_is_kept_though_another_of_the_batch_cannot_be_stored(
    script: StoreScript, clock: ManualClock
) -> None:
    """The store has looked at the session once more before it was undone: what it learnt then must be forgotten."""

    def good(view: View) -> Change:
        return Change((script.entry("child", [KEY]),), Opening(State.DONE, view.now + LEASE))

    def bad(view: View) -> Change:
        clock.advance(1)
        return Change((script.entry("doug", [KEY], body={"cannot": object()}),), Opening(State.OPEN, view.now + LEASE))

    scope = script.scope("child", [KEY], parent="mira", continues="anna")
    first, again, fault = script.store.transact([(scope, good), (scope, good), (script.scope("doug", [KEY]), bad)])
    assert isinstance(first, Applied)
    assert isinstance(again, Applied)
    assert isinstance(fault, Exception)
    assert script.store.kin("default", "child") == Ancestry("mira", "anna")
    assert script.view("child", KEY).ancestors == ("mira",)
    assert ids(script.key_view("doug", KEY).latest) == [*again.ids]
    assert script.key_view("doug", KEY).live == ()
