"""``callosum doctor``: check that everything works, and say what to do if something does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import typer

from callosum.cli import show
from callosum.cli.options import InNamespace, Json
from callosum.errors import CallosumError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callosum.hosts.checkup.finding import Finding
    from callosum.settings import Settings

_TAKEN: Final = 5.0
"""Seconds within which a running server must say what is wrong."""
_POLL: Final = 0.05
_MARKS: Final = {"ok": ("✓", "green"), "advice": ("•", "yellow"), "wrong": ("✗", "red")}
_WIDTH: Final = 24


def doctor(settings: InNamespace, json: Json = False) -> bool:
    """Check everything without changing it; exit code 1 if something is wrong.

    A call that must be refused is sent through each host's entry, so the
    journal has it. A host that does not ask the gate is also reported as the
    event health.critical.
    """
    from rich.text import Text

    from callosum.cli.health import examine

    findings = []
    for finding in examine(settings):
        findings.append(finding)
        if json:
            continue
        mark, style = _MARKS[finding.level]
        head = show.cell(f"{mark} ", style)
        head.append(f" {finding.check:<{_WIDTH - 1}} ", "bold").append_text(show.cell(finding.says, limit=1200))
        show.console().print(head, soft_wrap=True)
        if finding.advice:
            head = Text(" " * (_WIDTH + 2))
            show.console().print(head.append_text(show.cell(finding.advice, "dim", 400)), soft_wrap=True)
    wrong = sum(finding.level == "wrong" for finding in findings)
    asks = any(finding.check.endswith(" entries") and finding.level == "ok" for finding in findings)
    lost = next((finding.says.partition(":")[0] for finding in findings if finding.check == "unknown"), "")
    _tell(settings, [finding for finding in findings if finding.level == "wrong" and finding.host])
    if json:
        show.json({"ok": not wrong, "findings": findings})
    else:
        end = (
            "Nothing is wrong, but no host asks the gate: callosum install HOST. (Programs that embed it are not seen.)"
        )
        if wrong:
            end = f"{wrong} things are wrong." if wrong > 1 else "One thing is wrong."
        elif lost:
            end = f"No check failed, but {lost}."
        elif asks:
            end = "All is well."
        show.line()
        show.line(end, "bold")
    return not wrong


def _tell(settings: Settings, wrong: Sequence[Finding]) -> None:
    """Report what is wrong with hosts to the corpus of a running server, otherwise to that of this process."""
    from callosum.corpus.bus import Corpus
    from callosum.corpus.daily_log import FOLDER, DailyLog
    from callosum.hosts.checkup import report
    from callosum.server.listeners import running

    if not wrong:
        return
    try:
        report.leave(settings.state, wrong, settings.namespace)
    except CallosumError as error:
        typer.echo(f"health.critical could not be told: {error}", err=True)
        return
    ends = time.monotonic() + (_TAKEN if running(settings.state) else 0)
    while report.waits(settings.state) and time.monotonic() < ends:
        time.sleep(_POLL)
    events = report.take(settings.state)
    if events and settings.corpus_log:
        with Corpus() as corpus, DailyLog(corpus, settings.state / FOLDER, size=settings.corpus_size):
            for event in events:
                corpus.emit(event)
