"""Whether money moves: an amount and who gets it, whatever the tool is called."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from callosum.rules import lexicon as lex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.rules.name import Name

_MOST: Final = 64
_LONG: Final = 64


class Money(NamedTuple):
    """Whether there is an amount among the names of params, an account it can go to, somebody who gets it."""

    amount: bool
    account: bool
    payee: bool


def of(names: Iterable[Any]) -> Money:
    """Return what the names of params say of money."""
    few = [name for name in islice(names, _MOST) if isinstance(name, str) and len(name) <= _LONG]
    found = [name.lower().replace("_", "").replace("-", "") for name in few]
    return Money(
        not lex.AMOUNT_PARAMS.isdisjoint(found),
        not lex.MONEY_ACCOUNT_PARAMS.isdisjoint(found),
        not lex.PAYEE_PARAMS.isdisjoint(found),
    )


def moves(given: Money, told: Money | None, name: Name, verb: str) -> bool:
    """Return True if a write moves money, by the names of its params and of the schema's (``told``)."""
    amount, account, payee = given
    if told is not None:
        amount, account, payee = amount or told[0], account or told[1], payee or told[2]
    if not amount:
        return False
    return account or "transaction" in name.nouns or (payee and verb in lex.MOVES_MONEY)
