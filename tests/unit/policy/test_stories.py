"""Conflicts, notices, repeats and approvals as stories: which actions count, and which calls pass (PROTOCOL 4 to 6)."""

import pytest

from tests.support.stories import tell
from tests.support.world import World

STORIES = {
    # --- which actions count
    "recent is left out if another kind applies": "doug did send3 says numbers; 1 s; mira send3 says numbers -> duplicate",
    "one action may give several kinds": "doug send3 says numbers; 1 s; mira send3 says numbers -> duplicate+held",
    "a tier 1 action conflicts only with a tier 4 call": "doug did send1; 1 s; mira send3 -> allow; anna send4 -> held+recent",
    "a tier 1 append does not conflict with an append": "doug did note; 1 s; mira add3 -> allow",
    "a read is no evidence": "doug did look; mira act4 -> allow",
    "a failed action is no evidence": "doug send3 says numbers; doug fails; 1 s; mira send4 -> allow; anna send3 on x says numbers -> allow",
    "a cancelled action is no evidence": "doug send3 says numbers; doug cancels; 1 s; mira send4 -> allow; anna send3 on x says numbers -> allow",
    "a late failure takes the evidence back": "doug send3 says numbers; 400 s; mira send4 -> unknown; doug fails late; anna send4 -> allow",
    "evidence is of other sessions": "mira did send2 says numbers; 700 s; mira send4 says lunch -> allow",
    "actions of low tiers count as done": "doug send2; 1000 s; mira send3 says numbers -> recent",
    "recent is counted from the report": "doug act2; 3000 s; doug ends; 1200 s; mira send3 says lunch -> recent",
    "a file conflicts with its tree": "doug tree4 on /repo/; 1 s; mira tree4 on /repo/a/b.py -> block held",
    "a tree conflicts with a file in it": "doug tree4 on /repo/a/b.py; 1 s; mira tree4 on /repo/ -> block held",
    "neighbouring keys do not conflict": "doug tree4 on /repo/; mira tree4 on /repository/a.py -> allow; mira tree4 on /rep -> allow",
    "two reads do not conflict": "doug look; mira look -> allow",
    "a read passes a hard lease": "doug act4; mira look -> allow",
    "two appends do not conflict": "doug add4; mira add4 -> allow",
    "an append conflicts with a write before it": "doug did send2; doug did add2; 1 s; mira add3 -> recent",
    # --- duplicate
    "another number is another content": "doug did send3 says 120; 5 s; mira send3 says 210 -> recent",
    "same content without a key is a duplicate":
        "doug did free3 on nothing says numbers; 5 s; mira free3 on nothing says numbers -> duplicate; "
        "mira free3 on nothing says lunch -> allow",
    "equal content without a key is held while it runs":
        "doug free4 on nothing says numbers; mira free4 on nothing says numbers -> block duplicate+held; doug fails; "
        "mira free4 on nothing says numbers -> allow",
    "a harmless repeat is no duplicate": "mira did look; doug did act3 says numbers; mira did look; 5 s; mira act3 says numbers -> recent",
    "own equal content at tier 2 counts while the action runs":
        "mira send2 says numbers; 1 s; mira send2 says numbers -> duplicate; "
        "mira did send2 on else says numbers; 1 s; mira send2 on else says numbers -> allow",
    "equal content for other recipients passes": "doug send4 on alice says numbers; mira send4 on bob says numbers -> allow",
    "an acknowledgement and then the answer pass": "mira did send3 says ok; 30 s; mira send3 says numbers -> allow",
    # --- opposed
    "the same stance is not opposed": "doug did join3; 5 s; mira join3 says lunch -> recent",
    "a session may contradict itself": "mira did join3; 5 s; mira skip3 -> allow",
    "a contrary action is found behind newer ones": "doug did join3; doug did send3 says lunch; 5 s; mira skip3 -> opposed+recent",
    # --- held
    "a write of tier 2 is blocked by a hard lease as held": "mira did look; 1 s; doug act4; 1 s; mira act2 -> block held",
    "a rule that lets held pass and forbids stale keeps stale": "mira did look; 1 s; doug act3; 1 s; mira soft -> block stale",
    "after held a session that had read gets stale":
        "mira did look; 1 s; doug act3; 3 s; mira act3? -> held; 5 s; doug ends; 5 s; mira act3? -> stale; 5 s; "
        "mira act3? -> allow",
    "after held a session that had not read gets nothing":
        "doug act3; 3 s; mira act3? -> held; 5 s; doug ends; 5 s; mira act3? -> allow; 5 s; mira act3? -> allow",
    "after held a session gets stale whatever was notified before":
        "mira did look; 1 s; anna did act3; 1 s; mira act3? -> stale; 5 s; mira did look; 1 s; doug act3; 3 s; "
        "mira act3? -> held; 5 s; doug ends; 5 s; mira act3? -> stale",
    "a running change of a read key pauses every call": "mira did look" + 4 * "; 1 s; doug act3; 1 s; mira act3? -> confirm held; doug ends",
    # --- stale
    "a write without a report counts as changing": "doug act1; 1 s; mira did look; 1 s; mira act1 -> stale",
    "an own finished write counts as a read": "doug did act1; 700 s; mira did act1; 1 s; mira act1 -> allow; doug did act1; 1 s; mira act1 -> stale",
    "a change after an own write is stale, however old it is": "mira did act1; 60 s; doug did act1; 1200 s; mira act1 -> stale",
    "an own write counts as of its intercept": "mira act1; 1 s; doug did act1; 1 s; mira ends; 1 s; mira act1 -> stale",
    "an own write reported late does not count as a read": "mira did look; 60 s; doug did act1; 60 s; mira act1 -> stale; 400 s; mira ends; mira act4 -> stale",
    "a failed read marks nothing": "mira did look; 1 s; doug did act1; 1 s; mira look; mira fails; mira act1 -> stale",
    "a read that did not run marks nothing": "doug did act1; 5 s; mira asked-read -> ask; mira act1 -> stale",
    "a late report never moves a mark forward": "mira did look; 1 s; mira act3; 401 s; doug did act1; 1 s; mira ends late; 1 s; mira act1 -> stale",
    "a change after an own write blocks tier 4 only within the window":
        "mira did act4; 60 s; doug did act1; 60 s; mira act4 -> block stale; 3600 s; mira act4 -> allow",
    "replacing what was never read is stale": "doug did act1; 590 s; mira act1 -> stale",
    "replacing what was never read is stale for ten minutes": "doug did act1; 610 s; mira act1 -> allow",
    "appending to what was never read is not stale": "doug did act1; 1 s; mira note -> allow",
    "a change of tier 1 behind one of tier 2 is seen at tier 3": "doug did act2; 1 s; mira did look; 1 s; doug did act1; 1 s; mira act3 -> recent+stale",
    "writing a tree is stale if a file read in it changed":
        "mira did see on /repo/a.py; 1 s; doug did tree1 on /repo/a.py; 3600 s; mira tree1 on /repo/ -> stale",
    "writing a tree of which nothing was read is not stale": "doug did tree1 on /repo/a.py; 3600 s; mira tree1 on /repo/ -> allow",
    "writing a file after a tree was written is stale": "mira did see on /repo/a.py; 1 s; doug did tree1 on /repo/; 3600 s; mira tree1 on /repo/a.py -> stale",
    "reading a tree reads its files": "doug did tree1 on /repo/a.py; 1 s; mira did see on /repo/; 1 s; mira tree1 on /repo/a.py -> allow",
    # --- a session's own actions
    "several calls of one session do not conflict": "mira send4 says numbers; 1 s; mira send4 says lunch -> allow",
    "an own expired action is unknown": "mira send3 says numbers; 301 s; mira send3 says lunch -> unknown",
    "an own open action of an earlier run is unknown at once": "mira send3 says numbers in one; 2 s; mira send3 says lunch in two -> held+unknown",
    "runs open at once count as two sessions": "mira send4 says numbers in one; 2 s; mira send4 says lunch in two -> block held+unknown",
    "an own open action of the same run is no conflict": "mira send4 says numbers in one; 2 s; mira send4 says lunch in one -> allow",
    # --- notices and repeats
    "a warning notifies the session too": "doug did send2; 40 s; mira send3 says numbers -> warn; 2 s; mira send3? says lunch -> allow",
    "each session is notified separately": "doug did send2; 40 s; mira send3? -> confirm; anna send3? -> confirm",
    "each key is notified separately":
        "doug did send2 on one; doug did send2 on two; 40 s; mira send3? on one -> confirm; 5 s; "
        "mira send3? on two -> confirm",
    "the same call id does not confirm": "doug did send2; 40 s" + 3 * "; mira send3? as c -> confirm; 5 s",
    "an equal call within a second does not confirm": "doug did send2; 40 s; mira send3? says numbers; 0.4 s; mira send3? says numbers -> confirm",
    "an equal call a second later confirms": "doug did send2; 40 s; mira send3? says numbers; 1.2 s; mira send3? says numbers -> allow",
    "an equal call of another run confirms": "doug did send2; 40 s; mira send3? says numbers in one; mira send3? says numbers in two -> allow",
    "equal calls of one turn do not confirm each other":
        "doug did send2; 40 s" + 3 * "; mira send3? says numbers in one -> confirm; 0.2 s"
        + "; 2 s; mira send3? says numbers in one -> allow",
    "equal calls at once do not confirm each other if the last action shown is gone":
        "doug did send2 says numbers; mira send3? says numbers -> confirm; anna send3 says lunch; "
        "mira send3? says numbers -> confirm; anna fails; mira send3? says numbers -> confirm; 2 s; "
        "mira send3? says numbers -> allow",
    "a graver kind is shown again":
        "doug did send3 says numbers; 40 s; mira send3? says lunch -> recent; 5 s; "
        "mira send3? says numbers -> confirm duplicate; 5 s; mira send3? says numbers -> allow",
    "held that became unknown is graver, and shown once":
        "doug send3 says numbers; 10 s; mira send3? says lunch -> held; 400 s; mira send3? says lunch -> unknown; 5 s; "
        "mira send3? says lunch -> allow",
    "the outcome of an action already shown is not new":
        "doug send3 says numbers; 10 s; mira send3? says lunch -> held; 5 s; doug ends; 5 s; mira send3? says lunch -> allow",
    "unknown is shown to each session once":
        "doug send3 says numbers; 400 s; mira send3? says lunch -> unknown; anna send3? says lunch -> unknown; 2 s; "
        "mira send3? says lunch -> allow; anna send3? says key -> held",
    "after two mild pauses tier 3 is only warned":
        "doug did send2 says numbers; 5 s; mira send3? -> confirm; 5 s; doug did send2 says lunch; 5 s; "
        "mira send3? -> confirm; 5 s; doug did send2 says key; 5 s; mira send3? -> warn",
    "only pauses of the last ten minutes count":
        "doug did send2 says numbers; 5 s; mira send3? -> confirm; 400 s; doug did send2 says lunch; 5 s; "
        "mira send3? -> confirm; 400 s; doug did send2 says key; 5 s; mira send3? -> confirm",
    "pauses for graver kinds do not count":
        "doug send3 says numbers; 5 s; mira send3? says numbers -> confirm duplicate+held; 5 s; "
        "anna send3 says numbers; 5 s; mira send3? says numbers -> confirm duplicate+held; 5 s; "
        "kim did send2 says lunch; 5 s; mira send3? says key -> confirm recent",
    "graver kinds always pause": "; ".join(4 * ["mira did look; 1 s; doug did act1; 1 s; mira act3? -> confirm stale; 2 s"]),
    "stale at tier 1 is confirmed like any other": "mira did look; 1 s; doug did act1; 1 s; mira act1? -> confirm; 2 s; mira act1? -> allow",
    "reading again clears stale": "mira did look; 1 s; doug did act1; 1 s; mira act1? -> confirm; mira did look; mira act1? -> allow",
    "a call without keys is confirmed too":
        "doug did free3 on nothing says numbers; 10 s; mira free3? on nothing says numbers -> confirm; 5 s; "
        "mira free3? on nothing says numbers -> allow",
    "a never read file is replaced on the fourth attempt":
        "doug did Write says numbers; 2 s" + 3 * "; mira Write? says lunch -> confirm; 2 s" + "; mira Write? says lunch -> allow",
    "a newer change is shown three times too":
        "mira did Read; 2 s; doug did Write says numbers; 2 s" + 3 * "; mira Write? says lunch -> confirm; 2 s"
        + "; doug did Read; 2 s; doug did Write says nearly; 2 s" + 3 * "; mira Write? says lunch -> confirm; 2 s"
        + "; mira Write? says lunch -> allow",
    # --- reports
    "a refused call is decided again": "doug act4; mira act4 as c -> block; doug fails; mira act4 as c -> allow",
    "a repeat under an id of another call confirms":
        "mira did send2 on lunch as c; doug did send3; mira send3? as c -> confirm; 5 s; mira send3? as c -> allow",
    "a repeat after the lease of tier 3 ran out gets unknown": "mira send3 says numbers as c; 400 s; mira send3? says numbers as c -> block",
    "a repeat after the lease of tier 4 ran out gets unknown": "mira send4 says numbers as c; 400 s; mira send4? says numbers as c -> block",
    "a late report ends an unknown": "doug send4 says numbers; 301 s; mira send4 says lunch -> block; doug ends late; 3601 s; mira send4 says lunch -> allow",
    "a confirmed repeat that is done ends an unknown":
        "doug send3 says numbers; 301 s; mira send3? says numbers -> confirm; 5 s; mira send3? says numbers -> allow; "
        "mira ends; 5 s; anna send3 says lunch -> recent",
    "a confirmed repeat that fails does not end an unknown":
        "doug send3 says numbers; 301 s; mira send3? says numbers -> confirm; 5 s; mira send3? says numbers -> allow; "
        "mira fails; 5 s; anna send3 says lunch -> unknown",
    # --- a person's answers
    "an approved call runs once":
        "mira asked says numbers -> ask; 60 s; mira approved; 5 s; mira asked says numbers -> allow; mira ends; 5 s; "
        "mira asked says numbers -> ask",
    "a person may override a block once":
        "doug did send2; 5 s; mira send4 says numbers -> block; mira approved; 5 s; mira send4 says numbers -> warn; "
        "mira fails; 5 s; mira send4 says numbers -> block",
    "a question of tier 3 can be approved": "mira asked says numbers -> ask; mira approved; 5 s; mira asked says numbers -> allow",
    "a question about a read can be approved": "mira asked-read -> ask; mira approved; 5 s; mira asked-read -> allow",
    "a question of tier 1 can be approved": "mira asked-low -> ask; mira approved; 5 s; mira asked-low -> allow",
    "an approval holds for an hour": "mira asked says numbers; mira approved; 3500 s; mira asked says numbers -> allow",
    "an approval holds for no longer than an hour": "mira asked says numbers; mira approved; 3700 s; mira asked says numbers -> ask",
    "an approval counts only for the content that was shown":
        "mira asked says numbers; mira approved; 5 s; mira asked says lunch -> ask; doug asked says numbers -> ask; "
        "mira asked says numbers -> allow",
    "newer evidence voids an approval": "mira asked says numbers; mira approved; 5 s; doug did send2; 5 s; mira asked says numbers -> ask",
    "an overridden block is void after a new action":
        "doug did send2; 5 s; mira send4 says numbers -> block; mira approved; 5 s; anna did send2; 5 s; "
        "mira send4 says numbers -> block",
    "a question does not block other sessions": "mira asked; doug send4 -> allow",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_every_answer_of_the_story_is_given(world: World, story: str) -> None:
    tell(world, story)


def test_wrong_answer_fails_a_story(world: World) -> None:
    for wrong in ("allow", "recent", "allow stale", "recent+stale"):
        with pytest.raises(AssertionError):
            tell(world, f"doug did act1; 1 s; mira act1 -> {wrong}")
