"""Keys of a call that no rule names: which of its arguments is the thing it changes.

The target rule: a write changes the thing that the tool's name speaks of; the other ids among its
arguments are references and conflict with nothing. What is put into a container (``add_comment``
to an issue) appends to a facet of it, ``issue:7|comment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from callosum.model import Call, Key, Mode
from callosum.rules import arguments, keys, many, slots
from callosum.rules import lexicon as lex
from callosum.rules.arguments import Arguments, short
from callosum.rules.keys import APPEND, READ, WRITE
from callosum.rules.lexicon import lists, maps
from callosum.rules.name import Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from callosum.rules.shape import Shape

_SCALAR: Final = frozenset((str, int, list))
STORES: Final = {
    "collection": ("collection", "collection_name", "collectionName"),
    "table": ("table", "table_name", "tableName"),
}
"""What rows are in, with the params that name it."""
_NESTED: Final = 3
"""So many containers of one thing are among its keys."""


def derive(
    call: Call, params: Mapping[str, Any], name: Name, verb: str, tier: int, effect: str, shape: Shape
) -> tuple[Key, ...]:
    """Return the keys of a judged call, none where nothing in it names a thing."""
    if not params and effect != "read" and name.verb in lex.CREATES:
        return ()
    targets = _Targets(call, params, name, verb, shape)
    touched = targets.read() if effect == "read" else targets.write(tier)
    made = [key for key in touched if key.name[-8:].lower() != ":unknown"]
    return tuple(made) if len(made) < 2 else keys.merge(made)[0]


def stands_apart(name: Name) -> bool:
    """Return True if the keys of a tool may be others than its params say; ``alone`` says which."""
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


def is_reply(name: Name, verb: str) -> bool:
    """Return True if a call answers something: ``reply_to_mail``, ``send_response``."""
    return verb in lex.REPLIES or (verb in lex.SPEAKS and not lex.REPLY_NOUNS.isdisjoint(name.nouns))


def says_in_thread(made: tuple[Key, ...], name: Name, verb: str) -> bool:
    """Return True if a call says something in a thread, as a reply does whatever its tool is called."""
    if verb not in lex.SPEAKS or not lex.ASIDE_NOUNS.isdisjoint(name.nouns):
        return False
    return any(key.mode is WRITE and key.name.startswith(lists.THREAD_KEY_KINDS) for key in made)


class _Targets:
    """A judged call: its tool's ``name``, the ``verb`` it was found to have, and its arguments as ``found``."""

    __slots__ = ("adds", "cwd", "found", "into", "name", "params", "shape", "verb")

    def __init__(self, call: Call, params: Mapping[str, Any], name: Name, verb: str, shape: Shape) -> None:
        self.cwd, self.params, self.name, self.verb, self.shape = call.cwd, params, name, verb, shape
        self.found = Arguments(params, name.nouns, shape.roles)
        self.adds, self.into = verb in lex.ADDS, verb in lex.INTO

    def read(self) -> list[Key]:
        found, name, params = self.found, self.name, self.params
        if (self.shape.stored or name.head in STORES) and (stored := self.stored()):
            return [Key(stored, READ)]
        made: list[Key] = []
        for entity, path in found.paths:
            lists_names = not found.repo and many.lists(name, self.verb, entity)
            made += many.directory(path, self.cwd) if lists_names else self.file(path, READ)
        if found.threads:
            made += self.threads(READ, mail=_is_mail(name))
        # the ids of what the name speaks of, else all of them, else the places that it speaks of
        about = list(found.ids.items())
        if len(about) > 1:
            about = [item for item in about if item[0] in name.nouns or not item[0]] or about
        head = name.head
        for entity, values in about or [item for item in found.scopes.items() if item[0] in name.nouns]:
            # ``get_channel_members`` looks at the members, not at the messages
            is_facet = entity and head and head != entity and head not in lex.ASPECTS and entity != "file-id"
            looked_at = self.keys(many.of(name, entity or head or "id"), values, READ, f"|{head}" if is_facet else "")
            made += self.placed(looked_at) if entity in found.bare or entity in lex.COUNTED_NOUNS else looked_at
            if is_facet and entity == "project" and not found.repo:  # those in it that it counts for itself
                made += [Key(keys.fit(f"{head}:{keys.clean(value).lower()}/"), READ) for value in values]
        if not made and head and self.verb not in lex.SEARCHES:
            made = self.keys(head, found.names, READ)
            made = self.placed(made) if found.held else made
            made = made or (self.keys(name.nouns[0], self.titles(), READ) if self.shape.titled else made)
        if not made and found.repo and (not head or head == "repo"):
            made.append(Key(keys.fit("repo:" + found.where), READ))
        if not made:
            made = [key for url in found.urls for key in _keys("url:", url, READ)]
        if not made and not lex.INBOX_NOUNS.isdisjoint(name.words):
            made = _messages([text for param in lists.PERSON_PARAMS for text in short(params.get(param))], READ)
        return made or self.entry(READ) or many.looks(found, name, params, self.cwd)

    def write(self, tier: int) -> list[Key]:
        found, name, verb, params = self.found, self.name, self.verb, self.params
        replied = self.replied() if verb in lex.SPEAKS and not found.threads and is_reply(name, verb) else ()
        made = (
            (tier == 4 and self.paid())
            or (self.shape.stored and self.rows())
            or (verb in lex.SENDS_OR_PLANS and self.sent())
            or self.changed()
        )
        if tier >= 3 and ("amount" in params if self.adds else tier == 4 and not lex.MONEY.isdisjoint(name.nouns)):
            made = [*made, *_references(params)]  # what a credit note is about, which payment is cancelled
        if replied or found.threads:
            return self.in_thread(made, replied)
        return (
            made
            or self.entry(APPEND if verb in lex.PUSHES else WRITE)
            or many.changes(found, name, verb, params, adds=self.adds)
        )

    def stored(self, *, looks: bool = True) -> str:
        """Return the table or collection that a call names, or else those of the database that a look names."""
        if self.found.ids.keys() - lex.TABLE_NOUNS:
            return ""
        where = keys.clean(self.first_text(lists.DATABASE_PARAMS)).lower().replace("/", "%2F")
        for entity, names in STORES.items():
            if value := self.first_text(names):
                return keys.fit(f"{entity}:{where}/{keys.clean(value)}" if where else f"{entity}:{keys.clean(value)}")
        return keys.fit(f"{self.name.head}:{where}/") if looks and where and self.name.head in STORES else ""

    def rows(self) -> list[Key]:
        stored = self.stored(looks=False)
        if stored and self.adds and self.name.head not in STORES:
            return [Key(keys.fit(f"{stored}|row"), APPEND)]  # what is only added is a row more
        return [Key(stored, WRITE)] if stored else []

    def replied(self) -> Sequence[str]:
        """Return what a reply answers that names no thread: a message, a ticket, a conversation."""
        ids = self.found.ids
        for entity in ("message", "email", "ticket", ""):
            if entity in ids:
                return ids[entity]
        if "channel" in ids and any(type(name) is str and "conversation" in name.lower() for name in self.params):
            return ids["channel"]
        return ()

    def in_thread(self, made: list[Key], replied: Sequence[str]) -> list[Key]:
        """Return keys with those of a thread: it comes first, unless it is one of mails with an addressee."""
        name, verb = self.name, self.verb
        says = verb in lex.SENDS or is_reply(name, verb) or (verb in lex.SPEAKS and not lex.SAYS.isdisjoint(name.nouns))
        mode = WRITE if (says and "draft" not in name.nouns) or not self.adds else APPEND
        addressed = any(key.name[:6] == "email:" for key in made)
        threads = self.threads(mode, mail=addressed or _is_mail(name), replied=replied)
        return [*made, *threads] if addressed or not says else [*threads, *made]

    def entry(self, mode: Mode) -> list[Key]:
        """Return what a store of entries keeps under a key: ``hget``, or a verb alone (``set``).

        Of a command of Redis a ``name`` is the key, and a ``key`` beside it a field. Elsewhere a ``key`` may be a
        secret.
        """
        if self.name.nouns or self.name.verb not in lex.KEEPS:
            return []
        redis = self.name.verb in lex.REDIS and "name" in self.params
        return [
            key for text in short(self.params.get("name" if redis else "key")) for key in _keys("entry:", text, mode)
        ]

    def paid(self) -> list[Key]:
        """Return who or what gets the money that is paid; what is only planned shows in no ledger yet."""
        found, verb = self.found, self.verb
        if verb not in lex.PAYS and "amount" not in self.params:
            return []
        if not self.adds and (verb not in lex.VERBS or lex.VERBS[verb][0] != 4):
            return []
        paid = _references(self.params)  # who gets it is no target beside the invoice
        if not paid:
            payees: Sequence[str] = ()
            for name in lists.PAYEE_NOUNS:
                value = self.params.get(name)
                is_text = value is not None and not isinstance(value, (dict, bool))
                if payees := short(value) if is_text else found.ids.get(name, ()):
                    break
            paid = [
                key for text in payees or next(iter(found.ids.values()), ()) for key in _keys("payment:", text, WRITE)
            ]
        if not paid:
            own = self.name.head in ("fund", "money", "cash") and not found.ids
            return [Key(many.own("account", found), APPEND)] if own else []
        planned = many.planned(self.name, "transaction")
        return [Key(keys.fit(f"{key.name}|planned"), key.mode) for key in paid] + planned if planned else paid

    def sent(self) -> list[Key]:
        """Return whom or what a message goes to: addressees, a channel, a person, or a thread that it replies to."""
        verb, nouns, found = self.verb, self.name.nouns, self.found
        says = not lex.SAYS.isdisjoint(nouns)
        addressed = verb in lex.SENDS and (
            verb in lex.ADDRESSED or says or (verb == "post" and bool(self.first_of(lists.ROOM_PARAMS)))
        )
        if not addressed and not (verb in ("create", "schedule") and not lex.MAILS.isdisjoint(nouns)):
            return []
        if made := self.addressees():
            if verb == "invite" and found.ids:
                return made + self.things()
            replied = found.threads or (found.ids.get("message", []) if verb in ("reply", "forward", "respond") else [])
            return made + [key for thread in replied for key in _keys("email:thread:", thread, WRITE)]
        where = self.where()
        if where and found.threads and (verb in ("reply", "respond") or "reply" in nouns or "message" in nouns):
            return self.threads(WRITE, mail=False)
        where = where or self.first_of(lists.PEOPLE_PARAMS)
        if where and (says or verb in lex.TALKS):
            return _messages(where, APPEND if lex.MAILS.isdisjoint(nouns) else WRITE)
        return []

    def changed(self) -> list[Key]:
        found, name, verb, params = self.found, self.name, self.verb, self.params
        made: list[Key] = []
        if "event" in name.nouns and verb not in lex.ENDS_AN_EVENT:
            made = [Key(slot, WRITE) for slot in slots.derive(params)]
            if not self.adds and found.ids:
                return self.things() + made  # what is moved comes first
            # what lasts for days keeps nobody from meeting, but shows on each of them
            made = made or [Key(keys.fit(f"{day}|event"), APPEND) for day in slots.days(params)]
        elif verb in ("book", "reserve") and (booked := self.booked()):
            return booked
        if found.paths or verb in lex.MOVES_A_FILE or verb in lex.COPIES_A_FILE:
            made += self.files()
        if name.head in lex.PAGE_NOUNS and not found.ids:
            made += [key for url in found.urls for key in _keys("url:", url, WRITE)]
        made += self.things()
        if (verb == "migrate" or "migration" in name.nouns) and not found.ids:
            made += self.migrated()
        if verb in lex.SERVES_A_PORT and (port := keys.text(params.get("port"))) and port.isdecimal():
            made.append(Key(keys.fit(f"port:{port}"), WRITE))
        if not made and found.mails and verb not in lex.DESTROYS:
            return self.addressees()
        if not made and not self.adds and name.head and "all" not in name.words:
            return self.keys(name.nouns[0], self.titles(), WRITE)
        return made

    def migrated(self) -> list[Key]:
        """Return the database of the folder in which a migration is run; two of them race."""
        params = self.params
        where = next(
            (text for name in lists.PROJECT_PARAMS if type(text := params.get(name)) is str and text), self.cwd
        )
        if not where:
            return []
        path = keys.clean(keys.path(keys.clean(where), self.cwd)).rstrip("/")
        kinds = ("migration",) if self.verb in ("create", "generate", "make") else ("database", "migration")
        return [Key(keys.fit(f"{kind}:{path}"), WRITE) for kind in kinds]

    def booked(self) -> list[Key]:
        """Return a room, a desk, a court: taken for a time, and free at others."""
        made: list[Key] = []
        ids = self.found.ids
        for entity in self.name.nouns:
            for value in ids.get(entity, ()):
                thing = keys.clean(value).replace("/", "%2F")
                made += [Key(slot, WRITE) for slot in slots.derive(self.params, f"{entity}-{thing}")]
                if entity == "booking":  # the booking itself is made or confirmed; the facet is its old spelling
                    made += self.keys(entity, (value,), WRITE)
                made += self.keys(entity, (value,), APPEND, "|booking")
        if made:
            for entity in ids:
                made += self.keys(entity, ids[entity], WRITE, "|booking") if entity in lex.BOOKING_NOUNS else ()
        return made

    def files(self) -> list[Key]:
        name, verb = self.name, self.verb
        moves, copies = verb in lex.MOVES_A_FILE, verb in lex.COPIES_A_FILE
        tree = verb in lex.DESTROYS and (self.params.get("recursive") is True or name.head == "directory")
        named = [(entity, path, tree) for entity, path in self.found.paths]
        if moves or copies:
            plain = name.words[0] in ("mv", "cp") or name.head == "file"
            for entity in ("source", "src", "destination", "dest", "dst", "from", "to"):
                value = self.params.get(entity)
                if (
                    isinstance(value, str)
                    and value.strip()
                    and (plain or "/" in value or "." in value or "\\" in value)
                ):
                    named.append((entity, value, False))
        made: list[Key] = []
        for entity, path, is_tree in named:
            made += self.file(path, READ if copies and entity in lex.SOURCE_PARAMS else WRITE, tree=is_tree)
        if made and verb in lex.CHANGES_NAMES and not self.found.repo:
            made += many.renamed(made)
        return made

    def things(self) -> list[Key]:
        """Return the target, with what it lies in."""
        made, found = self.targeted(), self.found
        if found.held or not lex.CONTAINERS.isdisjoint(found.ids) or not lex.CONTAINERS.isdisjoint(found.scopes):
            made = self.placed(made)
        if self.verb in lex.DESTROYS or self.verb in lex.TAKES_CONTENT_ALONG:
            made += [
                Key(f"{key.name}/", WRITE)
                for key in made
                if key.mode is WRITE and _kind(key.name) in lex.CONTAINERS and "|" not in key.name
            ]
        return made

    def placed(self, made: list[Key]) -> list[Key]:
        """Return keys with those of the same things below what they lie in: ``base:app1/record:rec1``.

        What is counted in each container anew, a row or a name, is meant there alone. Its key without the container is
        the spelling of the version before, to which this one only appends: the next release drops it.
        """
        found = self.found
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
            above = [container for container in containers if container[0] != kind]
            if not above or (kind in lex.CONTAINERS and "|" in key.name):
                placed.append(key)
                continue
            named = kind in found.ids or kind in found.scopes or "" in found.ids
            own = not found.repo and (kind in lex.COUNTED_NOUNS or kind in found.bare or not named)
            inner = [
                Key(keys.fit(f"{outer}:{keys.clean(value).rstrip('/ ')}/{key.name}"), key.mode)
                for outer, value in above[:_NESTED]
            ]
            placed += [*inner, Key(key.name, APPEND) if key.mode is WRITE else key] if own else [key, *inner]
        return placed

    def targeted(self) -> list[Key]:
        found, name, adds = self.found, self.name, self.adds
        ids, head, place = found.ids, name.head, name.place
        if found.paths and not ids:
            return []
        entity = self.target()
        if self.into and place and place not in ids and many.owns(name, place):
            return []  # ``add_item_to_cart``: the id is of what is added, the cart is one's own
        if entity is None and adds and found.names and head:
            outer = next(iter(ids), "")
            if outer and not found.repo:  # its name is its own among those of one project
                within = self.keys(outer, ids[outer][:1], WRITE, f"|{head}")[0].name
                return many.parts(within, list(found.names), adds=False)
            return self.keys(head, found.names, WRITE)
        if entity is not None:
            return self.of_target(entity)
        scope = next((noun for noun in (head, *name.nouns) if noun in found.scopes), None)
        if scope is not None:
            facet = f"|{head}" if (adds or self.into) and head and head != scope else ""
            return self.keys(scope, found.scopes[scope], APPEND if facet and adds else WRITE, facet)
        if ids and not (adds and found.repo):
            if "recipient" in ids and not lex.SAYS.isdisjoint(name.nouns):
                return _messages(ids["recipient"], WRITE)
            return self.unspoken()
        if found.repo:
            whole = not head or (head == "repo" and "repo" in name.nouns)
            facet = "" if whole else f"|{head}"
            return [Key(keys.fit(f"{keys.fit('repo:' + found.where)}{facet}"), APPEND if facet and adds else WRITE)]
        return self.keys(head, found.names, WRITE) if head else []

    def of_target(self, entity: str) -> list[Key]:
        """Return the keys of the thing that is changed, or of the part of it that is."""
        found, name, verb = self.found, self.name, self.verb
        head = name.head
        thing = entity or head or "id"
        head = "file-id" if head == "file" and entity else head
        below = head != thing or not lex.CHILD_NOUNS.isdisjoint(name.words)
        facet = f"|{head}" if head and below and (self.adds or self.into or entity in lex.HOLDER_NOUNS) else ""
        if not facet and verb in lex.CHANGES_ACCESS:
            facet = "|access"  # who may see it is another matter than what is in it
        mode = APPEND if facet and self.adds and not _booked_for(entity, head) else WRITE
        made = self.keys(many.of(name, thing), found.ids[entity], mode, facet)
        if facet and verb in lex.PUTS_INTO and (held := found.ids.get(head)):
            adds = verb not in lex.TAKES_OUT
            return [part for key in made for part in many.parts(key.name, held[:8], adds=adds)]
        if len(found.ids) > 1 and mode is WRITE and (not facet or verb in lex.CHANGES_ACCESS):
            return self.within(entity, made)
        return made

    def unspoken(self) -> list[Key]:
        """Return the keys of ids that the name does not mention; containers only if none of their contents is named."""
        ids, head = self.found.ids, self.name.head
        meant = {kind: values for kind, values in ids.items() if kind not in lex.PLACE_NOUNS} or ids
        if not self.adds and len(meant) > 1:
            inner = [kind for kind in meant if kind not in lex.CONTAINERS and kind not in self.found.bare]
            meant = {kind: meant[kind] for kind in inner or list(meant)[-1:]}
        made: list[Key] = []
        for kind, values in meant.items():
            facet = f"|{head}" if head and (self.adds or kind in lex.HOLDER_NOUNS) else ""
            mode = APPEND if self.adds and not _booked_for(kind, head) else WRITE
            made += self.keys(kind or "id", values, mode, facet)
        return made

    def within(self, entity: str, made: list[Key]) -> list[Key]:
        """Return the keys of a thing (``made``) with those of its place in what the name says that it lies in."""
        found = self.found
        outer = next((noun for noun in self.name.nouns if noun in found.ids), entity)
        if outer == entity or outer in found.listed or entity in found.listed:
            return made
        within = [
            part
            for key in self.keys(outer, found.ids[outer][:8], WRITE, f"|{entity}")
            for part in many.parts(key.name, found.ids[entity][:8], adds=False)
        ]
        # The same item may be in two orders, the same label on two issues.
        return within if entity in lex.HARMLESS_TWICE or entity in lex.SHARED_NOUNS else [*made, *within]

    def target(self) -> str | None:
        """Return which of the ids is the thing that is changed, None where no noun of the name tells.

        ``add_user_to_channel`` changes the channel, wherever the name's first noun stands; ``set_label`` gives another
        thing a label, which is a value there. Of several things that the name speaks of the last is meant, for it lies
        in the first: ``update_issue_note`` changes one note, not its issue. But several (``item_ids``) are parts of the
        one that is changed, ``set_issue_milestone`` gives the issue another value, ``add_order_item`` puts something
        into the order.
        """
        found, name, verb = self.found, self.name, self.verb
        ids, head = found.ids, name.head
        if self.into and name.place in ids:
            return name.place
        gives = verb in lex.GIVES_A_VALUE
        outer = next(
            (
                noun
                for noun in name.nouns
                if noun in ids and not (gives and noun == head and noun in found.bare and len(ids) > 1)
            ),
            None,
        )
        if outer is not None:
            if len(ids) == 1:
                return outer
            puts = (self.adds or self.into or gives) and verb not in lex.CHANGES_ACCESS
            for noun in name.nouns:
                if noun in ids and noun not in found.listed and not (puts and noun == head):
                    outer = noun
                if noun == head:
                    break  # what stands behind a preposition is a place or a value
            return outer
        if "file" in name.nouns and "file-id" in ids:
            return "file-id"
        return "" if "" in ids else None

    def keys(self, entity: str, values: Iterable[str], mode: Mode, facet: str = "") -> list[Key]:
        if self.found.repo:
            entity = f"{entity}:{self.found.where}/"
        else:
            entity += ":"
            if entity in ("file:", "url:") and not facet:  # an id may be a path or an address
                return [Key((keys.spell(entity, value) or (entity,))[0], mode) for value in values]
        return [Key(keys.fit(f"{entity}{keys.clean(value).rstrip('/ ')}{facet}"), mode) for value in values]

    def file(self, path: str, mode: Mode, *, tree: bool = False) -> list[Key]:
        """Return the key of a path on this machine, or inside a hosted repository."""
        if self.found.repo:
            return self.keys("blob", (path.lstrip("/"),), mode)
        return [Key(name, mode) for name in keys.spell("file:", path, self.cwd, tree=tree)]

    def addressees(self) -> list[Key]:
        # cleaned first, as in ``spell``
        named = (address for mail in self.found.mails for address in keys.addresses(keys.clean(mail)))
        return [Key(keys.fit("email:" + keys.clean(address)), WRITE) for address in named]

    def threads(self, mode: Mode, *, mail: bool, replied: Sequence[str] = ()) -> list[Key]:
        """Return the keys of threads: with whom they are where the call says so, and each thread alone.

        A thread that is named alone may be one of mails. Messages may be counted in each chat: two sessions that name
        the same number and different chats are not in one thread, so there the thread alone is only appended to.
        """
        threads = replied or self.found.threads
        where = () if mail or replied else self.where()
        made = [Key(keys.fit(f"thread:{keys.clean(room)}:{keys.clean(threads[0])}"), mode) for room in where]
        alone = APPEND if made and mode is WRITE else mode
        for thread in threads:
            if not mail:
                made += [Key(name, alone) for name in keys.thread(thread)]
            if not where:
                made += _keys("email:thread:", thread, mode)
        return made

    def where(self) -> Sequence[str]:
        """Return where a message goes: a channel or a room, else whom it is for."""
        ids = self.found.ids
        rooms = ids.get("channel") or ids.get("room") or self.first_of(lists.ROOM_PARAMS)
        if rooms:
            return [spelling for room in rooms for spelling in keys.channels(room)]
        return ids.get("recipient") or self.found.mails or ids.get("phone") or ids.get("user") or ()

    def first_of(self, names: tuple[str, ...]) -> Sequence[str]:
        """Return the texts of the first of some params that has any."""
        for name in names:
            if type(value := self.params.get(name)) in _SCALAR and (texts := short(value)):
                return texts
        return ()

    def first_text(self, names: tuple[str, ...]) -> str:
        """Return the first of some params that has a short text."""
        return next((text for name in names if (text := keys.text(self.params.get(name))) and len(text) <= 256), "")

    def titles(self) -> Sequence[str]:
        """Return what names a thing that has no id: a title, a symbol. The name of a thing that is made is no key."""
        if not self.shape.titled:
            return ()
        return next((texts for name in lists.TITLES if (texts := short(self.params.get(name)))), ())


def _is_mail(name: Name) -> bool:
    return not lex.MAILBOX_NOUNS.isdisjoint(name.words) or "email" in name.nouns


def _references(params: Mapping[str, Any]) -> list[Key]:
    return [key for text in arguments.references(params) for key in _keys("payment:", text, WRITE)]


def _keys(prefix: str, value: str, mode: Mode) -> list[Key]:
    return [Key(name, mode) for name in keys.spell(prefix, value)]


def _messages(where: Sequence[str], mode: Mode) -> list[Key]:
    """Return what is said in channels or to somebody: another part of them than who is there."""
    return [Key(keys.fit(f"{key.name}|message"), mode) for room in where for key in _keys("channel:", room, mode)]


def _kind(name: str) -> str:
    """Return what kind of thing a key names: ``base:app1/record:rec1`` a record."""
    return name.rpartition("/")[2].partition(":")[0] if name.rfind(":") > name.rfind("/") else name.partition(":")[0]


def _booked_for(entity: str, head: str) -> bool:
    """Return True if somebody commits himself: of a second booking for one person its session is told."""
    return entity in lex.BOOKING_NOUNS and head in lex.COMMITMENTS
