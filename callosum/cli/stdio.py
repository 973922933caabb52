"""``callosum stdio``: the gate for a host that starts a child, JSON-RPC on standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callosum.cli.options import Config, Namespace, State, settings_of

if TYPE_CHECKING:
    from types import FrameType


def stdio(
    approver: Annotated[
        bool,
        typer.Option("--approver", help="For a person's own program: take approve, deny and forced release too."),
    ] = False,
    state: State = None,
    namespace: Namespace = None,
    config: Config = None,
) -> None:
    """Answer JSON-RPC 2.0 on standard input and output, one message a line, until the input ends."""
    import logging
    import os
    import signal

    from callosum.gate import LocalGate
    from callosum.stdio import Pipes, briefs_of, serve

    logging.basicConfig(format="callosum: %(message)s")
    out = os.dup(1)
    os.dup2(2, 1)  # whatever else prints, the answers stay alone
    settings = settings_of(state, namespace, config)
    gate = LocalGate(settings=settings)
    if approver:
        from callosum.person import refuse_agents

        refuse_agents(gate.store, "only a person's own program may be given --approver")  # no terminal to ask for here
    channel = Pipes(0, out)

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # who asks twice is not kept waiting
        channel.stop()

    signal.signal(signal.SIGTERM, stop)
    if serve(gate, briefs_of(gate), channel, approver=approver, namespace=settings.namespace):
        gate.close()
