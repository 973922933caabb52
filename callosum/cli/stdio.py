"""``callosum stdio``: the gate for a host that starts a child, JSON-RPC on standard input and output."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING, Annotated

from callosum.cli.options import InNamespace, flag
from callosum.loopback import is_near
from callosum.person import refuse_agents

if TYPE_CHECKING:
    from types import FrameType


def stdio(
    settings: InNamespace,
    approver: Annotated[
        bool, flag("--approver", "For a person's own program: also accept approve, deny and forced release.")
    ] = False,
) -> None:
    """Answer JSON-RPC 2.0 on standard input and output, one message per line, until the input ends."""
    from callosum.gate import LocalGate
    from callosum.stdio import Pipes, briefs_of, serve

    logging.basicConfig(format="callosum: %(message)s")
    out = os.dup(1)
    os.dup2(2, 1)  # whatever else prints, only answers go to standard output
    gate = LocalGate(settings=settings)
    gate.here = is_near(os.getppid())  # a container's or a remote shell's parent has other files
    if approver:
        refuse_agents(
            gate.store, "only a person's own program may be given --approver"
        )  # there is no terminal to ask at here
    channel = Pipes(0, out)

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second signal ends the process at once
        channel.stop()

    signal.signal(signal.SIGTERM, stop)
    if serve(gate, briefs_of(gate), channel, approver=approver, namespace=settings.namespace):
        gate.close()
