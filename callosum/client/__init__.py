"""The gate over a wire: ``CallosumClient`` and its async face.

::

    client.CallosumClient ── transport.Transport ── http1    one request, one hard deadline
        ├─ messages          requests and answers as JSON
        │  no answer in time
        ├─ fallback.Table    the highest tier a tool can have: 0 to 2 go on, 3 and 4 do not
        └─ late.Late         what went on is journalled once the gate is back

``transport``, ``http1``, ``sse``, ``fallback`` and ``late`` need the standard library alone, so that a hook
process which imports one of them starts fast; the names below are therefore loaded when they are asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from callosum.client.asynchronous import AsyncCallosumClient
    from callosum.client.client import CallosumClient, EventStream, StreamEvent

__all__ = ["AsyncCallosumClient", "CallosumClient", "EventStream", "StreamEvent"]

_PLACES = {
    "AsyncCallosumClient": "asynchronous",
    "CallosumClient": "client",
    "EventStream": "client",
    "StreamEvent": "client",
}


def __getattr__(name: str) -> object:
    """Loads a public name when it is first asked for."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - the one import that a hook need not pay for

    found: object = getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = found
    return found
