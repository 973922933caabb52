"""``callosum doctor``: whether all is well, and what to do if it is not."""

from __future__ import annotations

import typer

from callosum.cli.codes import NO
from callosum.cli.options import Config, Json, Namespace, State, settings_of


def doctor(state: State = None, namespace: Namespace = None, config: Config = None, json: Json = False) -> None:
    """Look everything over without changing it; exit code 1 if something is wrong."""
    from rich.text import Text

    from callosum.cli import show
    from callosum.cli.health import examine

    settings = settings_of(state, namespace, config)
    findings = []
    for finding in examine(settings):
        findings.append(finding)
        if not json:
            mark, style = {"ok": ("✓", "green"), "advice": ("•", "yellow"), "wrong": ("✗", "red")}[finding.level]
            head = show.cell(f"{mark} ", style)
            head.append(f" {finding.check:<13}", "bold").append_text(show.cell(finding.says, limit=400))
            show.console().print(head, soft_wrap=True)
            if finding.advice:
                show.console().print(Text(" " * 15).append_text(show.cell(finding.advice, "dim", 400)), soft_wrap=True)
    wrong = sum(finding.level == "wrong" for finding in findings)
    if json:
        show.json({"ok": not wrong, "findings": findings})
    else:
        show.line()
        show.line(
            f"{wrong} things are wrong." if wrong > 1 else "One thing is wrong." if wrong else "All is well.", "bold"
        )
    if wrong:
        raise typer.Exit(NO)
