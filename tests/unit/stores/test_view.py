"""What a view holds, no matter how many more rows a store fetched."""

from callosum.model import LATEST, Action, Key, KeyView, Mark, Mode, Scope, State
from callosum.stores.view import Fetched, views

ME = "mira"


def action_on(id: int, session: str = "doug", key: str = "doc:plan", tier: int = 2, **more: object) -> Action:
    at = {"state": State.DONE, "ended": id + 1, "expires": id + 9, "key": key, "mode": Mode.WRITE, **more}
    return Action(id, "default", session, "write", tier, started=id, **at)  # type: ignore[arg-type]


def view_of(
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


def test_view_holds_the_newest_action_of_each_session() -> None:
    assert [action.id for action in view_of(action_on(1), action_on(2), action_on(3, "kim")).latest] == [3, 2]


def test_view_holds_the_newest_action_that_counts_behind_one_that_does_not() -> None:
    """An index returns one row per session; older actions behind it are read however many sessions acted later."""
    others = [action_on(100 + number, f"s{number}") for number in range(LATEST - 1)]
    view = view_of(action_on(1, tier=3), action_on(2, tier=3), action_on(200, tier=0), *others)
    assert {action.id for action in view.latest if action.session == "doug"} == {200, 2}
    assert len(view.latest) == LATEST + 1


def test_actions_below_a_tree_do_not_displace_actions_on_it() -> None:
    below = [action_on(100 + number, f"s{number}", f"doc:a/{number}") for number in range(2 * LATEST)]
    view = view_of(action_on(1, key="doc:a/"), *below, key="doc:a/")
    assert action_on(1, key="doc:a/") in view.latest
    assert len(view.latest) == LATEST + 1


def test_view_of_a_read_tree_leaves_out_keys_inside_it() -> None:
    open_ = action_on(5, key="doc:a/b", state=State.OPEN, ended=0)
    assert view_of(open_, key="doc:a/").live == (open_,)
    assert view_of(open_, key="doc:a/", mode=Mode.READ).live == ()


def test_change_below_a_tree_is_stale_if_the_session_read_the_tree_before() -> None:
    changed = action_on(50, key="doc:a/b")
    assert view_of(changed, key="doc:a/", reads={"doc:a/b": 40}).stale == (changed,)
    assert view_of(changed, key="doc:a/", reads={"doc:a/b": 60}).stale == ()
    assert view_of(changed, action_on(45, ME, "doc:a/b"), key="doc:a/").stale == (changed,)


def test_read_of_a_tree_counts_for_a_key_that_was_never_read() -> None:
    view = view_of(action_on(50, key="doc:a/b"), key="doc:a/b", reads={"doc:a/": 40})
    assert (view.mark.read, view.above) == (40, True)
    view = view_of(action_on(50, key="doc:a/b"), key="doc:a/b", reads={"doc:a/": 40, "doc:a/b": 30})
    assert (view.mark.read, view.above) == (30, False)
