"""What is remembered of a call's content: digests and word hashes, never the content itself.

At most 350 bytes a call: three digests of 16 bytes, a sketch of the text of 256 (see ``wording``), and a digest
of its numbers. Everything here is keyed with the gate's secret, so that a store that leaks cannot be searched for
a guessed sentence without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from callosum.rules.normal import encode
from callosum.rules.opposites import contrary
from callosum.rules.wording import Sketcher, brief, near

__all__ = ["Hasher", "brief", "contrary", "near"]


class Hasher:
    """Makes the ``Content`` of calls. ``secret`` keys every hash (any length)."""

    __slots__ = ("_digest", "_origin", "_whole", "words")

    def __init__(self, secret: bytes) -> None:
        key = secret if len(secret) <= 64 else blake2b(secret).digest()
        self._digest = blake2b(digest_size=16, key=key, person=b"call")
        self._whole = blake2b(digest_size=16, key=key, person=b"whole")
        self._origin = blake2b(digest_size=16, key=key, person=b"origin")
        self.words = Sketcher(key).sketch
        """The sketch of a call's text; see ``wording``."""

    def digest(self, tool: str, params: Mapping[str, Any], *, whole: bool = False) -> bytes:
        """Return 16 bytes that are equal for calls of one tool that say the same. ``whole``: as ``normal.said`` tells.

        Order of keys, space around texts, ``1.0`` for ``1``, nulls, params whose names begin with
        ``_`` and mere metadata make no difference.
        """
        state = self._digest.copy()
        state.update(encode(tool, params, whole=whole))
        return state.digest()

    def whole(self, text: str) -> bytes:
        """Return 16 bytes for the exact content a resource will hold."""
        state = self._whole.copy()
        state.update(text.encode("utf-8", "surrogatepass"))
        return state.digest()

    def origin(self, origin: str) -> bytes:
        """Return 16 bytes for what caused a call."""
        state = self._origin.copy()
        state.update(origin.encode("utf-8", "surrogatepass"))
        return state.digest()
