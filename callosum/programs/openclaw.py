"""OpenClaw, which loads a plugin in place of calling hooks."""

from __future__ import annotations

from callosum.programs.program import Program


class OpenClaw(Program):
    """The plugin (``callosum.hosts.openclaw``) says how it is set up and looked over."""

    name = "openclaw"
    title = "OpenClaw"
    program = "openclaw"
    also = ("openclaw-gateway", "clawdbot")
    scripts = ("openclaw",)
    package = "openclaw"
    variables = ("OPENCLAW_",)
    profile = frozenset(("OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH"))

    folder = ".openclaw"
    file = "openclaw.json"
    guards = ("openclaw.json",)

    shell = "exec"

    known = "id"

    then = ("A gateway that runs takes the plugin in by itself within seconds; `openclaw plugins list` shows it.",)
    elsewhere = 'the plugin asks a server by its own config: "mode": "remote", "url", "token" (see its README)'
    checks = "callosum.hosts.openclaw.inspection:OpenClawInspection"
    site = "callosum.hosts.openclaw.install:site"


HOST = OpenClaw()
