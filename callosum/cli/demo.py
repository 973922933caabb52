"""``callosum demo``: run the same hour of an agent without the gate and with it."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from callosum.cli import show
from callosum.cli.options import Json, flag, option, settings_of
from callosum.errors import ConfigError

if TYPE_CHECKING:
    from types import FrameType

    from callosum.cli.demo_run.runner import DemoNotice, DemoResult

_KINDS = {"thread": "recent", "meeting": "opposed", "file": "stale", "crash": "unknown"}
"""The conflict that a session must have been notified of in each scene."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()))


def demo(
    state: Annotated[Path | None, option("--state", "DIR", "Keep the gate's state in this new folder.")] = None,
    console: Annotated[bool, flag("--console", "Afterwards open the console on what happened, until Ctrl-C.")] = False,
    json: Json = False,
) -> bool:
    """Run one agent's sessions as real processes, without the gate and with it (some seconds).

    They send real mails to a server on the loopback, answer a meeting, edit a
    file, and one is killed. Exit code 1 unless the gate kept everything right.
    Nothing is left behind.
    """
    import tempfile

    _check(state)
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="callosum-demo-") as made:
        folder = Path(made)
        kept = state or folder / "state"
        without, gated = _play(folder, kept, quiet=json)
        took = time.monotonic() - began
        told_right = len(gated.told) == len(_KINDS) and all(_KINDS[one.scene] in one.kinds for one in gated.told)
        right = gated.right and told_right
        if json:
            show.json({"right": right, "seconds": round(took, 2), "without": without, "with": gated})
        else:
            _report(without, gated, took, right=right)
        if console:
            _show_console(kept.absolute())
    return right


def _show_console(state: Path) -> None:
    """Open the console on the demo's data. The server it needs ends with it, also one that does not listen yet."""
    from callosum.cli.console import keep_open
    from callosum.cli.serve import end
    from callosum.client import local

    settings = settings_of(state, project=False)
    try:
        keep_open(settings)
    finally:
        end(settings)
        local.kill_started()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """End the demo at its first signal, and let nothing disturb the clearing away."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _check(state: Path | None) -> None:

    if find_spec("aiosmtpd") is None:
        raise ConfigError("the demo needs a mail server: pip install 'callosum-protocol[demo]'")
    if state is not None and state.exists() and any(state.iterdir()):
        raise ConfigError("expected a folder that is new or empty", at="--state")


def _play(folder: Path, state: Path, *, quiet: bool) -> tuple[DemoResult, DemoResult]:

    from callosum.cli.demo_run.runner import perform

    waiting = nullcontext() if quiet else show.console().status("one agent, three sessions, no gate ...")
    with waiting as status:
        without = perform(folder / "without", None)
        if status is not None:
            status.update("the same again, through the gate ...")
        return without, perform(folder / "with", state.absolute())


def _report(without: DemoResult, gated: DemoResult, took: float, *, right: bool) -> None:
    from rich.text import Text

    def mails(count: int) -> Text:
        word = {0: "no mail", 1: "1 mail"}.get(count, f"{count} mails")
        return show.cell(f"Alice got {word}", "green" if count == 1 else "red")

    def answers(half: DemoResult) -> Text:
        found = half.meeting_answers
        return show.cell("Alice was told: " + ", then ".join(found), "green" if len(found) == 1 else "red")

    def notes(half: DemoResult) -> Text:
        text = f"{half.notes_lost} of 2 edits lost" if half.notes_lost else "both edits are in it"
        return show.cell(text, "red" if half.notes_lost else "green")

    rows = [
        (show.cell("Two sessions reply to one thread"), mails(without.thread_mails), mails(gated.thread_mails)),
        (show.cell("One accepts a meeting, one declines"), answers(without), answers(gated)),
        (show.cell("Two edit a file from what they read before"), notes(without), notes(gated)),
        (
            show.cell("One is killed between sending and reporting"),
            mails(without.invoice_mails),
            mails(gated.invoice_mails),
        ),
    ]
    show.line()
    show.put(
        show.table("One agent, several sessions at once", ("what happens", "without the gate", "with the gate"), rows)
    )
    show.line("What the sessions were told", "bold")
    for one in gated.told:
        _tell(one)
    show.line()
    if right:
        show.line(f"With the gate everything came out right ({took:.1f} s).", "green")
    else:
        show.line(f"With the gate it did NOT come out right ({took:.1f} s); that is a fault of Callosum.", "red")


def _tell(one: DemoNotice) -> None:
    from rich.padding import Padding
    from rich.text import Text

    head = Text.assemble((f"mira/{one.session}", "bold"), ("  ", ""), (", ".join(one.kinds), "yellow"))
    show.put(Padding(head, (1, 0, 0, 2)), Padding(show.cell(one.text, limit=2000), (0, 0, 0, 4)))
    if one.then:
        show.put(Padding(show.cell(f"→ it {one.then}", "dim"), (0, 0, 0, 4)))
