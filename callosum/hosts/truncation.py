"""Cut long texts among a call's params, when a hook event is read or before a gate with a lower limit is asked."""

from __future__ import annotations

from callosum.unclean import UNREAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

LONG: Final = 500_000
"""Length in characters above which a text is cut."""


def shortened(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the params with each long text cut to its beginning and a digest of the whole text.

    Equal texts stay equal, and different texts stay different. Texts inside lists and objects are not cut. A param
    says which texts were cut, so that a call counts as risky if what was cut may matter.
    """
    long = [name for name, value in params.items() if isinstance(value, str) and len(value) > LONG]
    if not long:
        return params
    return {**params, **{name: _cut(params[name]) for name in long}, UNREAD: {"in": long[:64]}}


def _cut(text: str) -> str:
    from hashlib import blake2b  # noqa: PLC0415 - a hook process rarely needs it

    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{text[:LONG]}\n… {len(text)} characters, {digest}"
