"""Describe OpenClaw, which loads a plugin instead of calling hooks."""

from __future__ import annotations

from callosum.programs.program import Program


class OpenClaw(Program):
    """Describe OpenClaw. ``callosum.hosts.openclaw`` sets up and inspects its plugin."""

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

    then = ("A running gateway loads the plugin by itself within seconds; `openclaw plugins list` shows it.",)
    elsewhere = 'set the server in the config of the plugin: "mode": "remote", "url", "token" (see its README)'
    checks = "callosum.hosts.openclaw.inspection:OpenClawInspection"
    site = "callosum.hosts.openclaw.install:site"


HOST = OpenClaw()
