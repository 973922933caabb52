"""One session of the agent, in its own process: it reads orders on its input and answers on its output.

An order says what to work on and how far to go. The session decides what to do with the gate's answer, and it is
sensible: it skips what another session has done, reads again what another has changed, and checks whether something
happened before doing it a second time. Without a gate it simply continues, like agents that do not know of each other.
"""

from __future__ import annotations

import os
import signal
import smtplib
import sys
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from callosum.cli.demo_run.world import ALICE, EVENT
from callosum.gate import LocalGate
from callosum.model import Call, Decision, Kind
from callosum.process import this_process
from callosum.settings import Settings

INSTANCE: Final = "mira"


class DemoOrder(Struct):
    """What the script asks of a session. ``crash``: die by SIGKILL after the action, before the report."""

    do: str
    text: str = ""
    crash: bool = False


class DemoReply(Struct):
    """What a session answers: whether its tool ran, and what the gate said."""

    ran: bool = True
    kinds: tuple[str, ...] = ()
    verdict: str = ""
    told: str = ""
    then: str = ""


class _DemoSession:
    """The agent's tools. With ``gate`` None every call runs directly."""

    def __init__(self, name: str, folder: Path, port: int, gate: LocalGate | None) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self.gate = gate
        self.seen = ""

    # --- Through the gate -----------------------------------------------------------------------

    def _run(self, tool: str, params: Mapping[str, Any], act: Callable[[], None], *, crash: bool = False) -> DemoReply:
        decision: Decision | None = None
        if self.gate is not None:
            call = Call(
                INSTANCE, tool, params, session=self.name, cwd=str(self.folder), pause=True, host=this_process()
            )
            decision = self.gate.intercept(call)
            if not decision.proceed:
                return _told(decision)
        act()
        if crash:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.gate is not None and decision is not None:
            self.gate.complete(INSTANCE, id=decision.id, session=self.name)
        return _told(decision) if decision is not None and decision.warning else DemoReply()

    # --- The work -------------------------------------------------------------------------------

    def read_thread(self, _: DemoOrder) -> DemoReply:
        """Read Alice's question, which nobody has answered yet."""
        path = self.folder / "inbox" / "msg-500.txt"
        return self._run("read", {"path": str(path)}, lambda: _look(path))

    def reply(self, order: DemoOrder) -> DemoReply:
        """Reply in Alice's thread, unless another session has."""
        params = {"action": "send", "target": ALICE, "replyTo": "msg-500", "message": order.text}
        answer = self._run("message", params, lambda: self._mail("thread", "Re: The figures", order.text))
        return answer if answer.ran else _then(answer, "left it at the other's reply")

    def respond(self, order: DemoOrder) -> DemoReply:
        """Accept or decline the meeting and tell Alice, unless another session did the opposite."""

        def act() -> None:
            path = self.folder / "calendar" / f"{EVENT}.ics"
            head, _, rest = path.read_text().partition("PARTSTAT=")
            path.write_text(f"{head}PARTSTAT={order.text.upper()}:{rest.partition(':')[2]}")
            self._mail("meeting", f"{order.text.capitalize()}: Design review", "See the calendar.")

        params = {"event_id": EVENT, "response": order.text}
        answer = self._run("respond_to_event", params, act)
        return answer if answer.ran else _then(answer, "left the answer as it stands and asked its person")

    def read_notes(self, _: DemoOrder) -> DemoReply:
        """Read the notes and remember them."""
        path = self.folder / "notes.md"

        def act() -> None:
            self.seen = path.read_text()

        return self._run("read", {"path": str(path)}, act)

    def add_note(self, order: DemoOrder) -> DemoReply:
        """Write the notes as it read them with one more line; read them again if necessary."""
        answer = self._write_notes(order.text)
        if answer.ran or Kind.STALE not in answer.kinds:
            return answer
        self.read_notes(order)
        again = self._write_notes(order.text)
        return _then(answer, "read it again and wrote both" if again.ran else "gave up")

    def _write_notes(self, line: str) -> DemoReply:
        path = self.folder / "notes.md"
        content = f"{self.seen}- {line}\n"

        def act() -> None:
            path.write_text(content)
            self.seen = content

        return self._run("write", {"path": str(path), "content": content}, act)

    def invoice(self, order: DemoOrder) -> DemoReply:
        """Send the invoice. If it may have been sent already, check the sent mails first."""
        params = {"action": "send", "target": ALICE, "replyTo": "order-12", "message": order.text}

        def act() -> None:
            self._mail("invoice", "Invoice 12", order.text)

        answer = self._run("message", params, act, crash=order.crash)
        if answer.ran or Kind.UNKNOWN not in answer.kinds or self.gate is None:
            return answer
        happened = any("Invoice 12" in path.read_text() for path in (self.folder / "sent").iterdir())
        for unknown in self.gate.status().unknown:
            self.gate.resolve(
                unknown.id, happened=happened, by=f"{INSTANCE}/{self.name}", note="looked among the sent mails"
            )
        if happened:
            return _then(answer, "looked, found it sent, and did not send it again")
        return self._run("message", params, act)

    def _mail(self, about: str, subject: str, text: str) -> None:
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"], mail["X-About"] = "mira@example.com", ALICE, subject, about
        mail.set_content(text)
        with smtplib.SMTP("127.0.0.1", self.port, timeout=20) as server:
            server.send_message(mail)


def _look(path: Path) -> None:
    path.read_text()


def _told(decision: Decision) -> DemoReply:
    kinds = tuple(dict.fromkeys(conflict.kind.value for conflict in decision.conflicts))
    return DemoReply(decision.proceed, kinds, decision.verdict, decision.warning or "")


def _then(answer: DemoReply, then: str) -> DemoReply:
    return msgspec.structs.replace(answer, then=then)


def main() -> None:
    """Run a session: arguments are its name, the world's folder, the mail port, the state folder or ''."""
    name, folder, port, state = sys.argv[1:]
    gate = LocalGate(settings=Settings(state=Path(state))) if state else None
    session = _DemoSession(name, Path(folder), int(port), gate)
    orders: dict[str, Callable[[DemoOrder], DemoReply]] = {
        "read_thread": session.read_thread,
        "reply": session.reply,
        "respond": session.respond,
        "read_notes": session.read_notes,
        "add_note": session.add_note,
        "invoice": session.invoice,
    }
    out = sys.stdout.buffer
    out.write(b"{}\n")  # it is ready
    out.flush()
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=DemoOrder)
        out.write(msgspec.json.encode(orders[order.do](order)) + b"\n")
        out.flush()
    if gate is not None:
        gate.close()


if __name__ == "__main__":
    main()
