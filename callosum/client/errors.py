"""Why a request came back without an answer.

::

    TransportError
    ├── Unreachable   no connection, or it was lost before the answer began
    ├── DeadlineExceeded       the deadline passed
    └── BadResponse     what came is not HTTP, is cut off, is too long, or is not what a gate says
        └── Busy      the gate has more to do than it can, and did nothing

``sent`` tells whether the gate may have got the request all the same: then only a request that may be carried
out twice may be sent again. These stay inside the client: its callers see ``callosum.errors``, with one of these
as the cause.
"""

from __future__ import annotations


class TransportError(Exception):
    """Base of what goes wrong between a client and a gate."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class Unreachable(TransportError):
    """No connection, or it was lost before the answer began.

    ``absent``: nobody listens at the address (the port refuses, the socket file is not there).
    """

    def __init__(self, message: str, *, sent: bool, absent: bool = False) -> None:
        super().__init__(message, sent=sent)
        self.absent = absent


class DeadlineExceeded(TransportError):
    """The deadline passed."""


class BadResponse(TransportError):
    """What came is no answer of a gate."""


class GateBusy(BadResponse):
    """The gate has more to do than it can, and did nothing."""
