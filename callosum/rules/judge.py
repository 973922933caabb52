"""Judges a call that no rule names by what it shows: its name, its arguments, its description.

What it shows can be wrong, so every doubt goes to the graver side: no verb means a write, hints of
the tool's author may raise and never lower, and of two readings the graver counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from callosum.rules import lexicon as lex
from callosum.rules import sql, targets
from callosum.rules.name import Name, leading_verb, read_name, words

if TYPE_CHECKING:
    from callosum.model import Call, Key


class Look(NamedTuple):
    """What a tool's name says together with the verb in its arguments (``action``, ``method``).

    ``tier`` is without what other arguments add. ``settles``: doing it twice is the same as once.
    ``whole``: afterwards the resource holds what the call says. ``sure``: a verb was found.
    """

    name: Name
    verb: str
    tier: int
    effect: str
    repeats: bool
    settles: bool
    stance: str
    whole: bool
    sure: bool
    why: tuple[str, ...]


class Judgement(NamedTuple):
    """What an unnamed call is taken for."""

    tier: int
    effect: str
    keys: tuple[Key, ...]
    repeats: bool
    stance: str
    whole: bool
    why: tuple[str, ...]


def look(tool: str, params: Mapping[str, Any]) -> Look:
    """Returns what the name of a tool and the verb among its arguments say."""
    if _TELLING.isdisjoint(params) and len(tool) <= 256:
        return _look(tool, "", "")
    said, where = "", ""
    for name in lex.ACTION_PARAMS:
        value = params.get(name)
        if value is not None and type(value) is str and 0 < len(value) <= 64 and " " not in value:
            said, where = value, name
            break
    seen = _look(tool if len(tool) <= 256 else tool[:256], said, where)
    if seen.effect == "write" and not _ANSWERING.isdisjoint(params):
        stance = _answer(params)
        if stance:
            return seen._replace(stance=_stance(stance, seen.name.nouns))
    return seen


_ANSWERING: Final = frozenset(lex.ANSWER_PARAMS)
_TELLING: Final = frozenset(lex.ACTION_PARAMS + lex.ANSWER_PARAMS)
_GENERIC: Final = frozenset(
    "manage handle process execute run invoke call do use exec perform apply request set type".split()
)


@lru_cache(maxsize=4096)
def _look(tool: str, said: str, where: str) -> Look:
    name = read_name(tool)
    verb, tier, sure, nouns = name.verb, name.tier, bool(name.verb), name.nouns
    if said:
        spoken = read_name(said)
        if where == "method" and said.lower() in lex.HTTP:
            given, grave, known = said.lower(), lex.HTTP[said.lower()], True
            given = {"get": "get", "head": "get", "options": "get", "trace": "get", "delete": "delete"}.get(
                given, "post"
            )
        else:
            given, grave, known = spoken.verb, spoken.tier, bool(spoken.verb)
            nouns = tuple(dict.fromkeys(nouns + spoken.nouns))
        if not known:
            tier = max(tier, 1)  # it does something whose name says nothing
            verb = verb if name.sure and name.tier else ""
        elif not name.sure or verb in _GENERIC or grave >= tier:
            verb, tier, sure = given, grave, True
    name = name._replace(nouns=nouns)
    effect = "read" if tier == 0 else "write"
    lifted, why = _lift(verb, tier, name, sure=sure)
    settles = bool(verb) and verb not in lex.REPEATS
    repeats = (
        effect == "write"
        and verb in lex.REPEATS
        and not (name.head in lex.HARMLESS_TWICE and verb in ("create", "add", "make"))
    )
    return Look(name, verb, lifted, effect, repeats, settles, _stance(verb, nouns), verb in lex.WHOLE, sure, why)


def _stance(verb: str, nouns: tuple[str, ...]) -> str:
    stance = lex.STANCES.get(verb, "")
    if (
        stance
        and "event" in nouns
        and verb in ("book", "schedule", "create", "reserve", "confirm", "cancel", "delete", "unschedule", "reject")
    ):
        return "+attend" if verb in ("book", "schedule", "create", "reserve", "confirm") else "-attend"
    if verb == "order":
        return "+book"
    return stance


def _answer(params: Mapping[str, Any]) -> str:
    """Returns the verb that an answering argument (``response: accepted``) stands for, or ``""``."""
    for name in lex.ANSWER_PARAMS:
        value = params.get(name)
        if type(value) is str and len(value) <= 32:
            verb = lex.ANSWERS.get(value.strip().lower().replace(" ", "_"))
            if verb:
                return verb
    return ""


def _lift(verb: str, tier: int, name: Name, *, sure: bool) -> tuple[int, tuple[str, ...]]:
    """Returns the tier that verb and nouns make together, with the reason."""
    if tier == 0:
        return 0, (f'judged by the verb "{verb}": it only looks',)
    if not sure:
        return max(tier, 1), ("no verb that is known: taken for a write",)
    lifted, what = _about(verb, tier, name)
    return lifted, (
        f'judged by the verb "{verb}" and what it is about: {what}' if what else f'judged by the verb "{verb}"',
    )


def _about(verb: str, tier: int, name: Name) -> tuple[int, str]:
    """Returns the tier of a write by what it is about, and what that is (``""``: the verb's own)."""
    nouns, head = set(name.nouns), name.head
    if "draft" in name.words and verb not in ("send", "publish", "submit", *lex.DESTROYS):
        return 1, "a draft"
    if nouns & lex.MONEY:
        return 4, "money"
    if verb in lex.DESTROYS:
        if head in lex.LIGHT:
            return 2 if head in lex.TALK else 1, "something soon made good"
        return 4, "something that lasts" if nouns else ""
    if nouns & lex.ACCESS or {"api", "key"} <= set(name.words):
        return 4, "access or configuration"
    if verb in lex.REMOVES and head in lex.HEAVY:
        return 4 if verb in ("remove", "unregister", "revoke") else 3, "something that lasts"
    if verb == "cancel" and head in lex.LIGHT:
        return 1, "something soon made good"
    least, what = _outward(verb, nouns, head)
    return (least, what) if least > tier else (tier, "")


def _outward(verb: str, nouns: set[str], head: str) -> tuple[int, str]:
    """Returns the least tier of a write that others will notice, and why."""
    if nouns & lex.MONEY_RECORDS:
        return 3, "a commercial document"
    if nouns & lex.COMMITMENTS and head not in lex.ASIDES:
        return 3, "a commitment"
    if nouns & lex.MAILS and verb in lex.SENDS:
        return 3, "mail"
    if verb in ("reply", "respond") and "thread" in nouns:
        return 3, "a thread"
    if nouns & lex.TALK:
        return 2, "what others read"
    if verb in ("create", "provision", "rename") and head in lex.HEAVY:
        return 2, "something that lasts"
    return 0, ""


_FINAL: Final = re.compile(
    r"permanent|cannot be undone|can't be undone|irreversib|not reversible|unrecoverable", re.IGNORECASE
)
_DATABASE: Final = frozenset("sql db database mysql postgres postgresql sqlite table".split())
_AMOUNT: Final = frozenset(("amount", "amount_cents", "sum", "total_amount", "amountcents", "value_in_cents"))
_PAYEE: Final = frozenset(
    (
        "recipient",
        "payee",
        "to",
        "iban",
        "beneficiary",
        "destination",
        "to_account",
        "recipient_iban",
        "toaccount",
        "receiver",
    )
)


def judge(call: Call, params: Mapping[str, Any]) -> Judgement:
    """Returns what a call is taken for that no rule names. Never tier 0 without a sign of harmlessness."""
    seen = look(call.tool, params)
    tier, effect, why, verb = seen.tier, seen.effect, seen.why, seen.verb
    if not seen.sure:
        lead = leading_verb(call.description) if call.description else ""
        if lead:
            seen = _described(call.tool if len(call.tool) <= 256 else call.tool[:256], lead)
            tier, effect, why, verb = (
                seen.tier,
                seen.effect,
                (f'judged by how it is described: "{lead}"',),
                lead,
            )
        elif _converts(seen.name.words, params):
            tier, effect, why = 0, "read", ("a conversion of numbers",)
    plain = not seen.sure or verb in _GENERIC or verb in ("query", "select")
    statement = sql.statement(params, loosely=plain or not _DATABASE.isdisjoint(seen.name.words))
    if statement is not None and (plain or statement.tier > tier):
        tier, verb = statement.tier, statement.verb
        effect, why = "write" if tier else "read", (f"judged by its SQL: {statement.verb}",)
    if (
        0 < tier < 4
        and (
            verb in ("transfer", "send", "schedule", "make", "create", "update", "initiate")
            or "transaction" in seen.name.nouns
        )
        and _pays(call, params, seen.name)
    ):
        tier, why = 4, ("money moves: an amount and who gets it",)
    notes = call.annotations
    if notes:
        if tier == 0 and notes.get("readOnlyHint") is False:
            tier, effect, why = 1, "write", (*why, "its author says that it does not only read")
        elif (
            0 < tier < 4
            and notes.get("destructiveHint") is True
            and call.description
            and _FINAL.search(call.description[:4096])
        ):
            tier, why = 4, (*why, "its author says that it cannot be undone")
    if statement is not None and statement.keys:
        keys: tuple[Key, ...] = statement.keys
    else:
        keys = targets.derive(call, params, seen.name, verb, tier, effect)
    return Judgement(tier, effect, keys, seen.repeats and effect == "write", seen.stance, seen.whole, why)


@lru_cache(maxsize=1024)
def _described(tool: str, verb: str) -> Look:
    """A look at a tool whose name has no verb, with the one its description begins with."""
    name = read_name(tool)
    tier = lex.VERBS.get(verb, (0, 0))[0]
    lifted, why = _lift(verb, tier, name, sure=True)
    return Look(
        name,
        verb,
        lifted,
        "read" if tier == 0 else "write",
        verb in lex.REPEATS,
        verb not in lex.REPEATS,
        _stance(verb, name.nouns),
        False,
        True,
        why,
    )


def _converts(spoken: tuple[str, ...], params: Mapping[str, Any]) -> bool:
    """Tells whether a name like ``gallon_to_liter`` with nothing but numbers is a calculation."""
    return (
        len(spoken) >= 3
        and "to" in spoken[1:-1]
        and bool(params)
        and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in params.values())
        and not any(name.lower().endswith(("id", "number", "account")) for name in params)
    )


def _pays(call: Call, params: Mapping[str, Any], name: Name) -> bool:
    """Tells whether an amount goes to somebody, by the names of the params (and of the schema's)."""
    found = {str(one).lower() for one in params}
    properties = call.schema.get("properties") if call.schema else None
    if isinstance(properties, Mapping):
        found.update(str(one).lower() for one in properties)
    return bool(found & _AMOUNT) and (bool(found & _PAYEE) or "transaction" in name.nouns)


__all__ = ["Judgement", "Look", "judge", "look", "words"]
