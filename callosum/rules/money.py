"""Whether money moves: an amount and who gets it, whatever the tool is called."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from callosum.rules.name import Name

_AMOUNT: Final = frozenset(
    "amount amountcents sum totalamount valueincents amounttopay transferamount paymentamount".split()
)
_PAYEE: Final = frozenset("recipient payee to iban beneficiary destination toaccount recipientiban receiver".split())
_ACCOUNT: Final = frozenset(
    "iban recipientiban payee beneficiary beneficiaryaccount toaccount toaccountid accountto destinationaccount "
    "destinationaccountid toiban creditor cardnumber paymentmethod paymentmethodid paymentsource bankaccount "
    "bankaccountid walletaddress towallet creditcard routingnumber sortcode".split()
)
_VERBS: Final = frozenset(
    "transfer send schedule make create update initiate issue submit settle process execute".split()
)
_MOST: Final = 64
_LONG: Final = 64


class Money(NamedTuple):
    """Whether there is an amount among the names of params, an account it can go to, somebody who gets it."""

    amount: bool
    account: bool
    payee: bool


def of(names: Iterable[Any]) -> Money:
    """Return what the names of params say of money."""
    few = [one for one in islice(names, _MOST) if isinstance(one, str) and len(one) <= _LONG]
    found = [one.lower().replace("_", "").replace("-", "") for one in few]
    return Money(not _AMOUNT.isdisjoint(found), not _ACCOUNT.isdisjoint(found), not _PAYEE.isdisjoint(found))


def moves(given: Money, told: Money | None, name: Name, verb: str) -> bool:
    """Tells whether a write moves money, by the names of its params and of the schema's (``told``)."""
    amount, account, payee = given
    if told is not None:
        amount, account, payee = amount or told[0], account or told[1], payee or told[2]
    if not amount:
        return False
    return account or "transaction" in name.nouns or (payee and verb in _VERBS)
