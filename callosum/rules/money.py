"""Whether money moves: an amount and who gets it, whatever the tool is called."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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
_LONGEST: Final = 1024
"""How many characters of names are kept as they are."""


def moves(params: Mapping[str, Any], told: Mapping[str, Any], name: Name, verb: str) -> bool:
    """Tells whether a write moves money, by the names of its params and of the schema's (``told``)."""
    amount, account, payee = _shape(_names(params))
    if told:
        more = _shape(_names(told))
        amount, account, payee = amount or more[0], account or more[1], payee or more[2]
    if not amount:
        return False
    return account or "transaction" in name.nouns or (payee and verb in _VERBS)


def _names(params: Mapping[str, Any]) -> tuple[str, ...]:
    if len(params) <= _MOST:
        names = tuple(params)
        try:
            if len("".join(names)) <= _LONGEST:
                return names
        except TypeError:  # a name that is no text
            pass
    return tuple([one for one in islice(params, _MOST) if isinstance(one, str) and len(one) <= _LONG])


@lru_cache(maxsize=1024)
def _shape(names: tuple[str, ...]) -> tuple[bool, bool, bool]:
    """Whether there is an amount among the names, an account it can go to, somebody who gets it."""
    found = [one.lower().replace("_", "").replace("-", "") for one in names]
    return not _AMOUNT.isdisjoint(found), not _ACCOUNT.isdisjoint(found), not _PAYEE.isdisjoint(found)
