"""``callosum brief``: what a host puts into a session's context."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from callosum.cli import show
from callosum.cli.options import InNamespace, Json, exists, open_gate, option
from callosum.errors import ConfigError

_FLAGS: Final = frozenset({"instance", "session", "namespace", "key", "cwd", "prompt", "budget"})


def brief(
    settings: InNamespace,
    instance: Annotated[
        str | None, option("--instance", "NAME", "Instance that gets the brief (default: the settings' instance).")
    ] = None,
    session: Annotated[str | None, option("--session", "NAME", "Session of the instance.")] = None,
    key: Annotated[
        list[str] | None,
        option("--key", "KEY", "Context key that matters in addition to those the session touched; may be repeated."),
    ] = None,
    cwd: Annotated[str | None, option("--cwd", "DIR", "The session's folder; files in it matter.")] = None,
    prompt: Annotated[str | None, option("--prompt", "TEXT", "The prompt; addresses and paths in it matter.")] = None,
    budget: Annotated[
        int | None, option("--budget", "N", "Maximum number of tokens (default: 600).", min=0, max=100_000)
    ] = None,
    json: Json = False,
) -> None:
    """Print the brief that a host adds to a session's context: what other sessions are doing and did recently.

    Prints nothing, with exit code 0, if there is nothing to say. If the budget
    has no room for it, standard error says so. A brief informs; it confirms
    nothing.
    """
    from callosum import wire
    from callosum.brief import Brief
    from callosum.stdio import briefs_of

    who = instance or settings.instance
    if who is None:
        raise ConfigError("whose brief? name it, or set `instance` in the settings", at="--instance")
    wanted = wire.ReadBrief(
        instance=who,
        session=session,
        namespace=settings.namespace,
        keys=tuple(key or ()),
        cwd=cwd,
        prompt=prompt,
        budget=budget,
    )
    made = Brief()
    if exists(settings):
        try:
            with open_gate(settings) as gate:
                made = briefs_of(gate)(wanted)
        except ConfigError as fault:
            raise ConfigError(fault.message, at=f"--{fault.at}" if fault.at in _FLAGS else fault.at) from None
    if json:
        show.json(made)
    elif made.text:
        sys.stdout.buffer.write(made.text.encode() + b"\n")
        sys.stdout.buffer.flush()
    elif made.trimmed:
        lines = "line" if made.trimmed == 1 else "lines"
        sys.stderr.write(f"callosum: {made.trimmed} {lines} did not fit the budget\n")
