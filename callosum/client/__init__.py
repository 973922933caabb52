"""Talk to a gate over the network: ``CallosumClient`` and its async counterpart.

::

    client.CallosumClient ── transport.Transport ── http1    one request, one hard deadline
        ├─ messages             requests and responses as JSON
        │  gate unreachable
        ├─ fallback.TierTable   the highest tier a tool can have: tiers 0 to 2 continue, 3 and 4 are blocked
        └─ spool.ClientSpool    calls that ran without the gate, journalled once it is reachable again

``transport``, ``http1``, ``sse``, ``fallback`` and ``spool`` need only the standard library, so a hook process that
imports one of them starts fast. For the same reason the names below are imported on first access.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from callosum.client.asynchronous import AsyncCallosumClient
    from callosum.client.client import CallosumClient, EventStream, StreamEvent

__all__ = ["AsyncCallosumClient", "CallosumClient", "EventStream", "StreamEvent"]

_MODULES = {
    "AsyncCallosumClient": "asynchronous",
    "CallosumClient": "client",
    "EventStream": "client",
    "StreamEvent": "client",
}


def __getattr__(name: str) -> object:
    """Import a public name on first access."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - hooks never reach this import

    value: object = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
