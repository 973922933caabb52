"""Control who may see the console and answer there: links, browser sessions, codes.

::

    callosum console    proves that a person asks, leaves a link in the state folder (0600), and stays connected
    the browser         opens the link's page and presses Open: the link is spent, a cookie identifies the session
    a tier-4 answer     needs a code, which only that terminal shows

A link is spent by removing its file, so it works once on whichever server opens it. A session ends with the terminal
that made its link, with its token, or after twelve hours.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from callosum.characters import escaped
from callosum.errors import CallosumError
from callosum.rules import StandingApproval

FOLDER: Final = "console"
"""Folder of links in the state folder."""
COOKIE: Final = "callosum_console"
LINK_SECONDS: Final = 300.0
"""Seconds for which a link may be opened."""
SESSION_SECONDS: Final = 12 * 3600.0
_LINE: Final = 180
"""Maximum number of characters that are shown beside a code."""
CODE_SECONDS: Final = 120.0
"""Seconds for which a code may be typed."""
_CODE_TRIES: Final = 3
_WRONG: Final = 9
"""Maximum number of wrong codes per terminal or token within ``_WRONG_SECONDS``. Then no code is shown or accepted."""
_WRONG_SECONDS: Final = 900.0
_MOST: Final = 16
"""Maximum number of sessions of one person at once; beyond it that person's oldest ends."""
STREAMS: Final = 16
"""Maximum number of pages that one session keeps current at once."""


class NoAccess(CallosumError):
    """The link, the session or the code is not valid."""


class LoginLink(Struct, frozen=True, rename="camel"):
    """The content of a link's file. Secrets are stored as digests; ``expires`` is in Unix seconds."""

    secret: str
    terminal: str
    by: str
    expires: float


class CodeRequest(Struct):
    """A tier-4 answer that waits for its code: ``meant`` identifies the answer and the call that was shown."""

    code: str
    meant: str
    expires: float
    tries: int = 0


class ShownApproval(Struct, frozen=True):
    """A standing approval as it was shown together with its trial; ``digest`` is that of the call."""

    seal: str
    digest: str
    approval: StandingApproval


class ConsoleSession(Struct, kw_only=True):
    """A browser session. ``by`` is journalled. ``answers``: it may answer, not only read.

    ``namespaces`` None means all. ``ends`` is a monotonic time. ``holds`` returns True while the terminal or token that
    opened the session is valid.
    """

    by: str
    answers: bool
    ends: float
    namespaces: tuple[str, ...] | None = None
    terminal: str = ""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    code_request: CodeRequest | None = None
    streams: int = 0
    shown_approval: ShownApproval | None = None
    holds: Callable[[], bool] = lambda: True

    def check_sees(self, namespace: str) -> None:
        """Raise ``NoAccess`` if the session may not see this namespace."""
        if self.namespaces is not None and namespace not in self.namespaces:
            raise NoAccess("you may not see this namespace")


def digest(secret: str) -> str:
    """Return the stored digest of a secret: 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def leave_link(state: Path, by: str, now: float) -> tuple[str, str]:
    """Leave a link in the state folder; return its secret and that of the terminal that made it.

    Raises ``OSError`` if the folder cannot be written.
    """
    folder = state / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    secret, terminal = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    link = LoginLink(digest(secret), digest(terminal), by, now + LINK_SECONDS)
    descriptor = os.open(folder / f"{link.secret}.link", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(link))
    return secret, terminal


class Access:
    """The links, sessions and terminals of one server. Use it from one event loop.

    ``clock`` returns Unix seconds, ``ticks`` seconds that never run backwards.
    """

    def __init__(
        self, state: Path, *, clock: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = state / FOLDER
        self._clock, self._ticks = clock, ticks
        self._sessions: dict[str, ConsoleSession] = {}
        self._terminals: dict[str, asyncio.Queue[str]] = {}
        self._wrong: dict[tuple[str, str], deque[float]] = {}
        """When wrong codes were typed, by terminal and person."""

    @property
    def used(self) -> bool:
        """Return True if a terminal keeps the console open."""
        return bool(self._terminals)

    # --- Terminals ---

    def names_terminal(self, secret: str) -> bool:
        """Return True if a link in the state folder names this terminal, so that its sender can read that folder."""
        name = digest(secret)
        return any(hmac.compare_digest(link.terminal, name) for link in self._links())

    def join(self, secret: str) -> tuple[str, asyncio.Queue[str]]:
        """Connect the terminal that made a link; return its name and the lines that it is to show.

        Raises ``NoAccess`` if no link names it.
        """
        if not self.names_terminal(secret):
            raise NoAccess("no link names this terminal")
        name = digest(secret)
        return name, self._terminals.setdefault(name, asyncio.Queue(16))

    def leave(self, name: str) -> None:
        """End the sessions that the terminal opened."""
        self._terminals.pop(name, None)
        self._wrong = {key: times for key, times in self._wrong.items() if key[0] != name}
        self._sessions = {key: one for key, one in self._sessions.items() if one.terminal != name}

    def _links(self) -> list[LoginLink]:
        found = []
        for path in self._folder.glob("*.link"):
            try:
                link = msgspec.json.decode(path.read_bytes(), type=LoginLink)
            except (OSError, msgspec.MsgspecError):
                continue
            if link.expires <= self._clock():
                path.unlink(missing_ok=True)
            else:
                found.append(link)
        return found

    # --- Sessions ---

    def spend(self, secret: str) -> LoginLink:
        """Spend a link; return its content. Raises ``NoAccess``. It only reads and removes the file."""
        path = self._folder / f"{digest(secret)}.link"
        try:
            link = msgspec.json.decode(path.read_bytes(), type=LoginLink)
            path.unlink()  # the process that removes the file has the link
        except (OSError, msgspec.MsgspecError):
            raise NoAccess(
                "this link was used already, or is no link of this gate: run callosum console again"
            ) from None
        if link.expires <= self._clock():
            raise NoAccess("this link has expired: run callosum console again")
        return link

    def let_in(self, link: LoginLink) -> str:
        """Return the cookie's value of a session for a spent link. Raises ``NoAccess`` if its terminal has ended."""
        if link.terminal not in self._terminals:
            raise NoAccess("the command that made this link has ended: run callosum console again")
        return self.admit(
            ConsoleSession(by=link.by, answers=True, ends=self._ticks() + SESSION_SECONDS, terminal=link.terminal)
        )

    def admit(self, session: ConsoleSession) -> str:
        """Add a session; return the cookie's value."""
        value = secrets.token_urlsafe(32)
        now = self._ticks()
        self._sessions = {name: one for name, one in self._sessions.items() if one.ends > now and one.holds()}
        own = [name for name, one in self._sessions.items() if one.by == session.by]
        for name in own[: len(own) + 1 - _MOST]:
            del self._sessions[name]
        self._sessions[digest(value)] = session
        return value

    def session(self, cookie: str | None) -> ConsoleSession | None:
        """Return the session of a cookie; None if it has no valid one."""
        if not cookie:
            return None
        name = digest(cookie)
        session = self._sessions.get(name)
        if session is None or session.ends <= self._ticks() or not session.holds():
            self._sessions.pop(name, None)
            return None
        return session

    def end(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(digest(cookie), None)

    # --- Codes ---

    def ask(self, session: ConsoleSession, meant: str, what: str) -> None:
        """Show a code for an answer in the terminals.

        ``meant`` binds the code to the answer; ``what`` is shown beside it. Raises ``NoAccess`` if no terminal can show
        it, or too many wrong codes were typed.
        """
        self._check_wrong(session)
        shown = [self._terminals[session.terminal]] if session.terminal else list(self._terminals.values())
        if not shown:
            raise NoAccess("no terminal can show the code: run callosum console where the server runs")
        code = f"{secrets.randbelow(10**6):06}"
        session.code_request = CodeRequest(code, meant, self._ticks() + CODE_SECONDS)
        for lines in shown:
            if lines.full():
                lines.get_nowait()
            lines.put_nowait(f"{code}  {escaped(what)[:_LINE]}")

    def confirm(self, session: ConsoleSession, meant: str, code: str) -> None:
        """Check the code for an answer. Raises ``NoAccess`` if it is not the one that was shown for it."""
        self._check_wrong(session)
        asked = session.code_request
        if asked is None or asked.meant != meant or asked.expires <= self._ticks():
            session.code_request = None
            raise NoAccess("the code has expired: answer again")
        asked.tries += 1
        if hmac.compare_digest(asked.code.encode(), code.strip().encode()):
            self._wrong.pop((session.terminal, session.by), None)
            session.code_request = None
            return
        self._wrong.setdefault((session.terminal, session.by), deque(maxlen=_WRONG)).append(self._ticks())
        if asked.tries >= _CODE_TRIES:
            session.code_request = None
        raise NoAccess("this is not the code that the terminal shows")

    def _check_wrong(self, session: ConsoleSession) -> None:
        wrong = self._wrong.get((session.terminal, session.by))
        if wrong is not None and len(wrong) >= _WRONG and wrong[0] > self._ticks() - _WRONG_SECONDS:
            session.code_request = None
            raise NoAccess("too many wrong codes: answer again in a quarter of an hour, or at the terminal")
