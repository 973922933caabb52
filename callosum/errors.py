"""The errors Callosum raises.

::

    CallosumError
    ├── ConfigError        rules, settings or input that cannot be used; names the place
    ├── StoreError         the store refuses: a foreign file, another schema, a broken contract
    │   └── StoreUnavailable   the store cannot be reached or written just now; trying again may help
    │       └── Unconfirmed    it was written, but nobody knows whether it survives; ``id`` if it may be in force
    │       └── StoreChanged   the store was replaced or lost acknowledged entries; a person must accept it
    ├── GateUnavailable    the gate cannot answer, and this call may not run without it
    ├── NotAPerson         only a person may do this, and an agent's host started the process
    ├── Expired            the client no longer waited when its request was to be decided; nothing is open
    └── Blocked            a decision that says no, raised by ``guard()`` only

A verdict is a value: ``Gate.intercept`` returns it and raises only when the gate itself failed.
Driver errors stay in ``__cause__``.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callosum.model import Applied, Decision


class CallosumError(Exception):
    """Base of all errors that Callosum raises on purpose. They can be pickled and copied.

    ``retryable`` says that the same call may succeed later although nobody has done anything; nothing was opened for
    it. ``retry_after`` is then the number of seconds after which trying makes sense, if that is known.
    """

    retryable: bool = False
    retry_after: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Restore the error from its text and its attributes, not by its constructor's arguments."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class ConfigError(CallosumError):
    """Rules, settings or input cannot be used.

    ``at`` names the place (``rules[3].tier``, ``params``, a file name); ``str()`` puts it in front.
    """

    def __init__(self, message: str, at: str = "") -> None:
        super().__init__(f"{at}: {message}" if at else message)
        self.at = at
        self.message = message


class StoreError(CallosumError):
    """The store refuses to work with the data it found; the text says what to do."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or written now (busy past the deadline, full disk, read-only)."""

    retryable = True


class Unconfirmed(StoreUnavailable):
    """A change was sent to the store, which could not confirm that the change is durable. This is not a decision.

    ``id`` names the decision that may be in force; None if it was withdrawn, so that nothing is open. ``answers`` are
    the replies that the requests of the batch would have got. ``reachable`` is False if the store did not respond at
    all, so that nothing can be withdrawn either.
    """

    retryable = False

    def __init__(
        self,
        message: str,
        answers: Sequence[Applied | Exception] = (),
        *,
        id: int | None = None,
        reachable: bool = True,
    ) -> None:
        super().__init__(message)
        self.answers = answers
        self.id = id
        self.reachable = reachable

    def of(self, answer: Applied | Exception) -> Unconfirmed:
        """Return the same error for one request of the batch."""
        one = Unconfirmed(str(self), (answer,), reachable=self.reachable)
        one.__cause__ = self.__cause__
        return one


class StoreChanged(StoreUnavailable):
    """The store was replaced or lost acknowledged entries; tiers 3 and 4 are refused until a person accepts it."""

    retryable = False


class Expired(CallosumError):
    """The client had stopped waiting before its request was decided. Nothing was opened."""

    retryable = True


class GateUnavailable(CallosumError):
    """The gate is unreachable, and the call's tier is too high to run without it."""

    retryable = True


class NotAPerson(CallosumError):
    """Only a person may do this, and no person is proven; the text says why."""


class Blocked(CallosumError, RuntimeError):
    """A gated call may not run now. ``decision`` says why; ``str()`` is the sentence for the agent.

    A ``RuntimeError``, which retry policies leave alone: repeating the call at once ends in the same answer.
    """

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.warning or f"[Callosum] {decision.verdict}")
        self.decision = decision
        self.retryable = decision.retryable
        self.retry_after = decision.retry_after


class Repeated(Blocked):
    """A call id was repeated although its action has ended: nothing runs twice under one id.

    ``decision.state`` says how the action ended: ``done``, or ``unknown`` if nobody knows whether it happened.
    """
