"""What is remembered of a call's content: digests and word hashes, never the content itself.

Everything here is keyed with the gate's secret, so that a store that leaks cannot be searched for
a guessed sentence without it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from hashlib import blake2b
from struct import unpack
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from callosum.model import Content

WORDS: Final = 64
"""How many word hashes are kept of one text: the smallest, which makes them a sample of the set."""
FEW: Final = 4
"""Texts of fewer distinct words are never nearly equal, only equal."""
MAX_TEXT: Final = 16_384
"""How many characters of a call's text are read for its words."""
MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 40

METADATA: Final = frozenset(
    "idempotencyKey idempotency_key idempotencyToken idempotency_token clientToken client_token "
    "correlationId correlation_id traceId trace_id traceparent".split()
)
"""Params that say which attempt this is, not what it does: a retry has new ones."""
ABOUT_COMMAND: Final = frozenset("description timeout timeout_ms timeoutMs explanation reason".split())
"""Params beside a ``command`` that only tell about it."""
_TEXTS: Final = frozenset(
    "subject title message text body content html htmlBody caption comment reply note memo summary "
    "description prompt task markdown".split()
)

_WORD: Final = re.compile(r"\d+(?:[.,:]\d+)*|\w+")
_WIDE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TURNING: Final = frozenset(
    b"""
    no not never none cannot cant dont wont isnt arent didnt doesnt wasnt couldnt nothing yes ok without
    fail failed fails failure success succeeded passed accept accepted decline declined approve approved
    reject rejected cancel cancelled canceled open opened close closed start started stop stopped done
    pending enabled disabled monday tuesday wednesday thursday friday saturday sunday today tomorrow
    yesterday am pm january february march april may june july august september october november
    december one two three four five six seven eight nine ten first second third fourth fifth last next
    """.split()
)
"""Words on which a sentence turns: like numbers they must be equal in nearly equal texts."""


class Hasher:
    """Makes the ``Content`` of calls. ``secret`` keys every hash (any length)."""

    __slots__ = ("_digest", "_numbers", "_origin", "_whole", "_word", "_words")

    def __init__(self, secret: bytes) -> None:
        key = secret if len(secret) <= 64 else blake2b(secret).digest()
        self._digest = blake2b(digest_size=16, key=key, person=b"call")
        self._whole = blake2b(digest_size=16, key=key, person=b"whole")
        self._origin = blake2b(digest_size=16, key=key, person=b"origin")
        self._word = blake2b(digest_size=4, key=key, person=b"word")
        self._words: dict[bytes, bytes] = {}
        self._numbers: dict[bytes, bytes] = {}

    def digest(self, tool: str, params: Mapping[str, Any]) -> bytes:
        """Returns 16 bytes that are equal for calls of one tool that say the same.

        Order of keys, space around texts, ``1.0`` for ``1``, nulls, params whose names begin with
        ``_`` and mere metadata make no difference.
        """
        state = self._digest.copy()
        state.update(encode(tool, params))
        return state.digest()

    def whole(self, text: str) -> bytes:
        """Returns 16 bytes for the exact content a resource will hold."""
        state = self._whole.copy()
        state.update(_bytes(text))
        return state.digest()

    def origin(self, origin: str) -> bytes:
        """Returns 16 bytes for what caused a call."""
        state = self._origin.copy()
        state.update(_bytes(origin))
        return state.digest()

    def words(self, params: Mapping[str, Any]) -> tuple[bytes, bytes]:
        """Returns the sorted hashes of the words and of the numbers in a call's text.

        Both are empty for short texts. Numbers are those of the text, those among the params, and
        the words on which a sentence turns (``not``, ``tuesday``).
        """
        text, amounts = gather(params)
        found = split(text)
        if len(found) < FEW:
            return b"", b""
        try:
            hashes = [self._words[word] for word in found]
        except KeyError:  # a number, or a word that is new
            return self._sort(found, amounts)
        if amounts:
            return self._sort(found, amounts)
        hashes.sort()
        return b"".join(hashes[:WORDS]), b""

    def _sort(self, found: set[bytes], amounts: list[str]) -> tuple[bytes, bytes]:
        """Tells words from numbers, and learns those that are new."""
        hashes: set[bytes] = set()
        numbers: set[bytes] = set()
        for word in found:
            if (known := self._words.get(word)) is not None:
                hashes.add(known)
            elif (known := self._numbers.get(word)) is not None:
                numbers.add(known)
            else:
                self._learn(word, hashes, numbers)
        if len(hashes) < FEW:
            return b"", b""
        for amount in amounts:
            self._learn(amount.encode(), hashes, numbers)
        return b"".join(sorted(hashes)[:WORDS]), b"".join(sorted(numbers)[:WORDS])

    def _learn(self, word: bytes, hashes: set[bytes], numbers: set[bytes]) -> None:
        """Hashes a word and keeps it in the memo of its kind."""
        bare = word.strip(b".,:_")
        if not bare:
            return
        number = bare[:1].isdigit() or bare in _TURNING
        state = self._word.copy()
        state.update(bare)
        digest = state.digest()
        memo = self._numbers if number else self._words
        if len(word) <= 32:
            if len(memo) >= 8192:
                memo.clear()
            memo[word] = digest
        (numbers if number else hashes).add(digest)


def gather(params: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Returns the text that a call carries and the numbers among its params."""
    texts: list[str] = []
    others: list[str] = []
    amounts: list[str] = []
    for name, value in params.items():
        kind = type(value)
        if kind is str:
            (texts if name in _TEXTS else others).append(value)
        elif (kind is int or kind is float) and len(amounts) < 16:
            amounts.append(hex(int(value)) if value % 1 == 0 else f"{value:.12g}")
    texts = texts or others
    if len(texts) == 1:
        return texts[0][:MAX_TEXT], amounts
    return " ".join(one[:MAX_TEXT] for one in texts[:16])[:MAX_TEXT], amounts


_PHRASES: Final = frozenset(("message", "text", "body", "content", "caption", "comment", "reply"))
_NOT_ALONE: Final = frozenset(
    (
        "subject",
        "title",
        "media",
        "attachments",
        "attachment",
        "file",
        "files",
        "path",
        "image",
        "buttons",
        "blocks",
    )
)


def brief(params: Mapping[str, Any]) -> bool:
    """Tells whether a message is a short phrase ("ok", "on it"), whose repetition means nothing.

    At most three words and 32 characters, with nothing beside them such as a subject or a picture.
    """
    text = ""
    for name, value in params.items():
        if name in _PHRASES and type(value) is str:
            if text or len(value) > 64:
                return False
            text = value.strip()
        elif name in _NOT_ALONE and value:
            return False
    return 0 < len(text) <= 32 and len(_WORD.findall(text)) <= 3 and (text.isascii() or len(_WIDE.findall(text)) <= 8)


def split(text: str) -> set[bytes]:
    """Returns the words of a text in lower case, with the dots and colons that numbers need."""
    if text.isascii():
        return set(text.encode().translate(_ASCII, b"'").split())
    text = unicodedata.normalize("NFKC", text.lower()).replace("\u2019", "").replace("'", "")
    found: set[bytes] = set()
    for word in _WORD.findall(text):
        if _WIDE.search(word):  # a script without spaces: pairs of characters
            found.update(_bytes(word[at : at + 2]) for at in range(max(1, min(len(word), 2048) - 1)))
        else:
            found.add(_bytes(word))
    return found


_ASCII: Final = bytes(
    ord(chr(number).lower()) if number < 128 and (chr(number).isalnum() or chr(number) in "_.,:") else 32
    for number in range(256)
)


def near(a: Content, b: Content) -> bool:
    """Tells whether two texts are nearly equal: a greeting or a word changed, no number.

    The measure is that of a token-set ratio of at least 0.9 over the word hashes; besides, the
    longer text may not be much longer than the shorter one (an acknowledgement and then the answer
    are two texts). False where either text is short: then only equal digests count.
    """
    if not a.words or not b.words or a.numbers != b.numbers:
        return False
    if a.words == b.words:
        return True
    if len(a.words) % 4 or len(b.words) % 4:
        return False
    left, right = (
        set(unpack(f">{len(a.words) // 4}I", a.words)),
        set(unpack(f">{len(b.words) // 4}I", b.words)),
    )
    # A full set is a sample: it says nothing about hashes above its greatest.
    full = [max(one) for one in (left, right) if len(one) >= WORDS]
    if full:
        top = min(full)
        left, right = {one for one in left if one <= top}, {one for one in right if one <= top}
    common, fewer, more = len(left & right), min(len(left), len(right)), max(len(left), len(right))
    return common >= FEW and 2 * common >= 0.9 * (common + fewer) and common >= 0.65 * more


def contrary(stance: str) -> str:
    """Returns the opposite stance (``+attend`` for ``-attend``), ``""`` for none."""
    if stance[:1] == "+":
        return "-" + stance[1:]
    return "+" + stance[1:] if stance[:1] == "-" else ""


def encode(tool: str, params: Mapping[str, Any]) -> bytes:
    """Returns the normalised call as bytes, whatever the params hold. Never raises."""
    try:
        flat: dict[str, Any] = {}
        left_out = METADATA | ABOUT_COMMAND if "command" in params else METADATA
        check = not left_out.isdisjoint(params)
        for name, value in params.items():
            if value is None or name[0] == "_" or (check and name in left_out):
                continue
            kind = type(value)
            if kind is str:
                flat[name] = value.strip()
            else:
                flat[name] = value if kind is int or kind is bool else _normal(value)
        return _encode((tool, flat))
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError, AttributeError):
        return _slow(tool, params)


def _normal(value: Any) -> Any:
    """Returns a nested value without nulls and without differences that mean nothing."""
    left = MAX_NODES

    def walk(value: Any, depth: int) -> Any:
        nonlocal left
        kind = type(value)
        if kind is str:
            return value.strip()
        if kind is int or kind is bool or value is None:
            return value
        if kind is float:
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            return value  # as it came: still the same for the same bytes
        if kind is dict:
            left -= len(value)
            return {name: walk(one, depth + 1) for name, one in value.items() if one is not None}
        if kind is list or kind is tuple:
            left -= len(value)
            if left < 0:
                return value
            return [walk(one, depth + 1) for one in value]
        return value

    return walk(value, 0)


def _plain(value: Any) -> str:
    """Returns text for an object that JSON does not know: never an address in memory."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if _own(kind, "__str__") is object and _own(kind, "__repr__") is object:
        return name
    try:
        return f"{name}:{str(value)[:MAX_TEXT]}"
    except Exception:  # noqa: BLE001 - whatever a stranger's __str__ raises
        return name


def _own(kind: type, name: str) -> type | None:
    """Returns the class that a type has a method from."""
    return next((one for one in kind.__mro__ if name in vars(one)), None)


_encode: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic", enc_hook=_plain).encode


def _slow(tool: str, params: Mapping[str, Any]) -> bytes:
    """Encodes what the fast encoder refuses: lone surrogates, strange keys and types, great depth."""
    left = MAX_NODES

    def walk(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            return "..."
        if isinstance(value, str):
            return str.__str__(value).strip()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return hex(value)
        if isinstance(value, float):
            return walk(int(value), depth) if value.is_integer() and abs(value) < 2**53 else repr(value)
        if isinstance(value, Mapping):
            return {
                str.__str__(name) if isinstance(name, str) else _plain(name): walk(one, depth + 1)
                for name, one in value.items()
                if one is not None
            }
        if isinstance(value, (list, tuple)):
            return [walk(one, depth + 1) for one in value]
        if isinstance(value, (set, frozenset)):
            return sorted(json.dumps(walk(one, depth + 1), sort_keys=True) for one in value)
        if isinstance(value, (bytes, bytearray)):
            return bytes(value).hex()
        return _plain(value)

    about = "command" in params
    kept = {
        name: value
        for name, value in params.items()
        if not (isinstance(name, str) and (name[:1] == "_" or name in METADATA or (about and name in ABOUT_COMMAND)))
    }
    return json.dumps([tool, walk(kept, 0)], sort_keys=True, separators=(",", ":")).encode()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
