"""Judges a call that no rule names by what it shows: its name, its arguments, its description.

What it shows can be wrong, so every doubt goes to the graver side: no verb means a write, hints of
the tool's author may raise and never lower, and of two readings the graver counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from callosum.model import Key
from callosum.rules import acts, checkout, described, gravity, many, modes, money, opaque, opposites, sql, targets
from callosum.rules import lexicon as lex
from callosum.rules import shape as shapes
from callosum.rules.keys import merge, spell
from callosum.rules.lexicon import lists, maps, tiers
from callosum.rules.name import MAX_NAME, Name, read_name, words

if TYPE_CHECKING:
    from callosum.model import Call
    from callosum.rules.shape import Shape


class Look(NamedTuple):
    """What a tool's name says together with the verb in its arguments (``action``, ``method``).

    ``tier`` is without what other arguments add. ``settles``: doing it twice is the same as once.
    ``whole``: afterwards the resource holds what the call says. ``sure``: a verb was found. ``open``: the
    description may know better. ``apart``: it may stand for a command, or change no more than its own session.
    ``runs``: it may run what it is given.
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
    open: bool
    apart: bool
    runs: bool
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


def look(tool: str, params: Mapping[str, Any], shape: Shape) -> Look:
    """Return what the name of a tool and the verb among its arguments say. ``shape`` is that of its params."""
    if not shape.telling and len(tool) <= MAX_NAME:
        seen = _look(tool, "", "")
        return modes.flagged(seen, params, flags) if seen.tier and (flags := modes.flags(tuple(params))) else seen
    short = tool if len(tool) <= MAX_NAME else tool[:MAX_NAME]
    seen = _look(short, "", "")
    if not acts.NAMING.isdisjoint(params) or ("name" in params and acts.calls_others(seen.name)):
        said, where = acts.said(short, params)
        if where in lists.METHODS and not lex.RESOURCE_PARAMS.isdisjoint(params) and said.lower() not in tiers.HTTP:
            about = [params[one] for one in params if one in lex.RESOURCE_PARAMS and type(params[one]) is str]
            said = "_".join((said, *about[:1]))[:128]
        seen = _look(short, said, where)
    if not lex.BATCH_PARAMS.isdisjoint(params):
        for said, where in acts.batched(params):
            other = _look(short, said, where)
            if other.tier > seen.tier:
                seen = other._replace(why=(f"one of the calls in it is {other.why[0]}", *other.why[1:]))
    if seen.tier and (flags := modes.flags(tuple(params))):
        seen = modes.flagged(seen, params, flags)
    if short is not tool and seen.effect == "read":
        return seen._replace(tier=1, effect="write", why=("its name is too long to be read as a whole",))
    if seen.effect == "write" and not opposites.ANSWERING.isdisjoint(params):
        return seen._replace(stance=opposites.answered(params, seen.name, seen.stance))
    return seen


def holds(seen: Look, params: Mapping[str, Any]) -> bool:
    """Tells whether afterwards one resource holds what the call says and nothing else, so that a repeat is harmless.

    What is created under a bare name may stand beside another of that name, as in a drive or a wiki: a repeat makes
    two. At a path there is one.
    """
    if seen.verb != "create" or not seen.whole:
        return seen.whole
    return all(
        "/" in value or "\\" in value for name in lists.BARE_NAME_PARAMS if type(value := params.get(name)) is str
    )


@lru_cache(maxsize=4096)
def _look(tool: str, said: str, where: str) -> Look:
    name = read_name(tool)
    verb, tier, sure, nouns = name.verb, name.tier, bool(name.verb), name.nouns
    if verb == "watch" and not lex.FOLLOWED.isdisjoint(nouns):
        verb, tier = "subscribe", 1
    elif verb == "convert" and not lex.CONVERTED.isdisjoint(nouns):
        tier = 1
    elif verb == "select" and len(name.words) > 1 and lex.ROW_NOUNS.isdisjoint(nouns):
        tier = 1  # an option, a tab, an element
    elif verb == "power" and not lex.MACHINES.isdisjoint(name.words):
        verb, tier = "reboot", 1  # no sum: ``server_power``
    elif verb == "call" and (not lex.CALLED.isdisjoint(nouns) or where):
        tier = 1  # no telephone
    spoken = read_name(said)
    if said and not (
        name.firm and tier == 0 and verb and not lex.LOG_NOUNS.isdisjoint(nouns) and where not in lists.METHODS
    ):
        if where in lists.METHODS and said.lower() in tiers.HTTP:
            given, grave, known = said.lower(), tiers.HTTP[said.lower()], True
            given = {"get": "get", "head": "get", "options": "get", "trace": "get", "delete": "delete"}.get(
                given, "post"
            )
        else:
            given, grave, known = spoken.verb, spoken.tier, bool(spoken.verb)
            nouns = spoken.nouns if where == "tool" else tuple(dict.fromkeys(nouns + spoken.nouns))
        if not known:
            tier = max(tier, 1)  # it does something whose name says nothing
            verb = verb if name.sure and name.tier else ""
        elif not name.sure or verb in lex.GENERIC or grave >= tier:
            verb, tier, sure = given, grave, True
    sided = name._replace(head=spoken.head or name.head)
    head = spoken.head if where == "tool" else name.head or spoken.head
    name = name._replace(nouns=nouns, head=head)
    if tier == 1 or verb == "create":
        tier = 0 if _harmless(verb, name) else tier
    effect = "read" if tier == 0 else "write"
    lifted, why = _lift(verb, tier, name, _origin(where) if verb and verb != read_name(tool).verb else "", sure=sure)
    settles = bool(verb) and verb not in lex.REPEATS
    repeats = (
        effect == "write"
        and verb in lex.REPEATS
        and not (name.head in lex.HARMLESS_TWICE and verb in ("create", "add", "make"))
    )
    leaves_open = not sure or bool(name.rival) or not name.firm or name.verb in lex.TRIES or name.verb in lex.BRINGS
    side = opposites.stance(verb, sided)
    apart = targets.stands_apart(name)
    runs = not sure or verb in lex.GENERIC or not lex.EXECUTOR_WORDS.isdisjoint(name.words)
    return Look(
        name, verb, lifted, effect, repeats, settles, side, verb in lex.WHOLE, sure, leaves_open, apart, runs, why
    )


def _harmless(verb: str, name: Name) -> bool:
    """Tells whether what a verb makes is no more than an answer: an embedding, a screenshot, an id looked up."""
    if verb in ("create", "generate", "make", "compute", "produce", "predict"):
        answers = lex.TOLD if verb == "generate" else lex.COMPUTED
        return name.head in answers and lex.KEPT.isdisjoint(name.nouns)
    if verb in ("capture", "take"):
        return not lex.PICTURES.isdisjoint(name.nouns)
    if verb == "plan":
        return not lex.MACHINES.isdisjoint(name.words)  # what an ``apply`` would change
    return verb == "resolve" and name.words[-1] in lex.FOUND_BY_NAME


def _origin(where: str) -> str:
    """Says where a verb was found that is not in the tool's name."""
    if where == "tool":
        return " of the tool that it calls"
    return f' in its param "{where}"' if where else ""


def _lift(verb: str, tier: int, name: Name, origin: str = "", *, sure: bool) -> tuple[int, tuple[str, ...]]:
    """Return the tier that verb and nouns make together, with the reason; ``origin`` says where the verb was found."""
    said = f'judged by the verb "{verb}"{origin}'
    if tier == 0:
        return 0, (f"{said}: it only looks",)
    if not sure:
        return max(tier, 1), ("its name has no verb that is known: taken for a write",)
    lifted, what = _about(verb, tier, name)
    return lifted, (f"{said} and what it is about: {what}" if what else said,)


def _about(verb: str, tier: int, name: Name) -> tuple[int, str]:
    """Return the tier of a write by what it is about, and what that is (``""``: the verb's own)."""
    nouns, head = {*name.nouns, *name.words}, name.head
    if "draft" in nouns and verb not in ("send", "publish", "submit", *lex.DESTROYS):
        return 1, "a draft"
    if verb == "merge" and nouns & lex.SHEETS:
        return 1, "parts of a document"
    if verb == "checkout" and nouns & {"cart", "basket", "bag"}:
        return 4, "money"
    nouns = set(name.nouns) | ({"api", "key"} & nouns if {"api", "key"} <= nouns else set())
    found, what = gravity.judge(verb, tier, nouns, head, name.place)
    if verb in lex.REMOVES and name.place and what in ("data", "lasting", "machine", "") and name.place != head:
        return (2, maps.CLASS_NAMES["out"]) if what else (tier, "")
    least, why = 0, ""
    if nouns & lex.MAILS and verb in lex.SENDS:
        least, why = 3, "mail"
    elif head == "call" and verb in ("make", "start", "initiate", "create", "begin"):
        least, why = 3, "a call"
    elif verb in ("reply", "respond") and "thread" in nouns:
        least, why = 3, "a thread"
    if least > found:
        return least, why
    raised = found == 4 or found != lex.VERBS.get(verb, (0, 0))[0]
    return found, maps.CLASS_NAMES.get(what, "") if raised else ""


def judge(call: Call, params: Mapping[str, Any], shape: Shape) -> Judgement:
    """Return what a call is taken for that no rule names. Never tier 0 without a sign of harmlessness."""
    if shape.wrapped:
        params = opaque.unwrap(params)
        shape = shapes.of(params)
    seen = look(call.tool, params, shape)
    told = described.properties(call.schema) if call.schema else {}
    name = seen.name
    if seen.open:
        seen = _settled(call, params, told, seen)
    statement = None
    if shape.spoken:
        seen, statement = _stated(params, seen)
    apart: tuple[Key, ...] | None = None
    if seen.apart or call.tool.startswith(checkout.SERVER):
        seen, apart = _standing(call, params, seen)
    seen = modes.running(call, params, seen) if seen.runs and seen.tier < 4 else seen
    tier, effect, why, verb = seen.tier, seen.effect, seen.why, seen.verb
    if (
        0 < tier < 4
        and (told or shape.money.amount)
        and money.moves(shape.money, shapes.of(told).money if told else None, name, verb)
    ):
        tier, why = 4, (*why, "money moves: an amount and who gets it")
    touched: tuple[Key, ...] = ()
    way = effect
    if tier == 0:
        if call.annotations and _changes(call.annotations):
            tier, effect, way, why = 1, "write", "write", (*why, "but its author's hints say that it changes something")
        else:
            besides, touched = _besides(call, params, told, name, verb, shape)
            if besides:
                tier, effect, why = 1, "write", (*why, besides)
    elif tier < 4 and call.description and (final := _final(call, call.description, verb)):
        tier, why = 4, (*why, final)
    if statement is not None and statement.keys:
        keys: tuple[Key, ...] = sql.within(statement.keys, params)
        why = (*why, "its keys are the tables")
    else:
        keys = targets.derive(call, params, name, verb, tier, way, shape) if apart is None else apart
        if touched:
            keys = merge([*touched, *keys])[0]
        if tier == 2 and targets.says_in_thread(keys, name, verb):
            tier, why = 3, (*why, "a reply in a thread")
        why = (*why, targets.told(keys))
    return Judgement(tier, effect, keys, seen.repeats and effect == "write", seen.stance, holds(seen, params), why)


def _final(call: Call, description: str, verb: str) -> str:
    """Return why a call cannot be undone, by its description, ``""`` where that does not say so."""
    if not described.final(description):
        return ""
    if call.annotations and call.annotations.get("destructiveHint") is True:
        return "its author's hints and its description say that it cannot be undone"
    if verb in lex.REMOVES or verb in lex.DESTROYS:
        return "its description says that what is removed is gone for good"
    return ""


def _stated(params: Mapping[str, Any], seen: Look) -> tuple[Look, sql.Statement | None]:
    """Return a look at a call with what its SQL, its GraphQL or its pipeline says, and the statement if it is SQL."""
    spoken = seen.name.words
    plain = not seen.sure or seen.verb in lex.GENERIC or seen.verb in ("query", "select")
    statement = sql.statement(params, loosely=plain or not lex.DATABASE_NOUNS.isdisjoint(spoken))
    if statement is not None:
        if plain or statement.tier > seen.tier:
            seen = seen._replace(
                verb=statement.verb,
                tier=statement.tier,
                effect="write" if statement.tier else "read",
                why=(f'judged by its SQL: "{statement.verb}"{statement.how}',),
            )
    elif (found := opaque.graphql(params, named=not lex.GRAPHQL_WORDS.isdisjoint(spoken))) is not None:
        seen = _operation(seen, found)
    elif seen.tier == 0 and (stage := opaque.stored(params)):
        seen = seen._replace(
            tier=3 if stage == "$out" else 1,
            effect="write",
            why=(f"its pipeline ends in {stage}: the result is stored",),
        )
    return seen, statement


def _standing(call: Call, params: Mapping[str, Any], seen: Look) -> tuple[Look, tuple[Key, ...] | None]:
    """Return the look of a tool that may stand for a git command or change only its session, and its keys."""
    found = checkout.judge(call, params, seen.name)
    if found is None:
        return seen, targets.alone(seen.name)
    line, decides = found
    if decides:
        seen = seen._replace(tier=line.tier, effect=line.effect, why=(f"judged as the git command: {line.why[0]}",))
    return seen, targets.alone(seen.name) if line.keys == () else line.keys


def _changes(hints: Mapping[str, Any]) -> bool:
    """Tells whether MCP hints say that a tool changes something."""
    only = hints.get("readOnlyHint")
    return only is False or (only is None and hints.get("destructiveHint") is True)


def _besides(
    call: Call, params: Mapping[str, Any], told: Mapping[str, Any], name: Name, verb: str, shape: Shape
) -> tuple[str, tuple[Key, ...]]:
    """Return what a look does besides looking, ``""`` if nothing shows, and the keys of what it changes by that."""
    if call.description:
        if described.acts_besides(call.description):
            return "but its description tells of something that it does as well", many.touched(name)
    elif "unread" in name.words and not lex.MESSAGES.isdisjoint(name.nouns):
        return "but what is unread may count as read afterwards", many.touched(name)
    where = described.outputs(name, params) if shape.leaving else []
    if where or (told and not params and described.outputs(name, told)):
        left = [Key(one) for path in where for one in spell("file:", path, call.cwd)]
        return "but it can leave a file where its params say", tuple(left)
    if verb in lex.HTTP_REQUEST_WORDS and any(params.get(one) for one in ("body", "data", "json", "payload")):
        return "but it sends something", ()
    return "", ()


def _settled(call: Call, params: Mapping[str, Any], told: Mapping[str, Any], seen: Look) -> Look:
    """Return a look at a tool whose name leaves its verb open: with the one the description tells, if any."""
    lead = described.settled(seen.name, call.description)
    if lead:
        known = _described(call.tool if len(call.tool) <= 256 else call.tool[:256], lead)
        if not (seen.sure and not seen.name.sure and seen.verb != seen.name.verb):
            return known  # unless an argument named the act
    if seen.verb in lex.BRINGS and not described.keeps(seen.name, call.description, params or told):
        return seen._replace(
            tier=0,
            effect="read",
            repeats=False,
            why=(f'judged by the verb "{seen.verb}" and its description: what it brings is its answer',),
        )
    if not seen.sure and _converts(seen.name.words, params or _typed(told)):
        return seen._replace(
            tier=0,
            effect="read",
            repeats=False,
            why=("its name and its numbers are those of a conversion: it only looks",),
        )
    return seen


def _operation(seen: Look, found: opaque.Operation) -> Look:
    """Return a look at a call of GraphQL: a mutation does what its first field is called, anything else only looks."""
    if found.kind != "mutation":
        if seen.sure and seen.verb not in lex.GENERIC and seen.tier:
            return seen
        return seen._replace(
            verb="get", tier=0, effect="read", repeats=False, why=(f"a GraphQL {found.kind}: it only looks",)
        )
    gravest = max((_look(field, "", "") for field in found.fields), key=lambda one: one.tier, default=seen)
    known = gravest if gravest.tier >= seen.tier else seen
    said = ", ".join(f'"{field}"' for field in found.fields[:3]) or "of what is not read"
    return known._replace(tier=max(1, known.tier), effect="write", why=(f"a GraphQL mutation: {said}",))


@lru_cache(maxsize=1024)
def _described(tool: str, verb: str) -> Look:
    """Return a look at a tool with the verb that its description begins with."""
    name = read_name(tool)
    tier = lex.VERBS.get(verb, (0, 0))[0]
    lifted, why = _lift(verb, tier, name, sure=True)
    told = tuple([one.replace("judged by the", "judged by its description, which amounts to the") for one in why])
    side, again = opposites.stance(verb, name), verb in lex.REPEATS
    effect, apart = "read" if tier == 0 else "write", targets.stands_apart(name)
    return Look(
        name,
        verb,
        lifted,
        effect,
        again and tier > 0,
        not again,
        side,
        False,
        True,
        False,
        apart,
        not lex.EXECUTOR_WORDS.isdisjoint(name.words),
        told,
    )


def _typed(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a number for each param that a schema says is one, and text for the others."""
    return {
        name: 0 if isinstance(one, Mapping) and one.get("type") in ("number", "integer", "float") else ""
        for name, one in islice(told.items(), 8)
        if isinstance(name, str)
    }


def _converts(spoken: tuple[str, ...], params: Mapping[str, Any]) -> bool:
    """Tells whether a name like ``gallon_to_liter`` with nothing but numbers is a calculation."""
    return (
        len(spoken) >= 3
        and "to" in spoken[1:-1]
        and bool(params)
        and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in params.values())
        and not any(name.lower().endswith(("id", "number", "account")) for name in params)
    )


__all__ = ["Judgement", "Look", "judge", "look", "words"]
