"""``callosum hook``: the hook of hosts with command hooks, for entries that call this command."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from callosum.cli.options import InNamespace, one_of
from callosum.programs import WITH_HOOKS

Host = Annotated[str, typer.Argument(metavar="HOST", help=f"{one_of(WITH_HOOKS)}.")]


def hook(settings: InNamespace, host: Host) -> None:
    """Answer one hook event of a host: its JSON on standard input, the answer on standard output.

    Hosts are set up to call the hook in the state folder, which starts faster.
    This command writes that hook again and becomes it.
    """
    from callosum.hosts import remote
    from callosum.hosts.adapters import adapter_of
    from callosum.hosts.install import write_hook
    from callosum.hosts.script import hook_of

    adapter = adapter_of(host)
    server = remote.load(settings.state, adapter.name)
    found = hook_of(settings, server, adapter.name if server is not None else "")
    if not found.is_written:
        write_hook(found)
    words = [str(found.path)] if found.native else ["/bin/sh", str(found.path)]
    os.execv(words[0], [*words, adapter.name])  # noqa: S606 - no word of the payload is in it
