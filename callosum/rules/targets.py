"""Keys of a call that no rule names: which of its arguments is the thing it changes.

The target rule: a write changes the thing that the tool's name speaks of; the other ids among its
arguments are references and conflict with nothing. What is put into a container (``add_comment``
to an issue) appends to a facet of it, ``issue:7|comment``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.model import Call, Key, Mode
from callosum.rules import keys, slots
from callosum.rules import lexicon as lex
from callosum.rules.name import Name, singular, words
from callosum.rules.template import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PARAMS: Final = 256
"""How many params of a call are looked at for keys."""

_NONE, _ID, _PATH, _MAIL, _URL, _NAME, _SCOPE, _OWNER, _REPO, _THREAD = range(10)

_ID_ENDS: Final = frozenset(
    "id ids uuid guid number numbers no num ref slug iban handle sku ts arn urn identifier".split()
)
_PATHS: Final = frozenset(
    "path paths file_path filepath filename file_name absolute_path relative_path target_file "
    "notebook_path directory folder dir dir_path directory_path folder_path dir_name destination_path "
    "source_path old_path new_path".split()
)
_MAILS: Final = frozenset(
    "to cc bcc recipient recipients email emails email_address to_email to_emails addressee addressees address".split()
)
_THREADS: Final = frozenset(
    "thread_id threadid thread_ts threadts in_reply_to inreplyto reply_to replyto reply_to_id replytoid "
    "reply_to_message_id".split()
)
_NAMES: Final = frozenset("name slug username title_slug key".split())
_NOT_IDS: Final = frozenset("page line port version row column phone_country build max min".split())
_UNKNOWN: Final = (1, 0)
_PAYEES: Final = (
    "recipient",
    "payee",
    "to",
    "iban",
    "beneficiary",
    "destination",
    "to_account",
    "invoice",
    "order",
    "customer",
    "account",
    "subscription",
    "payment",
)
_MOVES: Final = frozenset("move rename mv".split())
_COPIES: Final = frozenset("copy cp duplicate".split())
_SOURCES: Final = frozenset("source src from source_path src_path old_path from_path".split())


@lru_cache(maxsize=4096)
def _role(name: str) -> tuple[int, str]:
    """Returns what a param of this name holds, and the thing it names."""
    low = name.lower().replace("-", "_")
    found = words(name)
    plain = "_".join(found)
    if low in _PATHS or plain in _PATHS:
        return _PATH, low
    if plain in _THREADS:
        return _THREAD, "thread"
    if plain in _MAILS:
        return _MAIL, plain
    if plain in ("url", "uri", "link", "href") or plain.endswith(("_url", "_uri")):
        return _URL, plain
    if plain in ("owner", "org") or plain == "repo_owner":
        return _OWNER, plain
    if plain in ("repo", "repository", "repo_name"):
        return _REPO, plain
    if plain in _NAMES:
        return _NAME, plain
    if not found or plain in lex.IGNORED:
        return _NONE, ""
    if found[-1] in _ID_ENDS or (found[-1] == "account" and len(found) > 1):
        rest = [singular(one) for one in found[:-1] if one not in lex.QUALIFIERS]
        entity = rest[-1] if rest else ""
        if entity == "file":
            entity = "file-id"  # a drive's number, no path
        if entity in _NOT_IDS:
            return _NONE, ""
        if entity in lex.SCOPES or "_".join(rest) in lex.SCOPES:
            return _SCOPE, entity
        return _ID, entity
    rest = [singular(one) for one in found if one not in lex.QUALIFIERS]
    return _NONE, rest[-1] if len(rest) == 1 else ""


class _Found:
    """The arguments of one call, sorted by what they hold."""

    __slots__ = ("ids", "mails", "names", "owner", "paths", "repo", "scopes", "threads", "urls")

    def __init__(self, params: Mapping[str, Any], nouns: tuple[str, ...]) -> None:
        self.ids: dict[str, list[str]] = {}
        self.scopes: dict[str, list[str]] = {}
        self.mails: list[str] = []
        self.paths: list[tuple[str, str]] = []
        self.urls: list[str] = []
        self.names: list[str] = []
        self.threads: list[str] = []
        self.owner = self.repo = ""
        for name, value in islice(params.items(), MAX_PARAMS):
            kind = type(value)
            if value is None or kind is bool or type(name) is not str or name[:1] == "_":
                continue
            role, entity = _role(name) if len(name) <= 64 else (_NONE, "")
            if role == _NONE:
                self._unnamed(entity, value, nouns)
            elif texts := _short(value):
                self._named(role, entity, texts)

    def _unnamed(self, entity: str, value: Any, nouns: tuple[str, ...]) -> None:
        """Takes an argument whose name says little: an address as such, or a noun of the tool."""
        kind = type(value)
        if kind is str and len(value) <= 320 and "@" in value and " " not in value.strip() and keys.addresses(value):
            self.mails.append(value)
        elif entity and entity in nouns and kind is not dict:
            if texts := _short(value):
                self.ids.setdefault(entity, []).extend(texts)
        elif kind is list and value and all(type(one) is str and len(one) <= 320 and "@" in one for one in value[:256]):
            self.mails.extend(value[:256])

    def _named(self, role: int, entity: str, texts: list[str]) -> None:
        if role == _ID:
            self.ids.setdefault(entity, []).extend(texts)
        elif role == _PATH:
            self.paths.extend((entity, one) for one in texts)
        elif role == _MAIL:
            self.mails.extend(texts)
        elif role == _SCOPE:
            self.scopes.setdefault(entity, []).extend(texts)
        elif role == _THREAD:
            self.threads.extend(texts)
        elif role == _URL:
            self.urls.extend(texts)
        elif role == _NAME:
            self.names.extend(texts)
        elif role == _OWNER:
            self.owner = texts[0]
        else:
            self.repo = texts[0]


def _short(value: Any) -> list[str]:
    if type(value) is str:
        value = value.strip()
        return [value] if value and len(value) <= 4096 else []
    return [one for one in flatten(value) if len(one) <= 4096]


def derive(call: Call, params: Mapping[str, Any], name: Name, verb: str, tier: int, effect: str) -> tuple[Key, ...]:
    """Returns the keys of a judged call, none where nothing in it names a thing."""
    if not params:
        return ()
    found = _Found(params, name.nouns)
    made = _read(found, name, call.cwd) if effect == "read" else _write(call, params, found, name, verb, tier)
    merged, _ = keys.merge(made)
    return merged


def _scoped(entity: str, value: str, found: _Found) -> str:
    value = keys.clean(value).rstrip("/")
    if found.repo:
        where = f"{found.owner}/{found.repo}" if found.owner else found.repo
        return keys.fit(f"{entity}:{keys.clean(where).lower()}/{value}")
    return keys.fit(f"{entity}:{value}")


def _repo(found: _Found) -> str:
    return keys.fit("repo:" + keys.clean(f"{found.owner}/{found.repo}" if found.owner else found.repo).lower())


def _read(found: _Found, name: Name, cwd: str | None) -> list[Key]:
    made = [Key(one, Mode.READ) for _, path in found.paths for one in _file(path, found, cwd)]
    about = {entity: values for entity, values in found.ids.items() if entity in name.nouns or not entity} or found.ids
    for entity, values in (about or {one: two for one, two in found.scopes.items() if one in name.nouns}).items():
        made += [Key(_scoped(entity or name.head or "id", one, found), Mode.READ) for one in values]
    if not made and found.repo:
        made.append(Key(_repo(found), Mode.READ))
    if not made:
        made = [Key(one, Mode.READ) for url in found.urls for one in keys.spell("url:", url)]
    return made


def _file(path: str, found: _Found, cwd: str | None, *, tree: bool = False) -> tuple[str, ...]:
    if found.repo:  # a path inside a hosted repository, not on this machine
        return (_scoped("blob", path.lstrip("/"), found),)
    return keys.spell("file:", path, cwd, tree=tree)


def _write(call: Call, params: Mapping[str, Any], found: _Found, name: Name, verb: str, tier: int) -> list[Key]:
    nouns = set(name.nouns)
    if (
        tier == 4
        and (verb in lex.PAYS or "amount" in params)
        and (verb in lex.ADDS or lex.VERBS.get(verb, _UNKNOWN)[0] == 4)
    ):
        paid = _payment(params, found)
        if paid:
            return paid
    addressed = verb in lex.ADDRESSED or bool(nouns & (lex.MAILS | lex.TALK))
    sends = (verb in lex.SENDS and addressed) or bool(nouns & lex.MAILS and verb in ("create", "schedule"))
    made: list[Key] = []
    if sends and found.mails:
        made += _addressees(found)
        if made:
            replied = found.threads or (found.ids.get("message", []) if verb in ("reply", "forward", "respond") else [])
            made += [one for thread in replied for one in _keys("email:thread:", thread, Mode.WRITE)]
            return made
    if sends:
        made = _talk(found, verb, nouns)
        if made:
            return made
    if "event" in nouns and verb not in ("accept", "decline", "rsvp", "cancel", *lex.DESTROYS):
        made += [Key(one, Mode.WRITE) for one in slots.derive(params)]
    made += _files(found, name, verb, call.cwd, params)
    made += _things(found, name, verb)
    if not made and found.mails and verb not in lex.DESTROYS:
        made = _addressees(found)
    return made


def _addressees(found: _Found) -> list[Key]:
    return [
        Key(keys.fit("email:" + keys.clean(one)), Mode.WRITE) for mail in found.mails for one in keys.addresses(mail)
    ]


def _keys(prefix: str, value: str, mode: Mode) -> list[Key]:
    return [Key(one, mode) for one in keys.spell(prefix, value)]


def _payment(params: Mapping[str, Any], found: _Found) -> list[Key]:
    """Whom a payment goes to, or what is paid: the first that is there."""
    for name in _PAYEES:
        value = params.get(name)
        texts = _short(value) if value is not None and not isinstance(value, (dict, bool)) else found.ids.get(name, [])
        if texts:
            return [key for one in texts for key in _keys("payment:", one, Mode.WRITE)]
    return [
        key for values in list(found.ids.values())[:1] for one in values for key in _keys("payment:", one, Mode.WRITE)
    ]


def _talk(found: _Found, verb: str, nouns: set[str]) -> list[Key]:
    """A message goes into a channel or, as a reply, into a thread."""
    where = found.ids.get("channel") or found.mails or found.ids.get("phone") or found.ids.get("user", [])
    if not where:
        return []
    if found.threads and (verb in ("reply", "respond") or "reply" in nouns or "message" in nouns):
        return [Key(keys.fit(f"thread:{keys.clean(one)}:{keys.clean(found.threads[0])}"), Mode.WRITE) for one in where]
    if nouns & lex.TALK or nouns & lex.MAILS or verb in ("dm", "message", "text", "notify", "tweet"):
        return [key for one in where for key in _keys("channel:", one, Mode.APPEND)]
    return []


def _files(found: _Found, name: Name, verb: str, cwd: str | None, params: Mapping[str, Any]) -> list[Key]:
    made = []
    tree = verb in lex.DESTROYS and (params.get("recursive") is True or name.head == "directory")
    for entity, path in found.paths:
        mode = Mode.READ if entity in _SOURCES and verb in _COPIES else Mode.WRITE
        made += [Key(one, mode) for one in _file(path, found, cwd, tree=tree)]
    if verb in _MOVES | _COPIES:
        for entity in ("source", "src", "destination", "dest", "dst", "from", "to"):
            value = params.get(entity)
            if isinstance(value, str) and value.strip() and ("/" in value or "." in value or "\\" in value):
                mode = Mode.READ if entity in _SOURCES and verb in _COPIES else Mode.WRITE
                made += [Key(one, mode) for one in _file(value, found, cwd)]
    return made


def _things(found: _Found, name: Name, verb: str) -> list[Key]:
    """The target rule."""
    if found.paths and not found.ids:
        return []
    head = name.head
    entity = next((one for one in name.nouns if one in found.ids), None)
    if entity is None and "file" in name.nouns and "file-id" in found.ids:
        entity = "file-id"
    if entity is None and "" in found.ids:
        entity = ""
    adds = verb in lex.ADDS
    if entity is None and adds and found.names and head:
        return [Key(_scoped(head, one, found), Mode.WRITE) for one in found.names]
    if entity is not None:
        thing = entity or head or "id"
        head = "file-id" if head == "file" and entity else head
        facet = f"|{head}" if adds and head and head != thing else ""
        mode = Mode.APPEND if facet else Mode.WRITE
        return [Key(keys.fit(_scoped(thing, one, found) + facet), mode) for one in found.ids[entity]]
    scope = next((one for one in name.nouns if one in found.scopes), None)
    if scope is not None:
        return [Key(_scoped(scope, one, found), Mode.WRITE) for one in found.scopes[scope]]
    if found.ids and not (adds and found.repo):
        mode = Mode.APPEND if adds else Mode.WRITE
        facet = f"|{head}" if adds and head else ""
        return [
            Key(keys.fit(_scoped(thing or "id", one, found) + facet), mode)
            for thing, values in found.ids.items()
            for one in values
        ]
    if found.repo:
        if ("repo" in name.nouns and head == "repo") or not head:
            return [Key(_repo(found), Mode.WRITE)]
        return [Key(keys.fit(f"{_repo(found)}|{head}"), Mode.APPEND if adds else Mode.WRITE)]
    if found.names and head:
        return [Key(_scoped(head, one, found), Mode.WRITE) for one in found.names]
    return []
