"""Long texts among a call's params, cut where a hook event is read, or before it is sent to a gate that takes less."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

LONG: Final = 500_000
"""A text that is longer, in characters, is cut."""


def shortened(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The params with each long text cut to its begin and a digest of all of it.

    So equal texts stay equal, and others different. Texts inside of lists and objects stay as they are.
    """
    if not any(isinstance(value, str) and len(value) > LONG for value in params.values()):
        return params
    return {name: _cut(value) if isinstance(value, str) else value for name, value in params.items()}


def _cut(text: str) -> str:
    if len(text) <= LONG:
        return text
    from hashlib import blake2b  # noqa: PLC0415 - a hook process hardly ever needs it

    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{text[:LONG]}\n… {len(text)} characters, {digest}"
