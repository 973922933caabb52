"""What a view shows below a tree and of the newest acts, where an older act of a session is not what it seems."""

from __future__ import annotations

from callosum.model import Key, Mode
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript, ids

KEY = "file:/repo/a.py"
TREE = "file:/repo/"


def test_stale_below_a_tree_is_the_newest_change_of_each_session(script: StoreScript, clock: ManualClock) -> None:
    """An older one without a report says nothing where the newest was seen."""
    script.act("doug", KEY, tier=3)
    clock.advance(60)
    script.end("doug", script.act("doug", KEY, tier=2))
    clock.advance(60)
    script.read("mira", KEY)
    assert script.key_view("mira", TREE).stale == ()
    clock.advance(60)
    script.end("doug", newest := script.act("doug", KEY, tier=1))
    script.end("anna", hers := script.act("anna", KEY, tier=2))
    assert ids(script.key_view("mira", TREE).stale) == [hers, newest]


def test_without_a_floor_latest_is_just_the_newest_of_each_session(script: StoreScript) -> None:
    """Floor 0 asks for no act that counts behind one that does not, as an append to one who appends."""
    counts = script.act("doug", KEY)
    newest = script.act("doug", Key(KEY, Mode.APPEND))
    assert ids(script.key_view("mira", Key(KEY, Mode.APPEND), floor=0).latest) == [newest]
    assert ids(script.key_view("mira", Key(KEY, Mode.APPEND), floor=1).latest) == [newest, counts]
