"""Keys of a call that no rule names: which of its arguments is the thing it changes.

The target rule: a write changes the thing that the tool's name speaks of; the other ids among its
arguments are references and conflict with nothing. What is put into a container (``add_comment``
to an issue) appends to a facet of it, ``issue:7|comment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from callosum.model import Call, Key, Mode
from callosum.rules import checkout, keys, many, slots, tables
from callosum.rules import lexicon as lex
from callosum.rules.arguments import Arguments, short
from callosum.rules.name import Name

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN: Final = (1, 0)
_PAYEES: Final = (
    "recipient", "payee", "to", "iban", "beneficiary", "destination", "to_account", "invoice", "order", "customer",
    "account", "subscription", "payment",
)  # fmt: skip
_MOVES: Final = frozenset("move rename mv".split())
_COPIES: Final = frozenset("copy cp duplicate".split())
_NAMED: Final = (
    frozenset("create make generate upload mkdir touch download extract remove unlink".split())
    | lex.DESTROYS
    | _MOVES
    | _COPIES
)
"""After these there is one name more or less in a directory."""
_PUTS: Final = lex.INTO & {"add", "remove", "assign", "unassign", "attach", "detach", "invite"}
_ACCESS: Final = frozenset("share unshare grant".split())
_SOURCES: Final = frozenset("source src from source_path src_path old_path from_path".split())
_SAID: Final = lex.MAILS | lex.TALK
_SENDING: Final = lex.SENDS | {"create", "schedule"}
_ENDS: Final = lex.DESTROYS | {"accept", "decline", "rsvp", "cancel"}
_PAGES: Final = frozenset("webpage page website site url link".split())
"""What has an address of its own, under which it is changed."""
_SERVES: Final = frozenset("start run serve launch stop kill restart open expose forward listen bind terminate".split())


def derive(call: Call, params: Mapping[str, Any], name: Name, verb: str, tier: int, effect: str) -> tuple[Key, ...]:
    """Returns the keys of a judged call, none where nothing in it names a thing."""
    if not params and effect != "read" and name.verb in lex.CREATES:
        return ()
    if name.words and name.words[0] in _STANDS:
        if _moves_itself(name):
            return ()
        if made := checkout.derive(call, params, name):
            return made
    found = Arguments(params, name.nouns)
    if effect == "read":
        touched = _read(params, found, name, verb, call.cwd)
    else:
        touched = _write(call, params, found, name, verb, tier)
    return keys.merge([key for key in touched if key.name[-8:].lower() != ":unknown"])[0]


_TOLD: Final = {
    "git": "its keys are those of the git command that it stands for",
    "slot": "its keys are the quarters of an hour that it takes, and what it is about",
    "email": "its keys are whom it is for",
    "channel": "its key is where it is said",
    "thread": "its key is the thread",
    "payment": "its key is who or what is paid",
    "file": "its keys are the paths",
    "url": "its key is the address",
    "port": "its key is the port",
    "migration": "its keys are the database that is migrated",
    "database": "its keys are the database that is migrated",
}


def told(made: tuple[Key, ...]) -> str:
    """Returns in words how a call's keys were found."""
    if not made:
        return "nothing in it names a thing: it has no key"
    entity, _, value = made[0].name.partition(":")
    if value[:1] == "/" and entity != "file":
        return _WHOLE.get(value, "its key is all of a kind")
    if entity in _TOLD:
        return _TOLD[entity]
    if made[0].mode is Mode.APPEND:
        return "its key is what it puts something into"
    return "its key is what the name speaks of; other ids are references"


_WHOLE: Final = {
    many.MORE: "no id is given: its key is one more of a kind",
    many.SOME: "no id is given: its key is a search among all of a kind",
    many.OWN: "no id is given: its key is the one that the account has",
    many.ALL: "no id is given: its key is all of a kind",
}


def _scoped(entity: str, value: str, found: Arguments) -> str:
    value = keys.clean(value).rstrip("/ ")
    if found.repo:
        return keys.fit(f"{entity}:{found.where}/{value}")
    return keys.fit(f"{entity}:{value}")


def _repo(found: Arguments) -> str:
    return keys.fit("repo:" + found.where)


def _read(params: Mapping[str, Any], found: Arguments, name: Name, verb: str, cwd: str | None) -> list[Key]:
    made: list[Key] = []
    if (name.head in tables.STORES or not tables.STORED.isdisjoint(params)) and (
        stored := tables.looked_at(params, found, name)
    ):
        return stored
    for entity, path in found.paths:
        if not found.repo and many.lists(name, verb, entity):
            made += many.directory(path, cwd)
        else:
            made += [Key(one, Mode.READ) for one in _file(path, found, cwd)]
    if found.threads:
        made += _thread(found, Mode.READ)
    about = {entity: values for entity, values in found.ids.items() if entity in name.nouns or not entity} or found.ids
    for entity, values in (about or {one: two for one, two in found.scopes.items() if one in name.nouns}).items():
        thing = many.of(name, entity or name.head or "id")
        facet = _facet(name, entity)
        made += [Key(keys.fit(_scoped(thing, one, found) + facet), Mode.READ) for one in values]
    if not made and name.head and verb not in lex.SEARCHES:
        made = [Key(_scoped(name.head, one, found), Mode.READ) for one in found.names] or [
            Key(_scoped(name.nouns[0], one, found), Mode.READ) for one in _titled(params)
        ]
    if not made and found.repo and (not name.head or name.head == "repo"):
        made.append(Key(_repo(found), Mode.READ))
    if not made:
        made = [Key(one, Mode.READ) for url in found.urls for one in keys.spell("url:", url)]
    if not made and not _INBOXES.isdisjoint(name.words):
        made = _messages([text for one in _PERSONS for text in short(params.get(one))], Mode.READ)
    return made or many.looks(found, name, params, cwd)


_INBOXES: Final = frozenset("inbox mailbox dm dms".split())
_PERSONS: Final = ("user", "user_id", "username", "recipient", "contact", "contact_id")
"""Whose messages they are: what is sent to somebody lands there."""


def _facet(name: Name, entity: str) -> str:
    """What of a thing is looked at: ``get_channel_members`` looks at the members, not at the messages."""
    head = name.head
    return f"|{head}" if entity and head and head != entity and head not in lex.ASPECTS and entity != "file-id" else ""


def _thread(found: Arguments, mode: Mode) -> list[Key]:
    where = found.ids.get("channel") or found.ids.get("chat", [])
    if where:
        return [Key(keys.fit(f"thread:{keys.clean(one)}:{keys.clean(found.threads[0])}"), mode) for one in where]
    return [one for thread in found.threads for one in _keys("email:thread:", thread, mode)]


def _file(path: str, found: Arguments, cwd: str | None, *, tree: bool = False) -> tuple[str, ...]:
    if found.repo:  # a path inside a hosted repository, not on this machine
        return (_scoped("blob", path.lstrip("/"), found),)
    return keys.spell("file:", path, cwd, tree=tree)


def _write(call: Call, params: Mapping[str, Any], found: Arguments, name: Name, verb: str, tier: int) -> list[Key]:
    return (
        (tier == 4 and _paid(params, found, name, verb))
        or (not tables.STORED.isdisjoint(params) and tables.changed(params, found, name, verb))
        or (verb in _SENDING and _sent(found, name, verb))
        or _changed(call, params, found, name, verb)
        or many.changes(found, name, verb, params, adds=verb in lex.ADDS)
    )


def _paid(params: Mapping[str, Any], found: Arguments, name: Name, verb: str) -> list[Key]:
    """What is paid is who or what gets it; what is only planned shows in no ledger yet."""
    if verb not in lex.PAYS and "amount" not in params:
        return []
    if not (verb in lex.ADDS or lex.VERBS.get(verb, _UNKNOWN)[0] == 4):
        return []
    paid = _payment(params, found)
    if not paid:
        own = name.head in ("fund", "money", "cash") and not found.ids
        return [Key(many.own("account", found), Mode.APPEND)] if own else []
    planned = many.planned(name, "transaction")
    return [Key(keys.fit(f"{key.name}|planned"), key.mode) for key in paid] + planned if planned else paid


def _sent(found: Arguments, name: Name, verb: str) -> list[Key]:
    nouns = name.nouns
    addressed = verb in lex.ADDRESSED or not _SAID.isdisjoint(nouns)
    if not (verb in lex.SENDS and addressed) and not (
        verb in ("create", "schedule") and not lex.MAILS.isdisjoint(nouns)
    ):
        return []
    made = _addressees(found)
    if made:
        replied = found.threads or (found.ids.get("message", []) if verb in ("reply", "forward", "respond") else [])
        return made + [one for thread in replied for one in _keys("email:thread:", thread, Mode.WRITE)]
    return _talk(found, verb, nouns)


def _changed(call: Call, params: Mapping[str, Any], found: Arguments, name: Name, verb: str) -> list[Key]:
    made: list[Key] = []
    if "event" in name.nouns and verb not in _ENDS:
        made = [Key(one, Mode.WRITE) for one in slots.derive(params)]
        if verb not in lex.ADDS and found.ids:
            return _things(found, name, verb) + made  # what is moved comes first
        made = made or _whole_days(params)
    elif verb in ("book", "reserve") and (booked := _booked(params, found, name)):
        return booked
    made += _files(found, name, verb, call.cwd, params)
    if name.head in _PAGES and not found.ids:
        made += [Key(one, Mode.WRITE) for url in found.urls for one in keys.spell("url:", url)]
    made += _things(found, name, verb)
    if verb in _SERVES or verb == "migrate" or "migration" in name.nouns:
        made += _places(call, params, found, name, verb)
    if not made and found.mails and verb not in lex.DESTROYS:
        return _addressees(found)
    if not made and verb not in lex.ADDS and name.head and "all" not in name.words:
        return [Key(_scoped(name.nouns[0], one, found), Mode.WRITE) for one in _titled(params)]
    return made


def _places(call: Call, params: Mapping[str, Any], found: Arguments, name: Name, verb: str) -> list[Key]:
    """What a machine has one of: a port, the database of a folder."""
    made = []
    if (verb == "migrate" or "migration" in name.nouns) and not found.ids:
        made += _migrated(params, verb, call.cwd)
    if verb in _SERVES and (port := keys.text(params.get("port"))) and port.isdecimal():
        made.append(Key(keys.fit(f"port:{port}"), Mode.WRITE))
    return made


def _titled(params: Mapping[str, Any]) -> list[str]:
    """What names a thing where it has no id: a title, a symbol; for what is made it would only be what it is called."""
    if _TITLED.isdisjoint(params):
        return []
    return next((texts for one in _TITLES if (texts := short(params.get(one)))), [])


_TITLES: Final = ("title", "symbol", "ticker")
_TITLED: Final = frozenset(_TITLES)


def _moves_itself(name: Name) -> bool:
    """Tells whether a call changes no more than where its own session stands: its working directory."""
    if name.words[0] in _GOES:
        return True
    return name.head == "directory" and name.words[0] in _TURNS and len(name.words) <= 4


_GOES: Final = frozenset("cd chdir pushd popd".split())
_TURNS: Final = frozenset("change set switch".split())
_STANDS: Final = _GOES | _TURNS | {"git"}
"""First words of tools that may stand for a command with other keys than their params say."""


def _migrated(params: Mapping[str, Any], verb: str, cwd: str | None) -> list[Key]:
    """A migration changes the database of the folder it is run in; two of them race."""
    where = next((one for name in _FOLDERS if type(one := params.get(name)) is str and one), cwd)
    if not where:
        return []
    path = keys.clean(keys.path(keys.clean(where), cwd)).rstrip("/")
    kinds = ("migration",) if verb in ("create", "generate", "make") else ("database", "migration")
    return [Key(keys.fit(f"{kind}:{path}"), Mode.WRITE) for kind in kinds]


_FOLDERS: Final = ("cwd", "project_cwd", "projectCWD", "projectCwd", "project_path", "projectPath", "project_dir")


def _whole_days(params: Mapping[str, Any]) -> list[Key]:
    """What lasts for days keeps nobody from meeting, but shows on each of them."""
    return [Key(f"{one}|event", Mode.APPEND) for one in slots.days(params)]


def _booked(params: Mapping[str, Any], found: Arguments, name: Name) -> list[Key]:
    """A room, a desk, a court: taken for a time, and free at others."""
    made = []
    for entity in name.nouns:
        for one in found.ids.get(entity, ()):
            thing = keys.clean(one).replace("/", "%2F")
            booked = slots.derive(params, f"{entity}-{thing}")
            if booked:
                made += [Key(slot, Mode.WRITE) for slot in booked]
            made.append(Key(keys.fit(_scoped(entity, one, found) + "|booking"), Mode.APPEND))
    return made


def _addressees(found: Arguments) -> list[Key]:
    return [
        Key(keys.fit("email:" + keys.clean(one)), Mode.WRITE) for mail in found.mails for one in keys.addresses(mail)
    ]


def _keys(prefix: str, value: str, mode: Mode) -> list[Key]:
    return [Key(one, mode) for one in keys.spell(prefix, value)]


def _payment(params: Mapping[str, Any], found: Arguments) -> list[Key]:
    """Whom a payment goes to, or what is paid: the first that is there."""
    for name in _PAYEES:
        value = params.get(name)
        texts = short(value) if value is not None and not isinstance(value, (dict, bool)) else found.ids.get(name, [])
        if texts:
            return [key for one in texts for key in _keys("payment:", one, Mode.WRITE)]
    return [
        key for values in list(found.ids.values())[:1] for one in values for key in _keys("payment:", one, Mode.WRITE)
    ]


def _talk(found: Arguments, verb: str, nouns: tuple[str, ...]) -> list[Key]:
    """A message goes into a channel or, as a reply, into a thread."""
    ids = found.ids
    where = ids.get("channel") or ids.get("room") or found.mails or ids.get("phone") or ids.get("user", [])
    if not where:
        return []
    if found.threads and (verb in ("reply", "respond") or "reply" in nouns or "message" in nouns):
        return [Key(keys.fit(f"thread:{keys.clean(one)}:{keys.clean(found.threads[0])}"), Mode.WRITE) for one in where]
    if not _SAID.isdisjoint(nouns) or verb in ("dm", "message", "text", "notify", "tweet"):
        return _messages(where, Mode.APPEND)
    return []


def _messages(where: list[str], mode: Mode) -> list[Key]:
    """What is said in channels or to somebody: another part of them than who is there."""
    return [Key(keys.fit(f"{key.name}|message"), mode) for one in where for key in _keys("channel:", one, mode)]


def _files(found: Arguments, name: Name, verb: str, cwd: str | None, params: Mapping[str, Any]) -> list[Key]:
    made: list[Key] = []
    tree = verb in lex.DESTROYS and (params.get("recursive") is True or name.head == "directory")
    for entity, path in found.paths:
        mode = Mode.READ if entity in _SOURCES and verb in _COPIES else Mode.WRITE
        made += [Key(one, mode) for one in _file(path, found, cwd, tree=tree)]
    if verb in _MOVES or verb in _COPIES:
        for entity in ("source", "src", "destination", "dest", "dst", "from", "to"):
            value = params.get(entity)
            plain = name.words[0] in ("mv", "cp") or name.head == "file"
            if isinstance(value, str) and value.strip() and (plain or "/" in value or "." in value or "\\" in value):
                mode = Mode.READ if entity in _SOURCES and verb in _COPIES else Mode.WRITE
                made += [Key(one, mode) for one in _file(value, found, cwd)]
    if made and verb in _NAMED and not found.repo:
        made += many.renamed(made)
    return made


def _things(found: Arguments, name: Name, verb: str) -> list[Key]:
    """The target rule."""
    if found.paths and not found.ids:
        return []
    head = name.head
    adds = verb in lex.ADDS
    entity = _target(found, name, verb)
    place = name.place
    if verb in lex.INTO and place and place not in found.ids and many.owns(name, place):
        return []  # ``add_item_to_cart``: the id is of what is added, the cart is one's own
    if entity is None and adds and found.names and head:
        return [Key(_scoped(head, one, found), Mode.WRITE) for one in found.names]
    if entity is not None:
        thing = entity or head or "id"
        head = "file-id" if head == "file" and entity else head
        facet = f"|{head}" if (adds or verb in lex.INTO) and head and head != thing else ""
        if not facet and verb in _ACCESS:
            facet = "|access"  # who may see it is another matter than what is in it
        mode = Mode.APPEND if facet and adds else Mode.WRITE
        kind = many.of(name, thing)
        if facet and thing == place and verb in _PUTS and (held := found.ids.get(head)):
            named = [keys.fit(_scoped(kind, one, found) + facet) for one in found.ids[entity]]
            return [key for one in named for key in many.parts(one, held[:8], adds=verb not in many.REMOVES)]
        return [Key(keys.fit(_scoped(kind, one, found) + facet), mode) for one in found.ids[entity]]
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


def _target(found: Arguments, name: Name, verb: str) -> str | None:
    """Returns which of the ids is the thing that is changed, None where no noun of the name tells.

    ``add_user_to_channel`` changes the channel, wherever the name's first noun stands.
    """
    if verb in lex.INTO and name.place in found.ids:
        return name.place
    for noun in name.nouns:
        if noun in found.ids:
            return noun
    if "file" in name.nouns and "file-id" in found.ids:
        return "file-id"
    return "" if "" in found.ids else None
