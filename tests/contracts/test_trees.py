"""``stale`` and ``latest`` of a view, when a session has older actions behind its newest one."""

from callosum.model import Key, Mode
from callosum.testing import ManualClock
from callosum.testing.script import StoreScript, ids

KEY = "file:/repo/a.py"
TREE = "file:/repo/"


def test_stale_below_a_tree_is_the_newest_change_of_each_session(script: StoreScript, clock: ManualClock) -> None:
    """An older write without a report is not stale if the session's newest change was read."""
    script.act("doug", KEY, tier=3)
    clock.advance(60)
    script.end("doug", script.act("doug", KEY, tier=2))
    clock.advance(60)
    script.read("mira", KEY)
    assert script.key_view("mira", TREE).stale == ()
    clock.advance(60)
    script.end("doug", newest := script.act("doug", KEY, tier=1))
    script.end("anna", annas := script.act("anna", KEY, tier=2))
    assert ids(script.key_view("mira", TREE).stale) == [annas, newest]


def test_latest_without_a_floor_has_only_the_newest_action_of_each_session(script: StoreScript) -> None:
    """Floor 0 asks for no action behind the newest, also if that is an append, which never conflicts with an append."""
    counted = script.act("doug", KEY)
    newest = script.act("doug", Key(KEY, Mode.APPEND))
    assert ids(script.key_view("mira", Key(KEY, Mode.APPEND), floor=0).latest) == [newest]
    assert ids(script.key_view("mira", Key(KEY, Mode.APPEND), floor=1).latest) == [newest, counted]
