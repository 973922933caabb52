"""``callosum stdio``: the gate for a host that starts a child, JSON-RPC on standard input and output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callosum.cli.options import Config, Namespace, State, settings_of

if TYPE_CHECKING:
    from types import FrameType

    from callosum.stores.base import Store


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
    from callosum.stdio import LocalRecords, Pipes, serve

    logging.basicConfig(format="callosum: %(message)s")
    out = os.dup(1)
    os.dup2(2, 1)  # whatever else prints, the answers stay alone
    settings = settings_of(state, namespace, config)
    gate = LocalGate(settings=settings)
    if approver:
        _refuse_agents(gate.store)
    channel = Pipes(0, out)

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)  # who asks twice is not kept waiting
        channel.stop()

    signal.signal(signal.SIGTERM, stop)
    if serve(gate, LocalRecords(gate), channel, approver=approver, namespace=settings.namespace):
        gate.close()


def _refuse_agents(store: Store) -> None:
    """Raises ``NotAPerson`` where an agent's host is at the other end. There is no terminal to ask for here."""
    import os

    from callosum.cli.codes import NotAPerson
    from callosum.cli.person import holder_of, host_name, mark_of_a_host
    from callosum.process import ancestors

    what = "only a person's own program may be given --approver"
    mark = mark_of_a_host(os.environ)
    if mark is not None:
        raise NotAPerson(f"{what}: {mark} is set, so an agent's host started this process")
    above = ancestors(os.getpid())
    host = next((name for one in above if (name := host_name(one.pid))), None)
    if host is not None:
        raise NotAPerson(f"{what}: this process descends from {host}")
    holder = holder_of(above, store)
    if holder is not None:
        raise NotAPerson(f"{what}: this process descends from process {holder}, which runs gated calls")
