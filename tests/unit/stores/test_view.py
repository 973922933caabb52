"""What a view is made of, whatever an engine fetched beside it."""

from __future__ import annotations

from callosum.model import LATEST, Action, Key, KeyView, Mark, Mode, Scope, State
from callosum.stores.view import Fetched, views

ME = "mira"


def act(id: int, session: str = "doug", key: str = "doc:plan", tier: int = 2, **more: object) -> Action:
    at = {"state": State.DONE, "ended": id + 1, "expires": id + 9, "key": key, "mode": Mode.WRITE, **more}
    return Action(id, "default", session, "write", tier, started=id, **at)  # type: ignore[arg-type]


def look(
    *actions: Action,
    key: str = "doc:plan",
    mode: Mode = Mode.WRITE,
    floor: int = 1,
    reads: dict[str, int] | None = None,
) -> KeyView:
    marks = {(name, ME): Mark(read) for name, read in (reads or {}).items()}
    fetched = Fetched({}, marks)
    for action in actions:
        fetched.add(action)
    (view,) = views(fetched, Scope("default", ME, (Key(key, mode),), floor=floor, live=True))
    return view


def test_of_each_session_the_newest_act_is_shown() -> None:
    assert [action.id for action in look(act(1), act(2), act(3, "kim")).latest] == [3, 2]


def test_behind_an_act_that_does_not_count_the_newest_that_does_is_shown() -> None:
    """The rows of an index come one a session; what they hide is looked for, however many others acted later."""
    others = [act(100 + number, f"s{number}") for number in range(LATEST - 1)]
    view = look(act(1, tier=3), act(2, tier=3), act(200, tier=0), *others)
    assert {action.id for action in view.latest if action.session == "doug"} == {200, 2}
    assert len(view.latest) == LATEST + 1


def test_what_lies_below_a_tree_cannot_crowd_out_what_is_on_it() -> None:
    below = [act(100 + number, f"s{number}", f"doc:a/{number}") for number in range(2 * LATEST)]
    view = look(act(1, key="doc:a/"), *below, key="doc:a/")
    assert act(1, key="doc:a/") in view.latest
    assert len(view.latest) == LATEST + 1


def test_whoever_only_looks_at_a_tree_is_not_shown_what_lies_in_it() -> None:
    open_ = act(5, key="doc:a/b", state=State.OPEN, ended=0)
    assert look(open_, key="doc:a/").live == (open_,)
    assert look(open_, key="doc:a/", mode=Mode.READ).live == ()


def test_a_change_below_a_tree_is_stale_if_the_session_looked_before_it() -> None:
    changed = act(50, key="doc:a/b")
    assert look(changed, key="doc:a/", reads={"doc:a/b": 40}).stale == (changed,)
    assert look(changed, key="doc:a/", reads={"doc:a/b": 60}).stale == ()
    assert look(changed, act(45, ME, "doc:a/b"), key="doc:a/").stale == (changed,)


def test_a_look_at_a_tree_counts_for_a_key_that_was_never_looked_at() -> None:
    view = look(act(50, key="doc:a/b"), key="doc:a/b", reads={"doc:a/": 40})
    assert (view.mark.read, view.above) == (40, True)
    view = look(act(50, key="doc:a/b"), key="doc:a/b", reads={"doc:a/": 40, "doc:a/b": 30})
    assert (view.mark.read, view.above) == (30, False)
