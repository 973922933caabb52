"""Canonical context keys: one resource, one spelling.

A key is ``entity:value``. ``file:`` values are paths, joined to the call's working directory and
normalised lexically (symbolic links are not followed: that would need the disk); ``email:`` values
are bare lower-case addresses; ``url:`` values have scheme and host in lower case; all others are
trimmed. No key holds control characters, none is longer than ``MAX_KEY``, and only what covers
others, a directory or all things of a kind, ends in ``/``.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from hashlib import blake2b
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from callosum.model import MAX_KEY, Key, Mode
from callosum.rules import lexicon as lex

if TYPE_CHECKING:
    from collections.abc import Mapping

READ: Final = Mode.READ
WRITE: Final = Mode.WRITE
APPEND: Final = Mode.APPEND
"""The modes by a name that is found at once: a member looked up in its class costs as much as making a key."""

MAX_KEYS: Final = 64
"""How many keys one call can have."""
MAX_VALUE: Final = 65_536
"""How many characters of one value are read for keys."""

_ADDRESS: Final = re.compile(r"[^\s<>,;:\"'()\[\]\\@]{1,256}@[^\s<>,;:\"'()\[\]\\@]{1,256}")
_SHORT: Final = 4096
"""Characters up to which ``_ADDRESS`` is quick; it looks at each up to 256 times."""
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_ANCHORED: Final = re.compile(r"[A-Za-z]:[\\/]|~|\\\\|\s")
"""What begins a path that is not relative, or would be trimmed."""
_DOMAIN: Final = re.compile(r"[\w.-]+", re.ASCII)
_PREFIX: Final = re.compile(r"[a-z][a-z0-9_.+-]*:")


def text(value: Any) -> str | None:
    """Return a scalar's text as it stands in a key, None where it has none.

    ``1.0`` is ``1``, ``True`` is ``true``. Blank strings, None, lists and objects have no text.
    """
    kind = type(value)
    if kind is str:
        return value.strip() or None
    if kind is int:
        try:
            return str(value)
        except ValueError:  # more digits than Python is willing to print
            return hex(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        if not isfinite(value):
            return None
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return (str.__str__(value).strip() or None) if isinstance(value, str) else None


def clean(value: str) -> str:
    """Return ``value`` trimmed, with controls and white space as spaces and a bar percent-encoded.

    A bar would start a facet, which only a rule may do. Characters that nobody sees or that turn the direction of a
    text stay, since a file may be called so: whoever shows a key to a reader escapes them.
    """
    if len(value) > MAX_VALUE:
        value = _shorten(value, MAX_VALUE)
    if not value.isprintable():
        value = "".join(map(_kept, value))
    if "|" in value:
        value = value.replace("|", "%7C")
    if not value.isascii():  # last: an accent belongs to the letter that stands before it now
        value = unicodedata.normalize("NFC", value)
    return value.strip()


def _kept(char: str) -> str:
    category = "" if char.isprintable() else unicodedata.category(char)
    return char if category in ("", "Cf") else "\ufffd" if category == "Cs" else " "


def with_old_spelling(found: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return keys, with the spelling of the version before behind them: it left hidden characters out.

    Sessions of both versions on one store meet there. The next release drops it.
    """
    hidden = [key for key in found if not key.name.isprintable()]
    if not hidden:
        return found
    return merge([*found, *[Key(old, key.mode) for key in hidden for old in _old_spelling(key.name)]])[0]


def _old_spelling(name: str) -> tuple[str, ...]:
    bare = "".join(filter(str.isprintable, name))
    if bare.partition("|")[0].endswith(":"):
        return ()  # nothing but hidden characters named the thing: that version derived no key
    return tuple([unicodedata.normalize("NFC", item) for item in named(bare)])


def path(value: str, cwd: str | None = None, *, tree: bool = False) -> str:
    """Return a path in its one spelling; with ``tree`` (or a trailing slash) it ends in ``/``.

    Relative paths are joined to ``cwd``; without one they stay relative. ``~/x`` stays so, since nothing here may ask
    the machine where home is (see ``homed``); ``$HOME/x`` is ``~/x``. ``file://`` addresses are paths too. A relative
    path that comes out like a drive, a home or a share keeps its ``./``: a file below may be called so.
    """
    if value[:7] == "file://":
        value = value[7:] if value[7:8] == "/" else "/" + value[7:].partition("/")[2]
    if (
        value[:1] != "/"
        and "\\" in value
        and (value[:2] == "\\\\" or _DRIVE.match(value) or (cwd and _DRIVE.match(cwd)))
    ):
        value = value.replace("\\", "/")
    if value[:1] == "/":
        if not tree and value[-1] != "/" and "/." not in value and "//" not in value:
            return value
    elif _DRIVE.match(value):
        value = value[0].lower() + value[1:]
    elif value[:1] == "$" and (match := _HOME.match(value)):
        value = "~" + value[match.end() :]
    elif cwd and value[:1] != "~":
        if _DRIVE.match(cwd):
            cwd = cwd[0].lower() + cwd[1:].replace("\\", "/")
        value = cwd.rstrip("/") + "/" + value
    last = value.rsplit("/", 1)[-1]
    tree = tree or last in ("", ".", "..")
    joined = _folded(value)
    if tree and joined != "/":
        joined = (joined or ".") + "/"
    if _ANCHORED.match(joined) and not _ANCHORED.match(value):
        return "./" + joined  # a file that is called ``~`` here is nobody's home
    return joined


def _folded(value: str) -> str:
    """Return a path without empty parts, ``.`` and what ``..`` takes back."""
    root = "/" if value[:1] == "/" else ""
    parts: list[str] = []
    for part in value.split("/"):
        if part == "..":
            if parts and parts[-1] != ".." and not (len(parts) == 1 and parts[0][:1] == "~"):
                if not (len(parts) == 1 and parts[0][1:] == ":"):
                    parts.pop()
            elif not root:
                parts.append(part)
        elif part and part != ".":
            parts.append(part)
    return root + "/".join(parts)


_HOME: Final = re.compile(r"\$(?:HOME|\{HOME\})(?=/|$)")


def at_home(value: str, home: str) -> str:
    """Return a path that begins with ``~`` by the home it means, in its one spelling."""
    rest = value.partition("/")[2]
    return path(f"{home}/{rest}", tree=value[-1] == "/")


def homed(found: tuple[Key, ...], home: str | None, homes: Mapping[str, str] | None) -> tuple[Key, ...]:
    """Return keys with ``~`` and ``~user`` as the homes they mean; the spelling with ``~`` stays behind them.

    Sessions of the version before, which kept ``~``, are met there. The next release drops it.
    """
    made, before = list(found), []
    for number, key in enumerate(found):
        kind, _, value = key.name.partition(":")
        if value[:1] != "~" or kind not in lex.PATH_KEY_KINDS:
            continue
        place, bar, facet = value.partition("|")
        user = place.partition("/")[0][1:]
        meant = (homes or {}).get(user) if user else home
        if meant:
            made[number] = Key(fit(f"{kind}:{clean(at_home(place, meant))}{bar}{facet}"), key.mode)
            before.append(key)
    return merge([*made, *before])[0] if before else found


def addresses(value: str) -> list[str]:
    """Return the e-mail addresses in ``value``, bare and lower-case, in order, each once.

    A domain in other letters is spelled as it is sent (``xn--``). Letters that look alike are not
    folded: they are other addresses.
    """
    if len(value) > MAX_VALUE:
        value = value[:MAX_VALUE]
    if "?" in value and value[:7].lower() == "mailto:":
        value = _MORE_ADDRESSES.sub(",", value).partition("?")[0].partition("&")[0]
    found = (_ADDRESS if len(value) <= _SHORT else _linear()).findall(value)
    return list(dict.fromkeys(map(_bare if value.isascii() else _sent, found)))


@cache
def _linear() -> Any:
    """Return ``_ADDRESS`` for long texts."""
    import re2  # noqa: PLC0415 - hardly ever needed

    return re2.compile(_ADDRESS.pattern)


_MORE_ADDRESSES: Final = re.compile(r"[?&](?:to|cc|bcc)=", re.IGNORECASE)


def _bare(address: str) -> str:
    return address.lower().lstrip(".").rstrip("./")


def _sent(address: str) -> str:
    address = clean(_bare(address))
    name, _, domain = address.rpartition("@")
    if not domain.isascii():
        try:
            sent = domain.encode("idna").decode()
        except UnicodeError:
            return _bare(address)
        if _DOMAIN.fullmatch(sent):  # a broad ``\uff20`` becomes a sign that no domain holds
            return _bare(f"{name}@{sent}")
    return _bare(address)


def untagged(found: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the keys with ``alice+news@x.org`` as ``alice@x.org``: most mail servers deliver both to one."""
    return merge([Key(_TAG.sub(r"\1\2", key.name), key.mode) for key in found])[0]


_TAG: Final = re.compile(r"^(email:(?!thread:)[^+@]+)\+[^@]*(@[^@]+)$")


def repository(value: str) -> str:
    """Return a hosted repository as ``owner/name``, from its name or from any of its addresses."""
    value = value.strip().removesuffix("/").removesuffix(".git")
    if "://" in value:
        value = value.split("://", 1)[1].partition("/")[2]
    elif "@" in value and ":" in value:
        value = value.partition(":")[2]
    parts = [part for part in value[:MAX_KEY].split("/") if part]
    return "/".join(parts[:2]) if parts else ""


_URL: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]{0,31})://(?:[^/?#]{0,512}@)?([^/?#]{0,512})([^#]*)(#[!/].*)?", re.DOTALL
)
_PORTS: Final = {"http": ":80", "https": ":443", "ws": ":80", "wss": ":443"}


def url(value: str) -> str:
    """Return an address in its one spelling: scheme and host in lower case, without what names no other page.

    The scheme's own port, a name and password, a place in the page and a last slash are dropped.
    """
    match = _URL.match(value)
    if match is None:
        return value.rstrip("/ ")
    scheme, host, rest, route = match.groups()
    scheme = scheme.lower()
    host = host.lower().removesuffix(_PORTS.get(scheme, "\0"))
    route = (route or "").rstrip("/ ")
    return f"{scheme}://{host}{rest}{'' if route == '#' else route}".rstrip("/ ")


def canonical(name: str, cwd: str | None = None) -> tuple[str, ...]:
    """Return the canonical spelling of a whole key somebody wrote (several for several addressees).

    Empty where nothing is left of it.
    """
    entity, colon, value = name.strip().partition(":")
    entity = clean(entity)
    if colon and _PREFIX.match(entity.lower() + ":"):
        entity = entity.lower()
    if not colon:
        return (fit(entity),) if entity else ()
    return spell(entity + ":", value, cwd)


def named(name: str, cwd: str | None = None) -> tuple[str, ...]:
    """Return the canonical spelling of a key as people and programs name it: for a lock, a report, a question.

    As ``canonical``, but what ends in ``/`` is a tree and what stands behind a bar a facet. So a key that the gate has
    given stays as it is. A text whose first colon stands behind several words is no kind of thing's key, and is
    returned as it is. Empty where nothing is left of it.
    """
    whole, bar, facet = name.strip().partition("|")
    whole = whole.rstrip()
    kind, _, value = whole.partition(":")
    if " " in kind:
        return (name.strip(),)
    if bar and whole.lower() == "thread:":
        return thread(facet)
    ending = bar + "|".join(map(clean, facet.split("|"))) if bar else ""
    if value.strip() == "/":  # all things of a kind
        return (fit(f"{clean(kind.lower())}:/{ending}"),)
    if value[-1:] == "/" and kind.lower() not in ("file", "url"):
        bare = whole.rstrip("/ ")
        whole, ending = bare, whole[len(bare) :] + ending
    found = canonical(whole, cwd)
    return tuple([fit(item + ending) for item in found]) if ending else found


def spell(prefix: str, value: str, cwd: str | None = None, *, tree: bool = False) -> tuple[str, ...]:
    """Return the keys for ``value`` under a prefix such as ``file:``. Empty for an empty value."""
    if len(value) <= 512:
        return _spell_memo(prefix, value, cwd if prefix == "file:" else None, tree)
    return _spell(prefix, value, cwd, tree)


def channels(value: str) -> tuple[str, ...]:
    """Return a channel's spellings: a name without ``#`` is spelled with it too, so that it meets the name with it."""
    return (value, "#" + value) if _CHANNEL.fullmatch(value) else (value,)


_CHANNEL: Final = re.compile(r"[a-z][a-z0-9_-]{0,79}")


def thread(id: str) -> tuple[str, ...]:
    """Return the key of a thread that is named without the one it is with: ``thread:|msg-500``."""
    id = clean(id).rstrip("/ ")
    return (fit(f"thread:|{id}"),) if id else ()


def _spell(prefix: str, value: str, cwd: str | None, tree: bool) -> tuple[str, ...]:
    if prefix == "file:":
        value, cwd = clean(value), clean(cwd) if cwd else None
        return (fit(prefix + path(value, cwd, tree=tree)),) if value else ()
    if prefix == "email:" and not value.startswith("thread:"):
        value = clean(value)
        found = addresses(value)
        if found:
            return tuple(dict.fromkeys(fit(prefix + clean(item).rstrip("/ ")) for item in found))
        value = value.lower()
    if prefix == "url:":
        value = url(clean(value))
        return (fit(prefix + value),) if value else ()
    value = clean(value).rstrip("/ ")
    return (fit(prefix + value),) if value else ()


# Sessions name the same few things again and again.
_spell_memo = lru_cache(maxsize=4096)(_spell)


def fit(name: str) -> str:
    """Return ``name`` cut to ``MAX_KEY``: a cut name ends in a digest of the whole.

    A tree that is too long becomes the nearest tree above it: wider, never narrower.
    """
    if len(name) <= MAX_KEY:
        return name
    if name[-1] == "/":
        cut = name.rfind("/", 0, MAX_KEY)
        if cut > 0:
            return name[: cut + 1]
    return _shorten(name, MAX_KEY)


def _shorten(value: str, limit: int) -> str:
    digest = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{value[: limit - 33]}~{digest}"


def default_mode(name: str, effect: str) -> Mode:
    """Return what a call does to a key where no rule says it."""
    return READ if effect == "read" else APPEND if name.startswith("channel:") else WRITE


def only_read(found: tuple[Key, ...]) -> bool:
    """Return True if nothing is changed through any of some keys."""
    for key in found:  # noqa: SIM110 - a generator costs more than the loop
        if key.mode is not READ:
            return False
    return True


_FORCE: Final = {READ: 0, APPEND: 1, WRITE: 2}


def merge(keys: list[Key]) -> tuple[tuple[Key, ...], bool]:
    """Return the keys, each name once with its strongest mode, and whether some had to be left out.

    The first stays first; of too many the others are kept in the order of their names, so that two
    calls with the same long list keep the same ones.
    """
    if len(keys) < 2:
        return tuple(keys), False
    best: dict[str, Key] = {}
    for key in keys:
        other = best.get(key.name)
        if other is None or _FORCE[key.mode] > _FORCE[other.mode]:
            best[key.name] = key
    if len(best) <= MAX_KEYS:
        return tuple(best.values()), False
    first, *rest = best.values()
    return (first, *sorted(rest, key=lambda key: key.name)[: MAX_KEYS - 1]), True
