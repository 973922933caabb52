"""What stands in the query of a request, and in the path of a key: read strictly, faults with their place."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from callosum.brief import MAX_BUDGET, MAX_KEYS, MAX_PATH
from callosum.model import DEFAULT_NAMESPACE, MAX_KEY
from callosum.wire import BadRequest, fault_of


class StatusQuery(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """``GET /status``. ``instance`` and ``session`` are taken from old clients and mean nothing."""

    context_key: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    instance: str | None = None
    session: str | None = None


class BriefQuery(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """``GET /brief``. ``key`` may stand there several times; ``cwd`` is the session's folder, ``budget`` in tokens."""

    instance: str
    session: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    key: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=MAX_KEY)], ...], Meta(max_length=MAX_KEYS)] = ()
    cwd: Annotated[str, Meta(min_length=1, max_length=MAX_PATH)] | None = None
    budget: Annotated[int, Meta(ge=0, le=MAX_BUDGET)] | None = None


class HookQuery(Struct, frozen=True, rename="camel", kw_only=True):
    """``POST /hooks/{host}``. ``instance`` is the host's name where nobody says another.

    ``pid`` is the process that calls the hook, on the server's own machine. ``home`` is that process's home.
    ``deadline`` and ``timeout_ms`` say how long the hook waits, as in ``Call``.
    """

    instance: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType = UNSET
    home: Annotated[str, Meta(min_length=1, max_length=MAX_PATH)] | UnsetType = UNSET
    deadline: str | UnsetType = UNSET
    timeout_ms: int | UnsetType = UNSET


class ReleaseQuery(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """``DELETE /lock/{key}``: what is said here stands in place of what the body says."""

    instance: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    by: str | UnsetType = UNSET
    force: bool | UnsetType = UNSET


class ApprovalsQuery(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """``GET /approvals``."""

    namespace: str = DEFAULT_NAMESPACE
    session: str | None = None


class JournalQuery(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """``GET /journal``. ``namespace`` None means all. ``wait``: seconds to wait for something new."""

    cursor: str = ""
    limit: int = 100
    namespace: str | None = None
    session: str | None = None
    context_key: str | None = None
    newest: bool = False
    wait: float = 0


class EventsQuery(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """``GET /events``. ``types``: dotted names with commas between, ``tool.*``, ``*``."""

    types: str = "*"
    namespace: str | None = None


SEVERAL: Final = frozenset(("key",))
"""The parameters that may stand in a query several times."""

T = TypeVar("T", bound=Struct)


def read_query(kind: type[T], query: bytes) -> T:
    """Reads a query string into ``kind``. Raises ``BadRequest`` at the parameter that is at fault."""
    found: dict[str, str | list[str]] = {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except (UnicodeDecodeError, ValueError) as error:
        raise BadRequest(f"cannot be read: {error}", at="query") from None
    several = _several_in(kind)
    for name, value in pairs:
        if name in several:
            found[name] = [*found.get(name, ()), value]
            continue
        if name in found:
            raise BadRequest("stands twice", at=name[:100])
        found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise fault_of(error, kind) from None


@cache
def _several_in(kind: type[Struct]) -> frozenset[str]:
    """Of a query's parameters those that may stand there several times; to ask for fields compiles annotations."""
    return SEVERAL & {field.encode_name for field in msgspec.structs.fields(kind)}


def key_of_path(raw_path: bytes) -> str:
    """What follows the first name in a path, ``/lock/KEY``, percent-decoded.

    From the raw path: only there a ``%2F`` differs from a ``/``, and bytes that are no UTF-8 can be refused.
    """
    _, _, rest = raw_path.split(b"?", 1)[0].removeprefix(b"/").partition(b"/")
    try:
        return unquote_to_bytes(rest).decode()
    except UnicodeDecodeError:
        raise BadRequest("broken UTF-8", at="contextKey") from None
