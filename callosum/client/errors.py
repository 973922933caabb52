"""Say why a request got no usable response.

::

    TransportError
    ├── Unreachable        no connection, or it was lost before the response began
    ├── DeadlineExceeded   the deadline passed
    └── BadResponse        the response is not HTTP, is cut off or too long, or is not one a gate sends
        └── GateBusy       the gate is overloaded and did nothing

``sent`` says whether the gate may have received the request anyway. If so, only a request that may safely be carried
out twice may be sent again. These exceptions stay inside the client: its callers get those of ``callosum.errors``, with
one of these as the cause.
"""

from __future__ import annotations


class TransportError(Exception):
    """Base of failures between a client and a gate."""

    def __init__(self, message: str, *, sent: bool = True, absent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.absent = absent


class Unreachable(TransportError):
    """No connection, or it was lost before the response began.

    ``absent``: nothing listens at the address (the port refuses connections or the socket file does not exist).
    """


class DeadlineExceeded(TransportError):
    """The deadline passed."""


class BadResponse(TransportError):
    """The response is not one that a gate sends."""


class GateBusy(BadResponse):
    """The gate is overloaded and did nothing."""
