"""``callosum hook``: what a host with command hooks calls, where it is not the script itself."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from callosum.cli.options import Config, Namespace, State, settings_of

Host = Annotated[str, typer.Argument(metavar="HOST", help="claude-code, codex or gemini.")]


def hook(host: Host, state: State = None, namespace: Namespace = None, config: Config = None) -> None:
    """Answer one hook event of a host: its JSON on standard input, the answer on standard output.

    Hosts are set up to call the script in the state folder, which starts faster; this writes it anew and becomes it.
    """
    from callosum.hosts import files, remote
    from callosum.hosts.adapters import adapter_of
    from callosum.hosts.script import script_of, script_path

    adapter = adapter_of(host)
    settings = settings_of(state, namespace, config)
    server = remote.load(settings.state, adapter.name)
    own = adapter.name if server is not None else ""
    path, text = script_path(settings, own), script_of(settings, server, own)
    if not path.is_file() or path.read_text("utf-8") != text:
        files.write(path, text.encode(), 0o700)
    os.execv("/bin/sh", ["sh", str(path), adapter.name])  # noqa: S606 - no word of the payload is in it
