"""What the names of a call's params say before any value is looked at.

A tool is called with the same few sets of names again and again, so what can be told from the names
alone is worked out once for each set: which of them hold an id, a path or an address, which the gate
guards itself against, and which kinds of reading are worth trying at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from callosum.redact.secret_names import Concealment, cover
from callosum.rules import acts, command, described, money, normal, opaque, opposites, targets
from callosum.rules import lexicon as lex
from callosum.rules.arguments import Role, roles
from callosum.rules.guard import guarded
from callosum.rules.lexicon import lists

MOST: Final = 2048
"""How many sets of names are kept."""
_FEW: Final = 64
_LONGEST: Final = 1024
"""How many characters the names of a set have at most that is kept."""
_TELLING: Final = opposites.ANSWERING | acts.NAMING | {"name"}
_SPOKEN: Final = frozenset(lists.SQL_PARAMS) | opaque.DOCUMENTED | opaque.PIPELINED
_STORED: Final = frozenset(name for names in targets.STORES.values() for name in names)
_COMMANDS: Final = frozenset(lists.COMMAND_PARAMS)
_TITLED: Final = frozenset(lists.TITLES)


class Shape:
    """A set of params' names.

    ``roles``: what each holds that may name something; ``guarded``: those at which the guard looks,
    ``commands`` and ``programs``: those that may hold command lines and program text; ``lines``: those that
    may be the command line, where there is more than one way to read them.
    The others tell whether a param is there that wraps the others (``wrapped``), may say what is done
    (``telling``), names a tool that is called (``calling``), holds a statement of a language (``spoken``), speaks for
    the agent itself (``agent``), names a table (``stored``), a title (``titled``), where a file is left (``leaving``),
    a secret (``secret``), or an amount, an account it can go to and somebody who gets it (``money``).
    ``aims``: those that may hold a command or name a target.
    ``said``: all of them say what the call does. ``composed``: one may hold a text of which keys are parts.
    """

    __slots__ = (
        "agent", "aims", "calling", "commands", "composed", "guarded", "leaving", "lines", "money", "programs", "roles",
        "said", "secret", "spoken", "stored", "telling", "titled", "wrapped",
    )  # fmt: skip

    def __init__(self, names: tuple[Any, ...], looked_at: tuple[Any, ...]) -> None:
        """``looked_at`` are those of the names that the guard must look at."""
        self.roles: tuple[Role, ...] = roles(names)
        self.guarded, self.commands, self.programs = guarded(looked_at)
        given = set(names)
        lines, folders = command.lines(names), given.intersection(lists.COMMAND_FOLDER_PARAMS)
        self.lines = lines if lines and (len(lines) > 1 or len(folders) > 1 or lines[0] not in _COMMANDS) else ()
        aims = {name for name, role, entity in self.roles if role or entity}
        aims.update(lines, folders, given & lex.COMMAND_EXTRA_PARAMS, self.commands, dict(self.guarded))
        self.aims = frozenset(aims)
        self.wrapped = not lex.WRAPPER_PARAMS.isdisjoint(given)
        self.calling = (
            not (acts.CALLEES.isdisjoint(given) or given.isdisjoint(lists.CALLEE_ARGUMENT_PARAMS))
            or not lex.BATCH_PARAMS.isdisjoint(given)
            or not given.isdisjoint(lists.CALL_HOLDER_PARAMS)
        )
        self.telling = not _TELLING.isdisjoint(given)
        self.spoken = not _SPOKEN.isdisjoint(given)
        self.composed = self.spoken or self.wrapped or not _COMMANDS.isdisjoint(given)
        self.agent = not lex.AGENT_PARAMS.isdisjoint(given)
        self.stored = not _STORED.isdisjoint(given)
        self.titled = not _TITLED.isdisjoint(given)
        self.leaving = not described.LEFT.isdisjoint(given)
        self.money: money.Money = money.of(names)
        self.said = normal.said(names)
        # True asks for a look at the values, which is bounded; so many names are not looked at one by one.
        self.secret = len(names) > _MOST or any(
            isinstance(name, str) and cover(name) is not Concealment.NOTHING for name in names
        )


_MOST: Final = 256
"""Most names of params that are asked whether they name a secret."""
_KNOWN: Final[dict[tuple[Any, ...], Shape]] = {}


def of(params: Mapping[str, Any]) -> Shape:
    """Return the shape of a call's params. Bounded: names come from agents."""
    names = tuple(params)
    if (known := _KNOWN.get(names)) is not None:
        return known
    if len(names) > _FEW:  # for this call alone: a number is neither a path nor a command
        return Shape(names, tuple([name for name, value in params.items() if type(value) is not int]))
    made = Shape(names, names)
    if sum(len(item) if isinstance(item, str) else _LONGEST for item in names) < _LONGEST:
        if len(_KNOWN) >= MOST:
            _KNOWN.clear()
        _KNOWN[names] = made
    return made
