"""Keys of calls that name no single thing: lists and searches, and what is put among the things listed.

All things of one kind are a tree, ``order:/``, which covers ``order:W1``. What can be said no more
precisely is a facet of the tree:

``order:/``         a look at all of them; a change of all of them
``order:/|new``     one more of them (appended), and looks at the newest
``order:/|some``    a look at those that a search finds, which nobody can tell beforehand
``profile:/|own``   the one that the account has
``file:/w/|names``  the names in a directory, not what is in the files

A search does not meet a change of one thing: whether that is among what was found, its words alone
cannot tell. A change of all meets every search. A list of those in a state of work (``open``) or
changed since a time is no search: what is new or changed may well be among them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.model import Key
from callosum.rules import keys, slots
from callosum.rules import lexicon as lex
from callosum.rules.arguments import part_of
from callosum.rules.keys import APPEND, READ, WRITE
from callosum.rules.lexicon import maps
from callosum.rules.opposites import NEW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from callosum.rules.arguments import Arguments
    from callosum.rules.name import Name

ALL: Final = "/"
MORE: Final = NEW
SOME: Final = "/|some"
OWN: Final = "/|own"
NAMES: Final = "|names"


def kind(name: Name) -> str:
    """Return what the call is about: its last noun that is more than an aspect, ``""`` if it has none."""
    if "draft" in name.nouns:
        return "draft"
    for noun in (name.head, *reversed(name.nouns)):
        if noun and noun not in lex.ASPECTS:
            return of(name, maps.LISTED.get(noun, noun))
    return ""


def of(name: Name, entity: str) -> str:
    """Return an entity as keys spell it: a mail is a ``message``, what is planned a ``scheduled-payment``."""
    if entity == "email":
        entity = "message"
    if entity in lex.COMMITMENTS or lex.NOT_YET.isdisjoint(name.words):
        return entity
    return f"scheduled-{entity}"


def owns(name: Name, noun: str) -> bool:
    """Return True if a noun is something of which there is one where no id is given."""
    return noun in lex.OWNED or (noun == "account" and "account" in name.words)


def own(noun: str, found: Arguments) -> str:
    """Return the key of the one that an account has: the caller's, where the call says as whom it is made."""
    return f"{noun}:{OWN}@{found.login}" if found.login else f"{noun}:{OWN}"


def looks(found: Arguments, name: Name, params: Mapping[str, Any], cwd: str | None) -> list[Key]:
    """Return the keys of a look that names no thing."""
    noun = kind(name)
    if not noun:
        return []
    searched = found.narrowed or bool(found.mails or found.names or found.ids)
    if noun in lex.CALENDARS:
        dated = slots.days(params)
        if dated:
            only_dates = all(slots.is_time(name) or value is None for name, value in params.items())
            return [_look(day + (SOME[1:] if searched and not only_dates else "")) for day in dated]
    if noun == "file" and not found.repo:
        if searched:
            return [_look("file-id:" + SOME)]
        return [_look("file-id:" + ALL), *directory(".", cwd)]
    owned = next((item for item in (noun, *name.nouns) if owns(name, item)), "")
    if owned and not searched:
        return [_look(own(owned, found)), *_paid(owned)]
    root = f"{noun}:" if not found.where else f"{noun}:{found.where}"
    if searched or found.paged:
        made = [_look(root + SOME)]
        if not searched:
            made.append(_look(f"repo:{found.where}|{noun}" if found.where else root + NEW))
    else:
        made = [_look(root + ALL)]
        if found.where:
            made.append(_look(f"repo:{found.where}|{noun}"))
        elif noun in lex.CALENDARS:
            made.append(_look("slot:/"))
    return made if searched else made + _paid(noun)


def _paid(noun: str) -> list[Key]:
    """Return the keys of payments, which show among an account's transactions and in its balance."""
    return [_look("payment:/")] if noun in ("transaction", "balance") else []


def touched(name: Name) -> tuple[Key, ...]:
    """Return what a look changes that changes what it looks at (``marked as read after``)."""
    noun = kind(name)
    return (Key(keys.fit(f"{noun}:{SOME}"), APPEND),) if noun else ()


def planned(name: Name, entity: str) -> list[Key]:
    """Return what a payment that is planned adds to the list of those; nothing where it is made at once."""
    kept = of(name, entity)
    return [Key(f"{kept}:{NEW}", APPEND)] if kept != entity else []


def _look(name: str) -> Key:
    return Key(keys.fit(name), READ)


def directory(path: str, cwd: str | None) -> list[Key]:
    """Return the key of a look at the names in a directory."""
    return [_look(item + NAMES) for item in keys.spell("file:", path, cwd, tree=True)]


def renamed(files: list[Key]) -> list[Key]:
    """Return what a change of which files there are adds to the directories they are in: the names there change."""
    found: dict[str, None] = {}
    for key in files:
        above = key.name.rstrip("/").rpartition("/")[0]
        if key.mode is not READ and key.name[:5] == "file:" and above:
            found[f"{above}/{NAMES}"] = None
    return [Key(keys.fit(item), APPEND) for item in found]


def lists(name: Name, verb: str, entity: str) -> bool:
    """Return True if a look at a path is one at the names in a directory."""
    return entity in ("directory", "folder", "dir", "dir_path", "directory_path", "folder_path", "dir_name") or (
        "directory" in name.nouns and verb in lex.LISTS_NAMES
    )


def changes(found: Arguments, name: Name, verb: str, params: Mapping[str, Any], *, adds: bool) -> list[Key]:
    """Return the keys of a change that names no thing: one more, all of them, or the one that the account has."""
    owned = next((noun for noun in name.nouns if owns(name, noun)), "")
    if owned:
        if owned == name.place and verb in lex.INTO and (held := _held(params)):
            return parts(own(owned, found), [held], adds=verb not in lex.TAKES_OUT)
        return [Key(own(owned, found), APPEND if adds or verb in lex.PAYS else WRITE)]
    noun = kind(name)
    if not noun:
        return []
    if (adds and verb in lex.CREATES) or (verb == "set" and noun in ("alarm", "reminder", "timer")):
        return [Key(keys.fit(f"{noun}:{NEW}"), APPEND)]
    if "all" in name.words:
        return [Key(keys.fit(f"{noun}:{ALL}"), WRITE)]
    if name.head in lex.ASPECTS and verb in lex.SETS:
        return [Key(keys.fit(own(noun, found)), WRITE)]
    return []


def parts(container: str, held: list[str], *, adds: bool) -> list[Key]:
    """Return the keys of what is put into a container or taken out of it: others of its things are nobody's concern."""
    mode = APPEND if adds else WRITE
    return [
        Key(container, APPEND),
        *(Key(keys.fit(f"{container}/{keys.clean(item).rstrip('/ ')}"), mode) for item in held),
    ]


def _held(params: Mapping[str, Any]) -> str:
    """Which thing it is that is put in or taken out: what the first param says that names one."""
    return next((text for name, value in islice(params.items(), 16) if (text := part_of(name, value))), "")
