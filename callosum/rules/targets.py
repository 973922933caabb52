"""Keys of a call that no rule names: which of its arguments is the thing it changes.

The target rule: a write changes the thing that the tool's name speaks of; the other ids among its
arguments are references and conflict with nothing. What is put into a container (``add_comment``
to an issue) appends to a facet of it, ``issue:7|comment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from callosum.model import Call, Key, Mode
from callosum.rules import arguments, keys, many, slots, tables
from callosum.rules import lexicon as lex
from callosum.rules.arguments import Arguments, short
from callosum.rules.keys import APPEND, READ, WRITE
from callosum.rules.lexicon import lists, maps
from callosum.rules.name import Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from callosum.rules.shape import Shape

_UNKNOWN: Final = (1, 0)


def derive(
    call: Call, params: Mapping[str, Any], name: Name, verb: str, tier: int, effect: str, shape: Shape
) -> tuple[Key, ...]:
    """Return the keys of a judged call, none where nothing in it names a thing."""
    if not params and effect != "read" and name.verb in lex.CREATES:
        return ()
    found = Arguments(params, name.nouns, shape.roles)
    if effect == "read":
        touched = _read(params, found, name, verb, call.cwd, shape)
    else:
        touched = _write(call, params, found, name, verb, tier, shape)
    if not touched:
        return ()
    if len(touched) == 1:
        return () if touched[0].name[-8:].lower() == ":unknown" else (touched[0],)
    return keys.merge([key for key in touched if key.name[-8:].lower() != ":unknown"])[0]


def stands_apart(name: Name) -> bool:
    """Tells whether the keys of a tool may be others than its params say; ``alone`` says which."""
    return (
        name.verb in lex.LOGS_IN
        or (bool(name.words) and name.words[0] in lex.STANDS_APART)
        or name.words[1:2] == ("git",)
    )


def alone(name: Name) -> tuple[Key, ...] | None:
    """Return no keys for a tool that changes only its own session, None for any other."""
    turns = name.head == "directory" and name.words[0] in lex.SWITCHES and len(name.words) <= 4
    return () if name.verb in lex.LOGS_IN or name.words[0] in lex.CHANGES_FOLDER or turns else None


def told(made: tuple[Key, ...]) -> str:
    """Return in words how a call's keys were found."""
    if not made:
        return "nothing in it names a thing: it has no key"
    first = made[0].name
    at = first.find(":")
    entity = first[:at]
    if first[at + 1 : at + 2] == "/" and entity != "file":
        return _WHOLE.get(first[at + 1 :], "its key is all of a kind")
    said = maps.KEY_EXPLANATIONS.get(entity)
    if said is not None:
        return said
    if made[0].mode is APPEND:
        return "its key is what it puts something into"
    return "its key is what the name speaks of; other ids are references"


_WHOLE: Final = {
    many.MORE: "no id is given: its key is one more of a kind",
    many.SOME: "no id is given: its key is a search among all of a kind",
    many.OWN: "no id is given: its key is the one that the account has",
    many.ALL: "no id is given: its key is all of a kind",
}


def _scoped(entity: str, value: str, found: Arguments, facet: str = "") -> str:
    if entity in ("file", "url") and not (found.repo or facet) and (spelled := keys.spell(f"{entity}:", value)):
        return spelled[0]  # an id may be a path or an address
    value = keys.clean(value).rstrip("/ ")
    if found.repo:
        return keys.fit(f"{entity}:{found.where}/{value}{facet}")
    return keys.fit(f"{entity}:{value}{facet}")


def _repo(found: Arguments) -> str:
    return keys.fit("repo:" + found.where)


def _read(
    params: Mapping[str, Any], found: Arguments, name: Name, verb: str, cwd: str | None, shape: Shape
) -> list[Key]:
    made: list[Key] = []
    if (shape.stored or name.head in tables.STORES) and (stored := tables.looked_at(params, found, name)):
        return stored
    for entity, path in found.paths:
        if not found.repo and many.lists(name, verb, entity):
            made += many.directory(path, cwd)
        else:
            made += [Key(one, READ) for one in _file(path, found, cwd)]
    if found.threads:
        made += _threads(params, found, READ, mail=_is_mail(name))
    for entity, values in _about(found, name.nouns):
        thing = many.of(name, entity or name.head or "id")
        head = name.head  # ``get_channel_members`` looks at the members, not at the messages
        is_facet = entity and head and head != entity and head not in lex.ASPECTS and entity != "file-id"
        facet = f"|{head}" if is_facet else ""
        looked_at = [Key(_scoped(thing, one, found, facet), READ) for one in values]
        made += _placed(looked_at, found) if entity in found.bare or entity in lex.COUNTED_NOUNS else looked_at
        if facet and entity == "project" and not found.repo:  # those in it that it counts for itself
            made += [Key(keys.fit(f"{name.head}:{keys.clean(one).lower()}/"), READ) for one in values]
    if not made and name.head and verb not in lex.SEARCHES:
        made = [Key(_scoped(name.head, one, found), READ) for one in found.names]
        made = (_placed(made, found) if found.held else made) or [
            Key(_scoped(name.nouns[0], one, found), READ) for one in (_titled(params) if shape.titled else ())
        ]
    if not made and found.repo and (not name.head or name.head == "repo"):
        made.append(Key(_repo(found), READ))
    if not made:
        made = [Key(one, READ) for url in found.urls for one in keys.spell("url:", url)]
    if not made and not lex.INBOX_NOUNS.isdisjoint(name.words):
        made = _messages([text for one in lists.PERSON_PARAMS for text in short(params.get(one))], READ)
    return made or _entry(params, name, READ) or many.looks(found, name, params, cwd)


def _about(found: Arguments, nouns: tuple[str, ...]) -> Iterable[tuple[str, list[str]]]:
    """Return the ids of what the name speaks of, else all of them, else the places that it speaks of."""
    ids = found.ids
    if len(ids) > 1:
        return [one for one in ids.items() if one[0] in nouns or not one[0]] or ids.items()
    return ids.items() or [one for one in found.scopes.items() if one[0] in nouns]


def _is_mail(name: Name) -> bool:
    return not lex.MAILBOX_NOUNS.isdisjoint(name.words) or "email" in name.nouns


def _threads(
    params: Mapping[str, Any], found: Arguments, mode: Mode, *, mail: bool, replied: Sequence[str] = ()
) -> list[Key]:
    """Return the keys of threads: with whom they are where the call says so, and each thread alone.

    A thread that is named alone may be one of mails. Messages may be counted in each chat: two sessions that name the
    same number and different chats are not in one thread, so there the thread alone is only appended to.
    """
    threads = replied or found.threads
    where = () if mail or replied else _where(params, found)
    made = [Key(keys.fit(f"thread:{keys.clean(one)}:{keys.clean(threads[0])}"), mode) for one in where]
    alone = APPEND if made and mode is WRITE else mode
    for thread in threads:
        if not mail:
            made += [Key(one, alone) for one in keys.thread(thread)]
        if not where:
            made += _keys("email:thread:", thread, mode)
    return made


def _where(params: Mapping[str, Any], found: Arguments) -> Sequence[str]:
    """Where a message goes: a channel or a room, else whom it is for."""
    ids = found.ids
    rooms = ids.get("channel") or ids.get("room") or _first_of(params, lists.ROOM_PARAMS)
    if rooms:
        return [spelling for one in rooms for spelling in keys.channels(one)]
    return ids.get("recipient") or found.mails or ids.get("phone") or ids.get("user") or ()


_SCALAR: Final = frozenset((str, int, list))


def _first_of(params: Mapping[str, Any], names: tuple[str, ...]) -> Sequence[str]:
    """Return the texts of the first of some params that has any."""
    for one in names:
        if type(value := params.get(one)) in _SCALAR and (texts := short(value)):
            return texts
    return ()


def _file(path: str, found: Arguments, cwd: str | None, *, tree: bool = False) -> tuple[str, ...]:
    if found.repo:  # a path inside a hosted repository, not on this machine
        return (_scoped("blob", path.lstrip("/"), found),)
    return keys.spell("file:", path, cwd, tree=tree)


def _write(
    call: Call, params: Mapping[str, Any], found: Arguments, name: Name, verb: str, tier: int, shape: Shape
) -> list[Key]:
    replied = _replied(params, found) if verb in lex.SPEAKS and not found.threads and is_reply(name, verb) else ()
    made = (
        (tier == 4 and _paid(params, found, name, verb))
        or (shape.stored and tables.changed(params, found, name, verb))
        or (verb in lex.SENDS_OR_PLANS and _sent(params, found, name, verb))
        or _changed(call, params, found, name, verb, shape)
    )
    if tier >= 3 and ("amount" in params if verb in lex.ADDS else tier == 4 and not lex.MONEY.isdisjoint(name.nouns)):
        made = [*made, *_references(params)]  # what a credit note is about, which payment is cancelled
    if replied or found.threads:
        return _in_thread(params, made or [], found, name, verb, replied)
    return (
        made
        or _entry(params, name, APPEND if verb in lex.PUSHES else WRITE)
        or many.changes(found, name, verb, params, adds=verb in lex.ADDS)
    )


def _replied(params: Mapping[str, Any], found: Arguments) -> Sequence[str]:
    """Return what a reply answers that names no thread: a message, a ticket, a conversation."""
    for entity in ("message", "email", "ticket", ""):
        if entity in found.ids:
            return found.ids[entity]
    if "channel" in found.ids and any(type(one) is str and "conversation" in one.lower() for one in params):
        return found.ids["channel"]
    return ()


def is_reply(name: Name, verb: str) -> bool:
    """Tells whether a call answers something: ``reply_to_mail``, ``send_response``."""
    return verb in lex.REPLIES or (verb in lex.SPEAKS and not lex.REPLY_NOUNS.isdisjoint(name.nouns))


def says_in_thread(made: tuple[Key, ...], name: Name, verb: str) -> bool:
    """Tells whether a call says something in a thread, as a reply does whatever its tool is called."""
    if verb not in lex.SPEAKS or not lex.ASIDE_NOUNS.isdisjoint(name.nouns):
        return False
    return any(key.mode is WRITE and key.name.startswith(lists.THREAD_KEY_KINDS) for key in made)


def _in_thread(
    params: Mapping[str, Any], made: list[Key], found: Arguments, name: Name, verb: str, replied: Sequence[str]
) -> list[Key]:
    """Return the keys of a call that names a thread: the thread first, unless it is one of mails with an addressee."""
    says = verb in lex.SENDS or is_reply(name, verb) or (verb in lex.SPEAKS and not lex.SAYS.isdisjoint(name.nouns))
    mode = WRITE if (says and "draft" not in name.nouns) or verb not in lex.ADDS else APPEND
    addressed = [key for key in made if key.name[:6] == "email:"]
    threads = _threads(params, found, mode, mail=bool(addressed) or _is_mail(name), replied=replied)
    return [*made, *threads] if addressed or not says else [*threads, *made]


def _entry(params: Mapping[str, Any], name: Name, mode: Mode) -> list[Key]:
    """Return what a store of entries keeps under a key: ``hget``, or a verb alone (``set``).

    Of a command of Redis a ``name`` is the key, and a ``key`` beside it a field. Elsewhere a ``key`` may be a secret.
    """
    if name.nouns or name.verb not in lex.KEEPS:
        return []
    value = params.get("name") if name.verb in lex.REDIS and "name" in params else params.get("key")
    return [key for one in short(value) for key in _keys("entry:", one, mode)]


def _paid(params: Mapping[str, Any], found: Arguments, name: Name, verb: str) -> list[Key]:
    """Return what is paid is who or what gets it; what is only planned shows in no ledger yet."""
    if verb not in lex.PAYS and "amount" not in params:
        return []
    if not (verb in lex.ADDS or lex.VERBS.get(verb, _UNKNOWN)[0] == 4):
        return []
    paid = _references(params) or _payment(params, found)  # who gets it is no target beside the invoice
    if not paid:
        own = name.head in ("fund", "money", "cash") and not found.ids
        return [Key(many.own("account", found), APPEND)] if own else []
    planned = many.planned(name, "transaction")
    return [Key(keys.fit(f"{key.name}|planned"), key.mode) for key in paid] + planned if planned else paid


def _references(params: Mapping[str, Any]) -> list[Key]:
    return [key for one in arguments.references(params) for key in _keys("payment:", one, WRITE)]


def _sent(params: Mapping[str, Any], found: Arguments, name: Name, verb: str) -> list[Key]:
    nouns = name.nouns
    addressed = (
        verb in lex.ADDRESSED
        or not lex.SAYS.isdisjoint(nouns)
        or (verb == "post" and bool(_first_of(params, lists.ROOM_PARAMS)))
    )
    if not (verb in lex.SENDS and addressed) and not (
        verb in ("create", "schedule") and not lex.MAILS.isdisjoint(nouns)
    ):
        return []
    made = _addressees(found)
    if made and verb == "invite" and found.ids:
        return made + _things(found, name, verb)
    if made:
        replied = found.threads or (found.ids.get("message", []) if verb in ("reply", "forward", "respond") else [])
        return made + [one for thread in replied for one in _keys("email:thread:", thread, WRITE)]
    return _talk(params, found, verb, nouns)


def _changed(call: Call, params: Mapping[str, Any], found: Arguments, name: Name, verb: str, shape: Shape) -> list[Key]:
    made: list[Key] = []
    if "event" in name.nouns and verb not in lex.ENDS_AN_EVENT:
        made = [Key(one, WRITE) for one in slots.derive(params)]
        if verb not in lex.ADDS and found.ids:
            return _things(found, name, verb) + made  # what is moved comes first
        # what lasts for days keeps nobody from meeting, but shows on each of them
        made = made or [Key(keys.fit(f"{one}|event"), APPEND) for one in slots.days(params)]
    elif verb in ("book", "reserve") and (booked := _booked(params, found, name)):
        return booked
    if found.paths or verb in lex.MOVES_A_FILE or verb in lex.COPIES_A_FILE:
        made += _files(found, name, verb, call.cwd, params)
    if name.head in lex.PAGE_NOUNS and not found.ids:
        made += [Key(one, WRITE) for url in found.urls for one in keys.spell("url:", url)]
    made += _things(found, name, verb)
    if verb in lex.SERVES_A_PORT or verb == "migrate" or "migration" in name.nouns:
        made += _places(call, params, found, name, verb)
    if not made and found.mails and verb not in lex.DESTROYS:
        return _addressees(found)
    if not made and shape.titled and verb not in lex.ADDS and name.head and "all" not in name.words:
        return [Key(_scoped(name.nouns[0], one, found), WRITE) for one in _titled(params)]
    return made


def _places(call: Call, params: Mapping[str, Any], found: Arguments, name: Name, verb: str) -> list[Key]:
    """Return what a machine has one of: a port, the database of a folder."""
    made = []
    if (verb == "migrate" or "migration" in name.nouns) and not found.ids:
        made += _migrated(params, verb, call.cwd)
    if verb in lex.SERVES_A_PORT and (port := keys.text(params.get("port"))) and port.isdecimal():
        made.append(Key(keys.fit(f"port:{port}"), WRITE))
    return made


def _titled(params: Mapping[str, Any]) -> list[str]:
    """Return what names a thing that has no id: a title, a symbol. The name of a thing that is made is no key."""
    return next((texts for one in lists.TITLES if (texts := short(params.get(one)))), [])


def _migrated(params: Mapping[str, Any], verb: str, cwd: str | None) -> list[Key]:
    """Return a migration changes the database of the folder it is run in; two of them race."""
    where = next((one for name in lists.PROJECT_PARAMS if type(one := params.get(name)) is str and one), cwd)
    if not where:
        return []
    path = keys.clean(keys.path(keys.clean(where), cwd)).rstrip("/")
    kinds = ("migration",) if verb in ("create", "generate", "make") else ("database", "migration")
    return [Key(keys.fit(f"{kind}:{path}"), WRITE) for kind in kinds]


def _booked(params: Mapping[str, Any], found: Arguments, name: Name) -> list[Key]:
    """Return a room, a desk, a court: taken for a time, and free at others."""
    made = []
    for entity in name.nouns:
        for one in found.ids.get(entity, ()):
            thing = keys.clean(one).replace("/", "%2F")
            booked = slots.derive(params, f"{entity}-{thing}")
            if booked:
                made += [Key(slot, WRITE) for slot in booked]
            if entity == "booking":  # the booking itself is made or confirmed; the facet is its old spelling
                made.append(Key(_scoped(entity, one, found), WRITE))
            made.append(Key(_scoped(entity, one, found, "|booking"), APPEND))
    if made:
        persons = [
            (entity, one) for entity, values in found.ids.items() if entity in lex.BOOKING_NOUNS for one in values
        ]
        made += [Key(_scoped(entity, one, found, "|booking"), WRITE) for entity, one in persons]
    return made


def _addressees(found: Arguments) -> list[Key]:
    named = (one for mail in found.mails for one in keys.addresses(keys.clean(mail)))  # cleaned first, as in ``spell``
    return [Key(keys.fit("email:" + keys.clean(one)), WRITE) for one in named]


def _keys(prefix: str, value: str, mode: Mode) -> list[Key]:
    return [Key(one, mode) for one in keys.spell(prefix, value)]


def _payment(params: Mapping[str, Any], found: Arguments) -> list[Key]:
    """Whom a payment goes to, or what is paid: the first that is there."""
    for name in lists.PAYEE_NOUNS:
        value = params.get(name)
        texts = short(value) if value is not None and not isinstance(value, (dict, bool)) else found.ids.get(name, [])
        if texts:
            return [key for one in texts for key in _keys("payment:", one, WRITE)]
    return [key for values in list(found.ids.values())[:1] for one in values for key in _keys("payment:", one, WRITE)]


def _talk(params: Mapping[str, Any], found: Arguments, verb: str, nouns: tuple[str, ...]) -> list[Key]:
    """Return a message goes into a channel, to a person or, as a reply, into a thread."""
    where = _where(params, found)
    if where and found.threads and (verb in ("reply", "respond") or "reply" in nouns or "message" in nouns):
        return _threads(params, found, WRITE, mail=False)
    where = where or _first_of(params, lists.PEOPLE_PARAMS)
    if where and (not lex.SAYS.isdisjoint(nouns) or verb in lex.TALKS):
        return _messages(where, APPEND if lex.MAILS.isdisjoint(nouns) else WRITE)
    return []


def _messages(where: Sequence[str], mode: Mode) -> list[Key]:
    """Return what is said in channels or to somebody: another part of them than who is there."""
    return [Key(keys.fit(f"{key.name}|message"), mode) for one in where for key in _keys("channel:", one, mode)]


def _files(found: Arguments, name: Name, verb: str, cwd: str | None, params: Mapping[str, Any]) -> list[Key]:
    made: list[Key] = []
    tree = verb in lex.DESTROYS and (params.get("recursive") is True or name.head == "directory")
    for entity, path in found.paths:
        mode = READ if entity in lex.SOURCE_PARAMS and verb in lex.COPIES_A_FILE else WRITE
        made += [Key(one, mode) for one in _file(path, found, cwd, tree=tree)]
    if verb in lex.MOVES_A_FILE or verb in lex.COPIES_A_FILE:
        for entity in ("source", "src", "destination", "dest", "dst", "from", "to"):
            value = params.get(entity)
            plain = name.words[0] in ("mv", "cp") or name.head == "file"
            if isinstance(value, str) and value.strip() and (plain or "/" in value or "." in value or "\\" in value):
                mode = READ if entity in lex.SOURCE_PARAMS and verb in lex.COPIES_A_FILE else WRITE
                made += [Key(one, mode) for one in _file(value, found, cwd)]
    if made and verb in lex.CHANGES_NAMES and not found.repo:
        made += many.renamed(made)
    return made


def _things(found: Arguments, name: Name, verb: str) -> list[Key]:
    """Return the target rule, with what the target lies in."""
    made = _targeted(found, name, verb)
    if found.held or not lex.CONTAINERS.isdisjoint(found.ids) or not lex.CONTAINERS.isdisjoint(found.scopes):
        made = _placed(made, found)
    if verb in lex.DESTROYS or verb in lex.TAKES_CONTENT_ALONG:
        made += [
            Key(f"{key.name}/", WRITE)
            for key in made
            if key.mode is WRITE and _kind(key.name) in lex.CONTAINERS and "|" not in key.name
        ]
    return made


def _kind(name: str) -> str:
    """Return what kind of thing a key names: ``base:app1/record:rec1`` a record."""
    return name.rpartition("/")[2].partition(":")[0] if name.rfind(":") > name.rfind("/") else name.partition(":")[0]


def _placed(made: list[Key], found: Arguments) -> list[Key]:
    """Keys with those of the same things below what they lie in: ``base:app1/record:rec1``.

    What is counted in each container anew, a row or a name, is meant there alone. Its key without the container is the
    spelling of the version before, to which this one only appends: the next release drops it.
    """
    containers = [
        (kind, values[0])
        for kinds in (found.ids, found.scopes)
        for kind, values in kinds.items()
        if kind in lex.CONTAINERS and len(values) == 1
    ]
    containers += [(kind, value) for kind, value in found.held.items() if kind not in found.ids]
    if not containers:
        return made
    placed: list[Key] = []
    for key in made:
        kind = key.name[: key.name.find(":")]
        above = [one for one in containers if one[0] != kind]
        if not above or (kind in lex.CONTAINERS and "|" in key.name):
            placed.append(key)
            continue
        named = kind in found.ids or kind in found.scopes or "" in found.ids
        own = not found.repo and (kind in lex.COUNTED_NOUNS or kind in found.bare or not named)
        inner = [
            Key(keys.fit(f"{one}:{keys.clean(value).rstrip('/ ')}/{key.name}"), key.mode)
            for one, value in above[:_NESTED]
        ]
        old = Key(key.name, APPEND) if own and key.mode is WRITE else key
        placed += [*inner, old] if own else [key, *inner]
    return placed


_NESTED: Final = 3
"""So many containers of one thing are among its keys."""


def _targeted(found: Arguments, name: Name, verb: str) -> list[Key]:
    if found.paths and not found.ids:
        return []
    head = name.head
    adds = verb in lex.ADDS
    entity = _target(found, name, verb)
    place = name.place
    if verb in lex.INTO and place and place not in found.ids and many.owns(name, place):
        return []  # ``add_item_to_cart``: the id is of what is added, the cart is one's own
    if entity is None and adds and found.names and head:
        outer = next(iter(found.ids), "")
        if outer and not found.repo:  # its name is its own among those of one project
            return many.parts(_scoped(outer, found.ids[outer][0], found, f"|{head}"), list(found.names), adds=False)
        return [Key(_scoped(head, one, found), WRITE) for one in found.names]
    if entity is not None:
        thing = entity or head or "id"
        head = "file-id" if head == "file" and entity else head
        below = head != thing or not lex.CHILD_NOUNS.isdisjoint(name.words)
        facet = f"|{head}" if head and below and (adds or verb in lex.INTO or entity in lex.HOLDER_NOUNS) else ""
        if not facet and verb in lex.CHANGES_ACCESS:
            facet = "|access"  # who may see it is another matter than what is in it
        mode = APPEND if facet and adds and not _booked_for(entity, head) else WRITE
        kind = many.of(name, thing)
        if facet and verb in lex.PUTS_INTO and (held := found.ids.get(head)):
            named = [_scoped(kind, one, found, facet) for one in found.ids[entity]]
            return [key for one in named for key in many.parts(one, held[:8], adds=verb not in lex.TAKES_OUT)]
        made = [Key(_scoped(kind, one, found, facet), mode) for one in found.ids[entity]]
        if len(found.ids) > 1 and mode is WRITE and (not facet or verb in lex.CHANGES_ACCESS):
            return _within(found, name, entity, made)
        return made
    scope = next((one for one in (head, *name.nouns) if one in found.scopes), None)
    if scope is not None:
        facet = f"|{head}" if (adds or verb in lex.INTO) and head and head != scope else ""
        return [
            Key(_scoped(scope, one, found, facet), APPEND if facet and adds else WRITE) for one in found.scopes[scope]
        ]
    if found.ids and not (adds and found.repo):
        if "recipient" in found.ids and not lex.SAYS.isdisjoint(name.nouns):
            return _messages(found.ids["recipient"], WRITE)
        return _unspoken(found, head, adds=adds)
    if found.repo:
        if ("repo" in name.nouns and head == "repo") or not head:
            return [Key(_repo(found), WRITE)]
        return [Key(keys.fit(f"{_repo(found)}|{head}"), APPEND if adds else WRITE)]
    if found.names and head:
        return [Key(_scoped(head, one, found), WRITE) for one in found.names]
    return []


def _unspoken(found: Arguments, head: str, *, adds: bool) -> list[Key]:
    """Return the keys of ids that the name does not mention; containers only if none of their contents is named."""
    meant = {one: values for one, values in found.ids.items() if one not in lex.PLACE_NOUNS} or found.ids
    if not adds and len(meant) > 1:
        inner = [one for one in meant if one not in lex.CONTAINERS and one not in found.bare] or list(meant)[-1:]
        meant = {one: meant[one] for one in inner}
    return [
        Key(
            _scoped(thing or "id", one, found, f"|{head}" if head and (adds or thing in lex.HOLDER_NOUNS) else ""),
            APPEND if adds and not _booked_for(thing, head) else WRITE,
        )
        for thing, values in meant.items()
        for one in values
    ]


def _innermost(found: Arguments, name: Name, verb: str, outer: str) -> str:
    """Return which of several things that the name speaks of is meant: the last, for it lies in the first (``outer``).

    ``update_issue_note`` changes one note, not its issue. But several (``item_ids``) are parts of the one that is
    changed, ``set_issue_milestone`` gives the issue another value, ``add_order_item`` puts something into the order.
    """
    head = name.head
    meant = outer
    for noun in name.nouns:
        if noun in found.ids and noun not in found.listed and not (noun == head and _puts(verb)):
            meant = noun
        if noun == head:
            break  # what stands behind a preposition is a place or a value
    return meant


def _puts(verb: str) -> bool:
    return (verb in lex.ADDS or verb in lex.INTO or verb in lex.GIVES_A_VALUE) and verb not in lex.CHANGES_ACCESS


def _within(found: Arguments, name: Name, entity: str, made: list[Key]) -> list[Key]:
    """Return the keys of a thing (``made``) with those of its place in what the name says that it lies in."""
    outer = next((one for one in name.nouns if one in found.ids), entity)
    if outer == entity or outer in found.listed or entity in found.listed:
        return made
    held = found.ids[entity][:8]
    within = [
        key
        for one in found.ids[outer][:8]
        for key in many.parts(_scoped(outer, one, found, f"|{entity}"), held, adds=False)
    ]
    # The same item may be in two orders, the same label on two issues.
    return within if entity in lex.HARMLESS_TWICE or entity in lex.SHARED_NOUNS else [*made, *within]


def _booked_for(entity: str, head: str) -> bool:
    """Tells whether somebody commits himself: of a second booking for one person its session is told."""
    return entity in lex.BOOKING_NOUNS and head in lex.COMMITMENTS


def _target(found: Arguments, name: Name, verb: str) -> str | None:
    """Return which of the ids is the thing that is changed, None where no noun of the name tells.

    ``add_user_to_channel`` changes the channel, wherever the name's first noun stands; ``set_label`` gives another
    thing a label, which is a value there.
    """
    if verb in lex.INTO and name.place in found.ids:
        return name.place
    ids = found.ids
    for noun in name.nouns:
        if noun in ids and not (
            noun == name.head and noun in found.bare and verb in lex.GIVES_A_VALUE and len(ids) > 1
        ):
            return noun if len(ids) == 1 else _innermost(found, name, verb, noun)
    if "file" in name.nouns and "file-id" in found.ids:
        return "file-id"
    return "" if "" in found.ids else None
