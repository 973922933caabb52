"""Deadlines of requests: how a client states one, and how a gate finds that one has passed.

A client that gives up leaves its request behind: in a socket's buffer, in a queue, in a gate that was
stopped. A gate that decides such a request later opens an action that nobody will report. So a request
says how long its client waits, in two fields:

``deadline``   ``"<boot id>:<seconds on the boot clock>"``. It is valid on the machine with that boot id,
               however long the request was delayed. A gate on another machine ignores it.
``timeoutMs``  Milliseconds from the arrival of the request, for every other gate.

This module is imported by hook processes, so it stays light.
"""

from __future__ import annotations

from callosum.bootclock import boot_id, boot_now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

MAX_TIMEOUT_MS: Final = 86_400_000
"""Maximum ``timeoutMs``, in milliseconds: a day."""
PATTERN: Final = r"^[0-9A-Za-z-]*[0-9A-Za-z][0-9A-Za-z-]*:[0-9]+(\.[0-9]+)?$"
"""Pattern of a valid ``deadline``."""
LONGEST: Final = 128
"""Maximum length of a ``deadline``, in characters."""


def stamp(seconds: float) -> tuple[str | None, int]:
    """Return ``deadline`` and ``timeoutMs`` for a request whose client waits ``seconds`` from now.

    ``deadline`` is None if the system has no boot id.
    """
    boot = boot_id()
    milliseconds = min(max(int(seconds * 1000), 1), MAX_TIMEOUT_MS)
    return (f"{boot}:{boot_now() + seconds:.3f}" if boot else None), milliseconds


def expires_at(deadline: str | None, timeout_ms: int | None, arrived: float | None = None) -> float | None:
    """Return when a request expires, in seconds on the boot clock; None if it never does.

    ``arrived`` is the request's arrival on the boot clock (default: now).

    Raises:
        ConfigError: ``deadline`` or ``timeoutMs`` cannot be read; ``at`` names the field.
    """
    if timeout_ms is not None and not (type(timeout_ms) is int and 1 <= timeout_ms <= MAX_TIMEOUT_MS):
        raise _refused(f"expected 1 to {MAX_TIMEOUT_MS} milliseconds, got {timeout_ms!r}", "timeoutMs")
    if deadline is not None:
        boot, moment = _parse(deadline)
        if boot == boot_id():
            return moment
    if timeout_ms is None:
        return None
    return (boot_now() if arrived is None else arrived) + timeout_ms / 1000


def _parse(deadline: object) -> tuple[str, float]:
    if isinstance(deadline, str) and len(deadline) <= LONGEST and deadline.isascii():
        boot, _, written = deadline.rpartition(":")
        whole, dot, fraction = written.partition(".")
        if boot.replace("-", "").isalnum() and whole.isdigit() and (fraction.isdigit() if dot else True):
            return boot, float(written)
    raise _refused(f'expected "<boot id>:<seconds on the boot clock>", got {str(deadline)[:LONGEST]!r}', "deadline")


def _refused(message: str, at: str) -> Exception:
    from callosum.errors import ConfigError  # noqa: PLC0415 - loads typing, which a hook process must not wait for

    return ConfigError(message, at=at)


class Expiry:
    """Tells whether a request has expired: its deadline has passed, or its client has disconnected.

    ``ends`` is on the boot clock, None for a request without a deadline. ``disconnected`` checks the
    connection, None if there is none. ``now`` is for tests.
    """

    __slots__ = ("_disconnected", "_ends", "_now")

    def __init__(
        self,
        ends: float | None,
        disconnected: Callable[[], bool] | None = None,
        *,
        now: Callable[[], float] = boot_now,
    ) -> None:
        self._ends = ends
        self._disconnected = disconnected
        self._now = now

    def late(self) -> bool:
        """Return True if the deadline has passed. Once True, it stays so."""
        return self._ends is not None and self._now() > self._ends

    def within(self, seconds: float) -> bool:
        """Return True if the deadline passes within ``seconds``, or no client waits any more."""
        return (self._ends is not None and self._now() + seconds > self._ends) or self.passed()

    def passed(self) -> bool:
        """Return True if no client waits for the answer any more."""
        return self.late() or (self._disconnected is not None and self._disconnected())
