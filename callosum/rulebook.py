"""Load the rules: the user's file before the default set, read again when it changes.

A file that becomes invalid while the gate runs is reported and the last good rules stay in force. At the
start there are no last good rules, so an invalid file is refused.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from callosum import standing
from callosum.errors import ConfigError
from callosum.redact import SecretDigests
from callosum.rules import RuleSet
from callosum.rules.protected import PROGRAM, RULES, SETTINGS, SOCKET, STATE
from callosum.rules.shell.judgement import ShellPolicy
from callosum.settings import Settings
from callosum.sockets import socket_path

if TYPE_CHECKING:
    from callosum.rules import StandingApproval

logger = logging.getLogger("callosum")

LOOK_EVERY: Final = 1.0
"""Seconds between two checks of the file."""
_KEY_FILE: Final = "content.key"


class Rulebook:
    """The rules in force. ``path`` need not exist: then only the default set applies.

    ``standing`` is the file of standing approvals, which need not exist either; each counts until its end.
    ``options`` are more arguments of ``RuleSet.parse``, see ``options_of``.
    ``error`` is the fault of the newest version of the file, None if it is valid.
    Raises ``ConfigError`` with the field if the file is invalid at the start.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        secret: bytes = b"",
        protected: Mapping[str, str] | tuple[str, ...] = (),
        options: Mapping[str, Any] | None = None,
        standing: Path | None = None,
    ) -> None:
        self.path = Path(path) if path is not None else None
        self._standing = standing
        self.error: ConfigError | None = None
        self._options = dict(options or {})
        self._secret = secret
        named = dict(protected if isinstance(protected, Mapping) else dict.fromkeys(protected, STATE))
        if self.path is not None:
            named |= _spellings(self.path, RULES)
        self._protected = named
        self.secrets = SecretDigests(secret)
        """Replaces secrets in keys and names by digests made with this gate's content key."""
        self._stamp = _stamp_of(self.path)
        self._standing_stamp = _stamp_of(standing)
        self._ends = 0.0
        self._rules = self._read()
        self._approve()
        self._next = time.monotonic() + LOOK_EVERY
        self._reading = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Identifies the content key without revealing it; ``""`` if there is none."""
        return blake2b(b"content.key", key=self._secret, digest_size=8).hexdigest() if self._secret else ""

    @classmethod
    def of(cls, settings: Settings, *, secret: bytes = b"") -> Self:
        """Return the rules of a gate with these settings.

        The paths that ``protected_of`` returns are protected, and need not exist.
        """
        return cls(
            path_of(settings),
            secret=secret,
            protected=protected_of(settings),
            options=options_of(settings),
            standing=standing.path_of(settings.state),
        )

    def current(self) -> RuleSet:
        """Return the rules in force. The files are checked again if the last check is a second old.

        A standing approval that has ended is left out, however long ago the files were checked.
        """
        if self._ends and time.time() >= self._ends:
            with self._reading:
                self._reload()
        if time.monotonic() >= self._next and self._reading.acquire(blocking=False):
            try:
                self._reload()
            finally:
                self._next = time.monotonic() + LOOK_EVERY
                self._reading.release()
        return self._rules

    def reload(self) -> bool:
        """Read the file if it changed; return True if that gave new rules.

        On return the content that the file had at the call is in force, even if another thread read it.
        """
        with self._reading:
            return self._reload()

    def _reload(self) -> bool:
        stamp, standing = _stamp_of(self.path), _stamp_of(self._standing)
        ended = self._ends and time.time() >= self._ends
        if stamp == self._stamp and standing == self._standing_stamp and not ended:
            return False
        changed, self._stamp, self._standing_stamp = stamp != self._stamp, stamp, standing
        if changed:
            try:
                rules = self._read()
            except ConfigError as error:
                self.error = error
                logger.warning("the rules stay as they were: %s", error)
            else:
                self._rules = rules
                self.error = None
        self._approve()
        return not changed or self.error is None

    def _approve(self) -> None:
        """Put the standing approvals over the rules; a file that cannot be read approves nothing."""
        self._ends = 0.0
        if self._standing is None:
            return
        approvals: tuple[StandingApproval, ...] = ()
        try:
            now = time.time()
            approvals = tuple(approval for approval in standing.read(self._standing) if approval.until > now)
        except ConfigError as error:
            logger.warning("no standing approval counts: %s", error)
        self._ends = min((approval.until for approval in approvals), default=0.0)
        if approvals or self._rules.standing:
            self._rules = self._rules.with_standing(approvals)

    def _read(self) -> RuleSet:
        user = None
        source = "tiers.json"
        if self.path is not None and self._stamp is not None:
            source = str(self.path)
            try:
                user = self.path.read_bytes()
            except OSError as error:
                raise ConfigError(f"cannot be read: {error}", at=source) from error
        try:
            return RuleSet.parse(user, source=source, secret=self._secret, protected=self._protected, **self._options)
        except ConfigError as error:
            if user is None or error.at.startswith(source):
                raise
            raise ConfigError(error.message, at=f"{source}: {error.at}" if error.at else source) from None


def _stamp_of(path: Path | None) -> tuple[int, int, int] | None:
    """Return a file's signature, which changes when the file does; None if there is no file."""
    if path is None:
        return None
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("cannot read %s: %s", path, error)
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def path_of(settings: Settings) -> Path:
    """Return the path of the user's rules, which need not exist."""
    return settings.rules or Path(settings.state) / "tiers.json"


def protected_of(settings: Settings) -> dict[str, str]:
    """Return the paths that no agent may change or connect to, each with a description.

    These are the state folder, the sockets on which a gate listens, the settings file in use, and the package itself
    if an installer put it there. Each is listed as it is spelled and with its links resolved.
    """
    paths = _spellings(Path(settings.state), STATE)
    paths |= _spellings(Path(socket_path(settings.state)), SOCKET)
    if settings.server_socket is not None:
        paths |= _spellings(Path(settings.server_socket), SOCKET)
    if settings.config is not None:
        paths |= _spellings(settings.config, SETTINGS)
    package = Path(__file__).parent
    if not _PACKAGE_FOLDERS.isdisjoint(package.parts):
        paths |= _spellings(package, PROGRAM)
    return paths


_PACKAGE_FOLDERS: Final = frozenset(("site-packages", "dist-packages"))


def _spellings(path: Path, what: str) -> dict[str, str]:
    """Return the absolute spellings of a path: as given, with links resolved, and from ``~`` if it is below it."""
    absolute = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - pathlib resolves no ``..`` by spelling
    spellings = dict.fromkeys((absolute, os.path.realpath(absolute)), what)
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111
    for spelling in list(spellings):
        if home and spelling.startswith(home + "/"):
            spellings["~" + spelling[len(home) :]] = what
    return spellings


def options_of(settings: Settings) -> dict[str, Any]:
    """Return the settings that affect classification, as arguments of ``RuleSet.parse``."""
    options: dict[str, Any] = {"fold_plus_tags": settings.keys_fold_plus_tags}
    if settings.shell:
        options["shell_policy"] = ShellPolicy(**settings.shell)  # type: ignore[arg-type]  # by the names of its fields
    if settings.server_port:
        options["ports"] = (settings.server_port,)
    return options


def kept_secret(folder: Path) -> bytes:
    """Return the content key of a state folder; empty if there is none yet or only another user may read it."""
    try:
        return (folder / _KEY_FILE).read_bytes()
    except OSError:
        return b""


def content_secret(folder: Path) -> bytes:
    """Return the key for the hashes of contents, 32 bytes, made once and kept in the state folder.

    Two processes that make it at once end up with the same key. An unreadable folder raises ``ConfigError``.
    """
    path = folder / _KEY_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            draft = folder / f"{_KEY_FILE}.{os.getpid()}.{threading.get_ident()}"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.write(descriptor, os.urandom(32))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        secret = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"the state folder cannot be used: {error}", at=str(folder)) from error
    if len(secret) != 32:
        raise ConfigError("expected 32 bytes; remove it to have a new one made", at=str(path))
    return secret
