"""The world of the demo: a mail server on the loopback, a calendar and a file, all real.

Every mail that the server accepts is written to ``sent/`` before it is acknowledged, so that a session can check there
whether a mail was sent.
"""

from __future__ import annotations

import asyncio
import threading
from email import message_from_bytes
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ALICE: Final = "alice@example.com"
EVENT: Final = "review-7"
_CALENDAR: Final = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Callosum//Demo//EN
BEGIN:VEVENT
UID:review-7
SUMMARY:Design review
ORGANIZER:mailto:alice@example.com
ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:mira@example.com
END:VEVENT
END:VCALENDAR
"""


class World:
    """A folder with mail, a calendar and notes, and a mail server while it is open.

    ``folder`` must be empty. The server listens on a free port of the loopback.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="callosum-demo-mail", daemon=True)

    def __enter__(self) -> Self:
        for name in ("inbox", "sent", "calendar"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "inbox" / "msg-500.txt").write_text("From: Alice\n\nCan you send me the figures by Friday?\n")
        (self.folder / "calendar" / f"{EVENT}.ics").write_text(_CALENDAR)
        (self.folder / "notes.md").write_text("# Notes\n")
        self._thread.start()
        self._ready.wait()
        if self._fault is not None:
            raise self._fault
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    # --- What happened --------------------------------------------------------------------------

    def mails(self, about: str) -> list[str]:
        """Return the subjects of the mails that Alice got about something."""
        found = (message_from_bytes(path.read_bytes()) for path in sorted((self.folder / "sent").iterdir()))
        return [str(mail["Subject"]) for mail in found if mail["X-About"] == about and mail["To"] == ALICE]

    def attendance(self) -> str:
        """Return what the calendar says: ``ACCEPTED``, ``DECLINED`` or ``NEEDS-ACTION``."""
        text = (self.folder / "calendar" / f"{EVENT}.ics").read_text()
        return text.partition("PARTSTAT=")[2].partition(":")[0]

    def notes(self) -> list[str]:
        """Return the lines of the notes, without the heading."""
        return [line for line in (self.folder / "notes.md").read_text().splitlines() if line.startswith("- ")]

    # --- The mail server ------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            asyncio.run(self._listen())
        except BaseException as fault:  # noqa: BLE001  passed to the thread that waits
            self._fault = fault
            self._ready.set()

    async def _listen(self) -> None:
        from aiosmtpd.smtp import SMTP

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await self._loop.create_server(lambda: SMTP(self, hostname="localhost"), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        async with server:
            await self._stop.wait()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802  aiosmtpd's name
        """Store a mail in the folder, then acknowledge it."""
        del server, session
        sent = self.folder / "sent"
        number = sum(1 for _ in sent.iterdir()) + 1
        (sent / f"{number:03}.eml").write_bytes(envelope.original_content)
        return "250 taken"
