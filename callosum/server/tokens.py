"""Tokens: who may use the server, as which instance, and in which namespaces. Kept as digests in ``tokens.json``.

A secret is ``cal_<name>_<43 characters>``. Its last part holds 256 random bits, so the file keeps a plain SHA-256
of it: slow hashes protect secrets that people choose and others can guess, and nobody guesses 256 bits. They would
only slow down every request.

Commands change the file and servers read it. A change replaces the file with a new one,
under a lock on ``tokens.lock``, so that a reader sees the old file or the new one, and two
simultaneous commands lose nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from callosum.errors import ConfigError
from callosum.gate.check import check_name
from callosum.locks import locked, put
from callosum.loopback import TOKEN as MACHINE_FILE
from callosum.loopback import make_token
from callosum.person import refuse_agents
from callosum.wire import fault_of

logger = logging.getLogger("callosum")

FILE: Final = "tokens.json"
"""Name of the file in the state folder."""
LOOK_EVERY: Final = 0.2
"""Seconds between two checks of the file: a removed token works for at most this long."""

MACHINE: Final = "this machine"
"""Name of the machine's own token (``callosum.loopback``). No other token can have it, because it holds a space."""
_PATIENCE: Final = 5.0
"""Seconds to wait for another process that changes the file."""
_PREFIX: Final = "cal_"
_SECRET: Final = 43
"""Number of characters of the random part: 32 bytes in base64url."""
_NAME: Final = r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"
_FULL: Final = 10_000
"""Maximum number of tokens of one file."""


class Role(StrEnum):
    """What a token permits: an actor's calls, an approver's answers, a reader's reads. No token permits two."""

    ACTOR = "actor"
    APPROVER = "approver"
    READER = "reader"


class Token(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A token as the file holds it; times are Unix seconds.

    ``instance``: the only one as which it may act, with all its sessions. ``namespaces``: the only ones in which it
    may be used. None means any. ``digest`` is the SHA-256 of the secret in hex; ``former`` is that of the
    secret before the last rotation, valid until ``former_until``.
    """

    name: Annotated[str, Meta(pattern=_NAME)]
    role: Role
    created: int
    digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    instance: Annotated[str, Meta(min_length=1)] | None = None
    namespaces: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    expires: int | None = None
    former: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")] | None = None
    former_until: int | None = None

    def __repr__(self) -> str:
        return f"Token({self.name!r}, {self.role.value!r}, instance={self.instance!r}, namespaces={self.namespaces!r})"


class _File(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    version: Annotated[int, Meta(ge=1, le=1)] = 1
    tokens: Annotated[tuple[Token, ...], Meta(max_length=_FULL)] = ()


_decode: Final = msgspec.json.Decoder(_File).decode


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


_NO_DIGEST: Final = _digest(secrets.token_hex(32))
_NOBODY: Final = Token(name="nobody", role=Role.ACTOR, created=0, digest=_NO_DIGEST)
"""Digest that a secret with an unknown name is compared with, so that this takes as long as for a known name."""


class Tokens:
    """The tokens of one file. If the file does not exist, there are none.

    ``clock`` returns Unix seconds, ``ticks`` seconds that never run backwards. ``error`` is the fault of the
    newest version of the file, None if it is valid. If the file becomes invalid, the earlier tokens stay in force,
    with a warning in the log. Raises ``ConfigError`` with the field if it is invalid at the start.
    """

    def __init__(
        self, path: str | Path, *, clock: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self.path = Path(path)
        self.error: ConfigError | None = None
        self.machine: Token | None = None
        """The machine's own token, once ``serve_machine`` has made it. It may act as every instance."""
        self._clock, self._ticks = clock, ticks
        self._stamp = _stamp(self.path)
        self._keep(_read(self.path))
        self._next = ticks() + LOOK_EVERY

    def __repr__(self) -> str:
        return f"Tokens({str(self.path)!r}: {len(self._tokens)})"

    # --- Used by servers ---

    def asks_actors(self) -> bool:
        """Return True if a person has made a token that may act: from then on, acting over TCP needs one."""
        self._current()
        return self._asks_actors

    def serve_machine(self) -> None:
        """Accept the machine's own token, and make it if there is none. Raises ``ConfigError``."""
        try:
            digest = _digest(make_token(self.path.parent))
        except OSError as error:
            raise ConfigError(error.strerror or str(error), at=str(self.path.parent / MACHINE_FILE)) from error
        self.machine = Token(name=MACHINE, role=Role.ACTOR, created=0, digest=digest)

    def find(self, presented: str) -> Token | None:
        """Return the token with this secret; None if it is unknown, removed, replaced or expired.

        The returned ``digest`` is that of the secret that was sent, so that ``holds`` recognises a former one.
        A wrong secret or a name that does not exist takes as long as the right secret.
        """
        tokens, now, digest = self._current(), self._clock(), _digest(presented)
        if self.machine is not None and hmac.compare_digest(digest, self.machine.digest):
            return self.machine
        token = tokens.get(_name_in(presented), _NOBODY)
        fits = hmac.compare_digest(digest, token.digest)
        fits_former = hmac.compare_digest(digest, token.former or _NO_DIGEST)
        if not fits and not (fits_former and now < (token.former_until or 0)):
            return None
        if token.expires is not None and now >= token.expires:
            return None
        return token if fits else msgspec.structs.replace(token, digest=digest)

    def holds(self, token: Token) -> bool:
        """Return True if a token that was returned earlier is still valid, for connections that stay open for long."""
        if token is self.machine:
            return True
        found, now = self._current().get(token.name), self._clock()
        if found is None or (found.expires is not None and now >= found.expires):
            return False
        return found.digest == token.digest or (found.former == token.digest and now < (found.former_until or 0))

    def named(self, presented: str) -> str:
        """Return the name of the token that this (wrong) secret claims to be, ``""`` if there is no such token."""
        name = _name_in(presented)
        return name if name in self._current() else ""

    def reload(self) -> bool:
        """Read the file if it changed; return True if the valid tokens have changed.

        A file that cannot be opened now (too many open files, say) is read at the next check: otherwise a token that
        was removed would stay valid until the file changes once more.
        """
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return False
        try:
            self._keep(_read(self.path))
        except ConfigError as error:
            if str(error) != str(self.error):
                logger.warning("the tokens stay as they were: %s", error)
            self.error = error
            if not isinstance(error.__cause__, OSError):
                self._stamp = stamp
            return False
        self._stamp, self.error = stamp, None
        return True

    def _keep(self, tokens: Mapping[str, Token]) -> None:
        self._tokens = tokens
        self._asks_actors = any(token.role is Role.ACTOR for token in tokens.values())

    def _current(self) -> Mapping[str, Token]:
        ticks = self._ticks()
        if ticks >= self._next:
            self.reload()
            self._next = ticks + LOOK_EVERY
        return self._tokens

    # --- Used by commands ---

    def list(self) -> tuple[Token, ...]:
        """Return the tokens in the file now, by name. Raises ``ConfigError`` if the file is invalid."""
        return tuple(sorted(_read(self.path).values(), key=lambda token: token.name))

    def add(
        self,
        name: str,
        *,
        role: Role = Role.ACTOR,
        instance: str | None = None,
        namespaces: tuple[str, ...] | None = None,
        expires: float | None = None,
    ) -> str:
        """Make a token and return its secret, which is not stored. ``expires`` is in Unix seconds.

        Raises ``ConfigError`` at the field: an invalid name or one that exists, a moment in the past, an
        instance for an approver's token (which acts for no agent), a file that cannot be changed. Raises
        ``NotAPerson`` if an agent's host would get an approver's token.
        """
        _check(name, role, instance, namespaces)
        _check_owner(role)
        now = self._clock()
        if expires is not None and not now < expires < 2**53:
            raise ConfigError("expected a moment in the future", at="expires")
        secret = _new(name)
        token = Token(
            name=name,
            role=role,
            created=int(now),
            digest=_digest(secret),
            instance=instance,
            namespaces=namespaces,
            expires=None if expires is None else int(expires),
        )
        with self._changing() as tokens:
            if name in tokens:
                raise ConfigError(f"there is a token {name} already; remove it, or rotate it", at="name")
            if len(tokens) >= _FULL:
                raise ConfigError(f"there are {_FULL} tokens already: remove one", at="name")
            tokens[name] = token
        return secret

    def rotate(self, name: str, grace: float = 0) -> str:
        """Return a new secret for a token; the old one stays valid for ``grace`` seconds.

        Raises ``ConfigError`` at ``name`` if there is no token with this name, or it has expired, and ``NotAPerson`` as
        ``add`` does.
        """
        if not 0 <= grace <= 365 * 86400:
            raise ConfigError("expected 0 seconds to 365 days", at="grace")
        secret = _new(name)
        with self._changing() as tokens:
            old, now = _of(tokens, name), self._clock()
            if old.expires is not None and now >= old.expires:
                raise ConfigError("the token has expired: remove it, and add another", at="name")
            _check_owner(old.role)
            tokens[name] = msgspec.structs.replace(
                old,
                digest=_digest(secret),
                former=old.digest if grace else None,
                former_until=int(now + grace) if grace else None,
            )
        return secret

    def remove(self, name: str) -> None:
        """Remove a token. Raises ``ConfigError`` at ``name`` if there is none with this name."""
        with self._changing() as tokens:
            del tokens[_of(tokens, name).name]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Token]]:
        """Yield the file's content under the lock, and write it back when the block ends."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self.path.with_suffix(".lock"), wait=_PATIENCE) as alone:
                if not alone:
                    raise ConfigError("another process is changing the file: try again", at=str(self.path))
                tokens = _read(self.path)
                yield tokens
                _write(self.path, tokens)
        except OSError as error:
            raise ConfigError(f"cannot be changed: {error.strerror or error}", at=str(self.path)) from error
        self.reload()


def _check_owner(role: Role) -> None:
    """Raise ``NotAPerson`` if this process would hand an approver's token to an agent, which could then approve."""
    if role is Role.APPROVER:
        refuse_agents(None, "only a person can have an approver's token")


def _of(tokens: Mapping[str, Token], name: str) -> Token:
    if name not in tokens:
        raise ConfigError("there is no token with this name", at="name")  # the name may be a secret by mistake
    return tokens[name]


def _check(name: str, role: Role, instance: str | None, namespaces: tuple[str, ...] | None) -> None:
    if not re.search(_NAME, name):
        raise ConfigError("expected 1 to 64 letters, digits, dots, hyphens and underscores", at="name")
    if instance is not None:
        check_name(instance, "instance")
        if role is not Role.ACTOR:
            raise ConfigError(f"a token for a person ({role}) acts for no instance; leave it out", at="instance")
    if namespaces is not None and not namespaces:
        raise ConfigError("expected at least one, or leave it out for all", at="namespace")
    for namespace in namespaces or ():
        check_name(namespace, "namespace")


def _new(name: str) -> str:
    return f"{_PREFIX}{name}_{secrets.token_urlsafe(32)}"


def _name_in(presented: str) -> str:
    """Return the name in the middle of a secret, ``""`` for a text of another form."""
    end = len(presented) - _SECRET - 1
    return presented[len(_PREFIX) : end] if presented.startswith(_PREFIX) and presented[end : end + 1] == "_" else ""


# --- File ---


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return the file's signature, which changes with the file; None without a file, ``()`` if it is unreadable."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def _read(path: Path) -> dict[str, Token]:
    """Return the tokens by name; none if there is no file. Raises ``ConfigError`` with the field."""
    at = str(path)
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            data = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", at=at) from error
    if hasattr(os, "geteuid"):  # anyone who can write it can make an approver's token
        if facts.st_mode & 0o077:
            does = "change" if facts.st_mode & 0o022 else "read"
            raise ConfigError(f"users other than its owner can {does} it: check its content and chmod 600 it", at=at)
        if facts.st_uid not in (os.geteuid(), 0):
            raise ConfigError("it belongs to another user", at=at)
    try:
        found = _decode(data).tokens
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        raise ConfigError(fault.message, at=f"{at}: {fault.at}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"invalid JSON: {error}", at=at) from None
    tokens: dict[str, Token] = {}
    for place, token in enumerate(found):
        if token.name in tokens:
            raise ConfigError("another token has the same name", at=f"{at}: tokens[{place}].name")
        tokens[token.name] = token
    return tokens


def _write(path: Path, tokens: Mapping[str, Token]) -> None:
    """Replace the file with a new one, which is private, and synced so that it survives power loss."""
    data = msgspec.json.format(msgspec.json.encode(_File(tokens=tuple(tokens.values()))), indent=2) + b"\n"
    put(path, data)
