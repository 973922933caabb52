"""What sessions that share one checkout take from one another, and what they do not. Pure.

A commit appends to ``git:ROOT|HEAD`` and a switch writes it, so that commits conflict with switches only. A stash
(``|stash`` beside the tree of the checkout) takes along the work of others that no commit holds. What a pull changed
below a tree is one notice, which is marked on the tree's ``CHANGES``.
"""

from __future__ import annotations

import re
from typing import Final

from callosum.model import Action, Classification, KeyView, Mode, State, View, overlap
from callosum.policy.summary import journalled_call

HEAD: Final = "|HEAD"
"""End of the key of the branch that a worktree is on."""
CHANGES: Final = "|changes"
"""End of the key on which a session is notified of a change through a tree to files that it has not read."""
REMOTE: Final = "|remote:"
"""Part of the keys of a remote's branches: ``git:/repo|remote:origin/main``, ``git:/repo|remote:origin/``."""
_INDEX: Final = "|index"
_SEARCHED: Final = 64
"""Number of a session's newest calls among which its commits and looks are looked for."""
_EVERYTHING: Final = frozenset(("-A", "--all", "-u", "-a", "-am", "."))
"""Words by which `git add` and `git commit` take all changed files."""


def only_does(classification: Classification, what: re.Pattern[str]) -> bool:
    """Return True if the pattern fits all that the command was judged to do."""
    done = [why for why in classification.why if not why.startswith("rule ")]
    return bool(done) and all(map(what.search, done))


def through_tree(name: str, action: Action) -> bool:
    """Return True if the action changed a tree of files above the key ``name``."""
    tree = action.key
    return tree[-1:] == "/" and tree[:5] == "file:" and name.startswith(tree) and name != tree


def remote_of(key: str) -> str:
    """Return the key on which reads of a whole remote are marked, or ``""`` if the key is not of a remote's branch.

    ``git:/repo|remote:origin/main`` gives ``git:/repo|remote:origin``.
    """
    repository, separator, branch = key.partition(REMOTE)
    if not separator or not repository.startswith("git:"):
        return ""
    is_address = "://" in branch or branch[:1] in ("/", ".", "~") or "@" in branch
    remote = branch.rpartition("/")[0] if is_address else branch.partition("/")[0]
    return f"{repository}{REMOTE}{remote}" if remote and remote != branch else ""


def last_look_at_remote(view: View, key_view: KeyView) -> int:
    """Return the moment at which the session last read the branch or its whole remote.

    The result is 0 if it never did, and for any other key. The session's own push shows it nothing of what others have
    pushed.
    """
    if REMOTE not in key_view.key.name or not (whole := remote_of(key_view.key.name)):
        return 0
    return max([key_view.mark.read, *(other.mark.read for other in view.keys if other.key.name == whole)])


def left_nothing(action: Action, view: View, key_view: KeyView, actor: str) -> bool:
    """Return True if the call takes nothing of the action's along: a commit from an index, a stash from a tree.

    A commit that may have taken what ``actor``, who makes the call, had staged before left something: the lack of it.
    """
    name, own = key_view.key.name, key_view.own
    if name.endswith(_INDEX):
        if action.mode is Mode.WRITE and own is not None and own.mode is Mode.APPEND and not _commits(own):
            return _commits(action, name) and own.started >= (action.ended or action.started)
        return _commits(action, name)
    if name[-1:] != "/" or not any(
        one.key.name.endswith("|stash") and one.key.mode is not Mode.READ for one in view.keys
    ):
        return False
    return _commits(action) or _is_committed(action, view, actor)


def _commits(action: Action, index: str = "") -> bool:
    """Return True if the action brought commits to the branch of a checkout, that of the ``index`` if it is given."""
    head = index.removesuffix(_INDEX) + HEAD
    return any(key.mode is Mode.APPEND and key.name.endswith(head) for key in action.keys)


def _since(action: Action, view: View, session: str) -> list[Action]:
    """Return the newest calls of a session that began after the action."""
    calls = view.lately(session, _SEARCHED) if view.lately is not None and action.ended else ()
    return [other for other in calls if other.started >= action.ended and other.state is State.DONE]


def has_looked(action: Action, view: View, actor: str) -> bool:
    """Return True if the session has read the tree that the action changed, or anything below it, since the change."""
    reads = [key.name for other in _since(action, view, actor) for key in other.keys if key.mode is Mode.READ]
    return any(overlap(action.key, f"file:{one[4:].partition('|')[0]}/" if one[:4] == "git:" else one) for one in reads)


def _is_committed(action: Action, view: View, actor: str) -> bool:
    """Return True if the action's session or the caller has committed what the action changed.

    A commit holds the files that its line or that of an earlier `git add` names, as far as the journal shows them.
    """
    since = [other for session in (action.session, actor) for other in _since(action, view, session) if other.ended]
    staged = [other.id for other in since if any(key.name.endswith((_INDEX, HEAD)) for key in other.keys)]
    if view.bodies is None or not any(map(_commits, since)):
        return False
    said = " ".join(str(journalled_call(body).params) for body in view.bodies(staged).values())
    name = action.key.rpartition("/")[2]
    return bool(name) and (name in said or not _EVERYTHING.isdisjoint(said.replace("'", " ").split()))
