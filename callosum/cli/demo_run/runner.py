"""The script: which session does what when, the same without the gate and with it, and the results.

The order of actions is fixed by waiting for each answer before the next order, never by time, so that both halves run
the same way every time.
"""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from msgspec import Struct

from callosum import launch
from callosum.cli.demo_run.session import DemoOrder, DemoReply
from callosum.cli.demo_run.world import World
from callosum.errors import CallosumError

_LINES: Final = ("call Bob back", "order the badges")
_PATIENCE: Final = 20.0


class DemoNotice(Struct, frozen=True):
    """What the gate told a session, and what the session then did."""

    scene: str
    session: str
    kinds: tuple[str, ...]
    verdict: str
    text: str
    then: str


class DemoResult(Struct, frozen=True, rename="camel"):
    """The result of one half. Mails are those that Alice got; ``answers`` are the answers to her meeting."""

    gated: bool
    thread_mails: int
    meeting_answers: tuple[str, ...]
    notes: tuple[str, ...]
    notes_lost: int
    invoice_mails: int
    told: tuple[DemoNotice, ...]

    @property
    def right(self) -> bool:
        """Return True if Alice got each mail once, no answer contradicts another, and nothing was lost."""
        return (
            self.thread_mails == 1
            and len(self.meeting_answers) == 1
            and self.notes_lost == 0
            and len(self.notes) == len(_LINES)
            and self.invoice_mails == 1
        )


class DemoProcess:
    """A session's process, as the script sees it. At the end the process is gone, whatever happened."""

    def __init__(self, name: str, world: World, state: str) -> None:
        self.name = name
        self._process = subprocess.Popen(  # noqa: S603  Callosum's own module, in this Python
            launch.command(name, str(world.folder), str(world.port), state, run="callosum.cli.demo_run.session:main"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=launch.environment(os.environ),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process.stdin is not None and process.stdout is not None:
            process.stdin.close()
            try:
                process.wait(_PATIENCE if kind is None else 0.1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()

    def ready(self) -> None:
        """Wait until the session is ready."""
        self._line()

    def do(self, do: str, text: str = "") -> DemoReply:
        """Give an order and wait for the answer. Raises ``CallosumError`` if the session died."""
        self._order(DemoOrder(do, text))
        return msgspec.json.decode(self._line(), type=DemoReply)

    def die(self, do: str, text: str = "") -> None:
        """Give an order, kill the session after its action, and wait until it is dead."""
        self._order(DemoOrder(do, text, crash=True))
        if self._process.wait(_PATIENCE) != -signal.SIGKILL:
            raise CallosumError(f"the session {self.name} was to be killed and ended with {self._process.returncode}")

    def _order(self, order: DemoOrder) -> None:
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise CallosumError(f"the session {self.name} died on the way") from None

    def _line(self) -> bytes:
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            raise CallosumError(f"the session {self.name} died on the way")
        return line


def perform(folder: Path, state: Path | None) -> DemoResult:
    """Run one half in an empty folder, with a gate over ``state`` or without one (None)."""
    told: list[DemoNotice] = []

    def note(scene: str, actor: DemoProcess, answer: DemoReply) -> None:
        if answer.told:
            told.append(DemoNotice(scene, actor.name, answer.kinds, answer.verdict, answer.told, answer.then))

    with ExitStack() as stack:
        world = stack.enter_context(World(folder))
        gate = str(state) if state is not None else ""
        chat, heartbeat, job = (
            stack.enter_context(DemoProcess(name, world, gate)) for name in ("chat", "heartbeat", "job")
        )
        for actor in (chat, heartbeat, job):
            actor.ready()

        for actor in (chat, heartbeat):
            actor.do("read_thread")
        chat.do("reply", "Of course: you have them on Friday.")
        note("thread", heartbeat, heartbeat.do("reply", "Sorry, I cannot say yet when I will have them."))

        chat.do("respond", "accepted")
        note("meeting", heartbeat, heartbeat.do("respond", "declined"))

        for actor in (chat, heartbeat):
            actor.do("read_notes")
        chat.do("add_note", _LINES[0])
        note("file", heartbeat, heartbeat.do("add_note", _LINES[1]))

        job.die("invoice", "Your invoice is attached.")
        note("crash", chat, chat.do("invoice", "Your invoice is attached."))

        notes = world.notes()
        return DemoResult(
            gated=state is not None,
            thread_mails=len(world.mails("thread")),
            meeting_answers=tuple(subject.partition(":")[0].lower() for subject in world.mails("meeting")),
            notes=tuple(notes),
            notes_lost=sum(f"- {line}" not in notes for line in _LINES),
            invoice_mails=len(world.mails("invoice")),
            told=tuple(told),
        )
