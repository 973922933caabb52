"""A batch whose transaction was undone: every request that can be stored is stored, and completely."""

import pytest

from callosum.model import Applied, Change, Opening, State, View
from callosum.stores.base import Ancestry
from callosum.testing import ManualClock
from callosum.testing.script import LEASE, StoreScript, ids

KEY = "doc:plan"


@pytest.mark.parametrize("script", ["memory", "sqlite", "lmdb", "redis", "postgres"], indirect=True)
def test_ancestry_is_stored_although_another_change_of_the_batch_cannot_be_stored(
    script: StoreScript, clock: ManualClock
) -> None:
    """The store cached the session's ancestry in the transaction that was undone, so it must drop that cache."""

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
