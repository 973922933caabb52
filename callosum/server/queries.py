"""Read the query of a request, and the key in its path. Reading is strict, and errors name the parameter."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Final, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from callosum.model import DEFAULT_NAMESPACE
from callosum.wire import MAX_PATH, BadRequest, fault_of


class HookQuery(Struct, frozen=True, rename="camel", kw_only=True):
    """``POST /hooks/{host}``. ``instance`` is the host's name unless the event names another.

    ``pid`` is the process that calls the hook, on the server's own machine. ``home`` is that process's home folder.
    ``deadline`` and ``timeout_ms`` say how long the hook waits, as in ``Call``.
    """

    instance: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType = UNSET
    home: Annotated[str, Meta(min_length=1, max_length=MAX_PATH)] | UnsetType = UNSET
    deadline: str | UnsetType = UNSET
    timeout_ms: int | UnsetType = UNSET


class EventsQuery(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """``GET /events``. ``types`` holds dotted names separated by commas: ``tool.*``, ``*``."""

    types: str = "*"
    namespace: str | None = None


SEVERAL: Final = frozenset(("key",))
"""Parameters that may occur several times in a query."""

T = TypeVar("T", bound=Struct)


def read_query(kind: type[T], query: bytes) -> T:
    """Read a query string into ``kind``. Raises ``BadRequest`` that names the malformed parameter."""
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
            raise BadRequest("occurs more than once", at=name[:100])
        found[name] = value
    try:
        result = msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise fault_of(error, kind) from None
    for name, attribute in _attributes_of(kind):
        if name in found and getattr(result, attribute) is None:  # msgspec reads the text "null" as no value
            raise BadRequest('expected a value, got "null"', at=name)
    return result


@cache
def _attributes_of(kind: type[Struct]) -> tuple[tuple[str, str], ...]:
    """Return each parameter with its attribute. Cached, because reading the fields compiles annotations."""
    return tuple((field.encode_name, field.name) for field in msgspec.structs.fields(kind))


@cache
def _several_in(kind: type[Struct]) -> frozenset[str]:
    """Return the parameters that may be repeated."""
    return SEVERAL & {name for name, _ in _attributes_of(kind)}


def key_of_path(raw_path: bytes) -> str:
    """Return the part of a path after its first name (``/lock/KEY``), percent-decoded.

    Reads the raw path: only there does ``%2F`` differ from ``/``, and bytes that are not UTF-8 can be refused.
    """
    _, _, rest = raw_path.split(b"?", 1)[0].removeprefix(b"/").partition(b"/")
    try:
        return unquote_to_bytes(rest).decode()
    except UnicodeDecodeError:
        raise BadRequest("broken UTF-8", at="contextKey") from None
