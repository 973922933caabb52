"""Which side a call takes: accept or decline, book or cancel, open or close. Two sides of one thing are ``opposed``.

A side is ``+`` or ``-`` and what it is about: ``+attend``, ``-book``. It comes from the verb, else from an answer
among the arguments (``response: "declined"``, ``attending: false``). Of some things there is only for and against:
a pull request that is merged, approved or opened again is wanted, one that is closed or rejected is not.

What puts something into a container takes no side about the container: two sessions that create and delete
different things there do not contradict each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from callosum.model import Key
from callosum.rules import lexicon as lex
from callosum.rules.keys import APPEND
from callosum.rules.lexicon import lists, maps

if TYPE_CHECKING:
    from callosum.rules.name import Name


_UNDONE: Final = (
    "archive assign ban block claim favorite flag follow hide like link lock mount mute pin publish star subscribe tag"
)
"""Verbs that are undone by ``un`` before them."""
_PAIRS: Final = """
approve: approve accept confirm / reject decline deny disapprove
attach: attach / detach
attend: attend join / leave
book: book reserve rebook schedule place order / cancel unschedule
buy: buy purchase / sell
connect: connect reconnect / disconnect
deploy: deploy redeploy / rollback undeploy
enable: enable activate / disable deactivate
enroll: enroll enrol / unenroll
exist: create restore undelete / delete destroy drop purge terminate
freeze: freeze suspend / unfreeze unsuspend
grant: grant / revoke
hold: add invite / remove kick
install: install / uninstall
merge: merge / revert
open: open reopen unresolve / close resolve
pay: pay / refund reimburse
promote: promote / demote
register: register / unregister deregister
run: start resume unpause / stop pause kill
upgrade: upgrade / downgrade
"""
"""What two sides are about, and the verbs of either."""


def _sides() -> dict[str, str]:
    sides = {verb: f"+{verb}" for verb in _UNDONE.split()} | {f"un{verb}": f"-{verb}" for verb in _UNDONE.split()}
    for pair in _PAIRS.strip().splitlines():
        about, _, verbs = pair.partition(": ")
        for sign, side in zip("+-", verbs.split(" / "), strict=True):
            sides.update(dict.fromkeys(side.split(), sign + about))
    return sides


SIDES: Final = _sides()
"""Verb -> side, of pairs of verbs that undo each other."""
ANSWERING: Final = lex.ANSWER_PARAMS | maps.VERB_OF_SWITCH.keys()
"""Arguments that may say which side a call takes."""


def contrary(stance: str) -> str:
    """Return the opposite stance (``+attend`` for ``-attend``), ``""`` for none."""
    if stance[:1] == "+":
        return "-" + stance[1:]
    return "+" + stance[1:] if stance[:1] == "-" else ""


def stance(verb: str, name: Name) -> str:
    """Return the side that a tool takes by the verb it was found to have, ``""`` for none."""
    if verb not in SIDES and name.words and name.words[0] in SIDES:
        verb = name.words[0]
    about = maps.SIDE_OF_NOUN.get(name.head or name.verb)
    if about:
        if verb in lex.IS_FOR:
            return f"+{about}"
        if verb in lex.IS_AGAINST:
            return f"-{about}"
    return SIDES.get(verb, "")


def answered(params: Mapping[str, Any], name: Name, taken: str) -> str:
    """Return the side a call takes by an answer among its arguments; ``taken``, its verb's, where there is none.

    ``True`` and ``"yes"`` stand for the argument's own verb, ``False`` for its contrary.
    """
    if taken[1:] in lists.LASTING_SIDES:
        return taken
    for param, value in params.items():
        kind = type(value)
        if kind is str:
            if param in lex.ANSWER_PARAMS and len(value) <= 32:
                verb = maps.VERB_OF_ANSWER.get(
                    value.strip().lower().replace(" ", "_").replace("-", "_").replace("'", "")
                )
                if verb:
                    return stance(verb, name)
        elif kind is bool and param in maps.VERB_OF_SWITCH:
            side = stance(maps.VERB_OF_SWITCH[param], name)
            return side if value else contrary(side)
    return taken


NEW: Final = "/|new"
"""The end of the key of a thing that is made and has no id yet: no container, the thing itself."""


def about_itself(taken: str, keys: tuple[Key, ...]) -> str:
    """Return the side without that of a call which only puts something into containers: ``""``.

    What it puts there may be named (``channel:c|user/bob``): about that it does take a side.
    """
    if not taken or not keys or keys[0].mode is not APPEND:
        return taken
    return (
        taken
        if any(key.mode is not APPEND or key.name.endswith(NEW) or "/" in key.name.partition("|")[2] for key in keys)
        else ""
    )
