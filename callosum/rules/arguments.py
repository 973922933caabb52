"""What the arguments of a call hold, by their names and by what they look like.

An argument is an id of some thing (``order_id``), a path, an address, a name, the place where the
thing is (owner and repository, a tenant), a thread, or a condition that narrows a list.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.redact.secret_names import Concealment, cover
from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.lexicon import lists
from callosum.rules.name import singular, words
from callosum.rules.template import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PARAMS: Final = 256
"""How many params of a call are looked at for keys."""
MAX_TEXT: Final = 4096
"""How many characters an id, a path or an address can have."""
_WORDS: Final = 5
"""An argument of more words is a text, whatever it is called."""

_NONE, _ID, _PATH, _MAIL, _URL, _NAME, _SCOPE, _OWNER, _REPO, _THREAD, _PART, _SHAPE, _LOGIN, _USER, _STATE, _HELD = (
    range(16)
)

_LONGEST: Final = 64


_PLAIN: Final = {
    **dict.fromkeys(lex.PAGING_PARAMS, _PART),
    **dict.fromkeys(lex.NAME_PARAMS, _NAME),
    **dict.fromkeys(("repo", "repository", "repo_name", "repository_name"), _REPO),
    **dict.fromkeys(("owner", "org", "repo_owner"), _OWNER),
    **dict.fromkeys(("url", "uri", "link", "href"), _URL),
    **dict.fromkeys(lex.ADDRESS_PARAMS, _MAIL),
    **dict.fromkeys(lex.THREAD_PARAMS, _THREAD),
    **dict.fromkeys(lex.PATH_PARAMS, _PATH),
}


@lru_cache(maxsize=4096)
def _role(name: str) -> tuple[int, str]:
    """Return what a param of this name holds, and the thing it names."""
    if name in lists.TOOL_PARAMS:
        return _SHAPE, ""
    low = name.lower().replace("-", "_")
    found = words(name)
    if found[1:-1].count("to") == 1 and found[-2] == "to" and found[-1] in lex.VERBS:
        found = found[:-2]  # ``username_to_follow``
    if found[-2:] == ["mac", "address"]:
        found = found[:-1]
    if found == ["pid"]:
        return _ID, "process"
    plain = "_".join(found)
    if low in lex.PATH_PARAMS:
        return _PATH, low
    if low in lex.LOGIN_PARAMS or plain in lex.LOGIN_PARAMS:
        return _LOGIN, plain
    if plain in lex.SENDER_PARAMS:
        return _STATE, plain
    if found and found[-1] not in lex.CERTAIN_ID_ENDINGS and cover(name) > Concealment.RANDOM:
        return _SHAPE if found[
            -1
        ] in lex.SECRET_NOUNS else _STATE, ""  # the id of a secret may name one; the secret may not
    if plain in _PLAIN:
        return _PLAIN[plain], plain
    if plain.endswith(("_url", "_uri")):
        return _URL, plain
    if not found or plain in lex.IGNORED:
        return _SHAPE, ""
    return _told(found)


def _told(found: list[str]) -> tuple[int, str]:
    """Return what a param holds by the last word of its name."""
    if (
        len(last := found[-1]) > 3
        and last.endswith("id")
        and last not in lex.ID_ENDINGS
        and last not in lex.WORDS_ENDING_IN_ID
    ):
        return _identified([*found[:-1], last[:-2], "id"])  # ``vmid``
    if found[-1] in lex.ID_ENDINGS or (found[-1] == "account" and len(found) > 1):
        return _identified(found)
    if found[-1] in lex.SECRET_NOUNS or (
        found[-1] in lex.SINCE_ENDINGS and found[-2:-1] and found[-2] in lex.CHANGE_TIME_WORDS
    ):
        return _SHAPE, ""
    if found[-1] in lex.STATE_PARAMS:
        return _STATE, "state" if found == ["state"] else ""
    rest = [singular(item) for item in found if item not in lex.QUALIFIERS]
    if len(rest) == 2 and found[-1] in lex.NAME_ENDINGS and rest[0] not in lex.PERSONAL_NAME_WORDS:
        return _NONE, rest[0]
    return _NONE, rest[-1] if len(rest) == 1 else ""


def _identified(found: list[str]) -> tuple[int, str]:
    """Return what a param holds whose last word says that it is an id, and the thing it names."""
    rest = [singular(item) for item in found[:-1] if item not in lex.QUALIFIERS]
    entity = "parent" if "parent" in found else rest[-1] if rest else ""
    if entity in lex.ADDRESSEE_NOUNS:
        entity = "recipient"
    if entity == "file":
        entity = "file-id"  # a drive's number, no path
    named = entity in lex.NUMBERED_NOUNS and found[-1] in lex.CERTAIN_ID_ENDINGS
    if (entity in lex.NOUNS_WITHOUT_ID and not named) or (
        found[-1] == "key" and (not rest or entity in lex.NOUNS_WITHOUT_KEY)
    ):
        return _NONE, entity if entity in lex.TABLE_POSITION_NOUNS else ""
    if entity in lex.SCOPES or "_".join(rest) in lex.SCOPES:
        return _SCOPE, entity
    return _ID, entity


@lru_cache(maxsize=1024)
def _reference(name: str) -> int:
    """Return 2 if a param names what is paid or taken back by its own id (``charge_id``), 1 if maybe (``charge``)."""
    found = words(name) if cover(name) <= Concealment.RANDOM else []
    ends = len(found) > 1 and found[-1] in lex.ID_ENDINGS
    if ends:
        found.pop()
    return (2 if ends else 1) if found and singular(found[-1]) in lex.REFERENCES else 0


def references(params: Mapping[str, Any]) -> list[str]:
    """Return the ids of what is paid, refunded or taken back: of a ``charge``, a ``payment_intent``, an invoice.

    A param that only has the noun for its name may hold an amount: a text with a digit in it is an id.
    """
    found: list[str] = []
    for name, value in islice(params.items(), MAX_PARAMS):
        if type(name) is str and len(name) <= _LONGEST and (sure := _reference(name)):
            texts = short(value) if type(value) in (str, list) or sure > 1 else []
            found += [
                text
                for text in texts[:8]
                if len(text) <= 128
                and (sure > 1 or (" " not in text and not _AMOUNT.fullmatch(text) and any(map(str.isdigit, text))))
            ]
    return found


_AMOUNT: Final = re.compile(r"[-+]?\d+[.,]\d{1,2}")


def role_of(name: str) -> str | None:
    """Return the thing whose id a field of this name is, ``""`` for a bare ``id``, None for no id."""
    role, entity = _role(name)
    return entity if role == _ID else None


def part_of(name: str, value: Any) -> str:
    """Return the text of a param that names one thing by an id, a name or a noun (``symbol``), else ``""``."""
    if type(name) is not str or len(name) > 64 or name[:1] == "_":
        return ""
    role, entity = _role(name)
    named = role in (_ID, _NAME, _USER) or (
        role == _NONE
        and entity
        and entity not in lex.TIME_NOUNS
        and entity not in lex.VALUE_NOUNS
        and type(value) is str
    )
    text = keys.text(value) if named and type(value) is not bool else None
    return text if text and len(text) <= 128 and text.count(" ") <= _WORDS and "\n" not in text else ""


_FEW: Final = 64
_TEXTS: Final = {str}
_SCALAR: Final = frozenset((str, int))
_strip: Final = str.strip
Role = tuple[str, int, str]
"""A param's name, what it holds, and the thing it names."""


def roles(names: tuple[Any, ...]) -> tuple[Role, ...]:
    """Return what params hold by their names, without those that name nothing, whatever they hold."""
    found = []
    for name in names[:MAX_PARAMS]:
        if type(name) is not str or name[:1] == "_":
            continue
        role, entity = _role(name) if len(name) <= 64 else (_NONE, "")
        if role == _NONE and (entity in lex.TIME_NOUNS or entity in lex.VALUE_NOUNS):
            entity = ""
        elif role == _NONE and entity in lex.CONTAINERS:
            role = _HELD
        elif role == _NAME and entity in lex.USER_NAME_PARAMS:
            role, entity = _USER, "user"
        if role != _SHAPE:
            found.append((name, role, entity))
    return tuple(found)


class Arguments:
    """The arguments of one call, sorted by what they hold.

    ``ids`` and ``scopes`` by the thing they name; ``listed``: of which there is a list; ``held``: by their names alone,
    what holds other things; ``bare``: the ids of which a param without ``id`` in its name tells; ``paths`` with the
    param's name; ``narrowed``: an argument that names nothing narrows what is asked for; ``paged``: a part is
    asked for; ``login``: a short digest of as whom the call is made, ``""`` where it does not say.
    """

    owner = repo = login = ""
    narrowed = paged = False

    def __init__(self, params: Mapping[str, Any], nouns: tuple[str, ...], which: tuple[Role, ...]) -> None:
        """Sort the params that ``roles`` gave (``which``); ``nouns`` are those of the tool's name."""
        ids: dict[str, list[str]] = {}
        self.ids, self.nouns = ids, nouns
        self.scopes: dict[str, list[str]] = {}
        self.held: dict[str, str] = {}
        self.paths: list[tuple[str, str]] = []
        self.mails: list[str] = []
        self.urls: list[str] = []
        self.names: list[str] = []
        self.threads: list[str] = []
        self.listed: list[str] = []
        self.bare: list[str] = []
        for name, role, entity in which:
            value = params[name]
            if type(value) is str:
                if role == _ID:
                    value = value.strip()
                    if (
                        not value
                        or len(value) > MAX_TEXT
                        or (name in lex.PAGE_ELEMENT_PARAMS and (not nouns or "file" in nouns))
                        or (name in lex.BROWSER_PARAMS and "browser" in nouns)
                    ):
                        continue
                    if entity in ids:
                        ids[entity].append(value)
                    else:
                        ids[entity] = [value]
                elif role == _NONE and "@" not in value and entity not in nouns:
                    self.narrowed = self.narrowed or value != ""
                elif value:
                    self._take(role, entity, value)
            elif value is not None and value is not True and value is not False:
                self._take(role, entity, value)
        if "project" in ids and len(ids) > 1 and not self.repo and any(_relative(role, ids) for role in which):
            self.repo = keys.clean(ids["project"][0]).lower()  # its ``issue_iid`` 7 is not that of another

    def _take(self, role: int, entity: str, value: Any) -> None:
        """Take an argument by what its name says that it holds."""
        spoken = entity in self.nouns
        if role == _HELD and not spoken and type(value) in _SCALAR and (texts := short(value)):
            self.held[entity] = texts[0]
            self.narrowed = True
        elif role in (_NONE, _HELD):
            self._unnamed(entity if spoken else "", value)
        elif role == _STATE:
            if spoken:
                self._unnamed(entity, value)
            elif not _current(value):
                self.narrowed = True
        elif role == _PART:
            self.paged = True
        elif texts := short(value):
            if role == _ID and type(value) is list:
                self.listed.append(entity)
            if role == _ID or (role == _USER and spoken):
                self.ids.setdefault(entity, []).extend(texts)
            else:
                self._named(role, entity, texts)

    def _unnamed(self, entity: str, value: Any) -> None:
        """Take an argument whose name says little: an address as such, or a noun of the tool (``entity``)."""
        kind = type(value)
        if kind is str and len(value) <= 320 and "@" in value and " " not in value.strip() and keys.addresses(value):
            self.mails.append(value)
        elif kind is str and (
            value.count(" ") > _WORDS or "\n" in value or (entity in lex.SPOKEN_NOUNS and not _number(value))
        ):
            self.narrowed = True  # what is said in a comment, not which one is meant
        elif entity and kind is not dict and (texts := short(value)) and texts[0].lower() not in lex.SWITCH_VALUES:
            if entity not in self.ids:
                self.bare.append(entity)
            self.ids.setdefault(entity, []).extend(texts)
        elif kind is list and value and all(type(it) is str and len(it) <= 320 and "@" in it for it in value[:256]):
            self.mails += value[:256]
        else:
            self.narrowed = True

    def _named(self, role: int, entity: str, texts: list[str]) -> None:
        if role == _PATH:
            self.paths += [(entity, text) for text in texts]
        elif role == _MAIL:
            self.mails += texts
        elif role == _SCOPE:
            self.scopes.setdefault(entity, []).extend(texts)
        elif role == _THREAD:
            # an address (``Desk <desk@x.org>``), not the id of a message (``<a1@mail.x.org>``)
            self.threads += [
                text
                for text in texts
                if entity not in lex.REPLY_ADDRESS_PARAMS
                or "@" not in text
                or (text[0] == "<" and text[-1] == ">")
                or not keys.addresses(text)
            ]
        elif role == _URL:
            self.urls += texts
        elif role in (_NAME, _USER):
            self.names += texts
        elif role == _LOGIN:
            self.login = blake2b(texts[0].encode("utf-8", "surrogatepass"), digest_size=4, person=b"login").hexdigest()
        elif role == _OWNER:
            self.owner = keys.clean(texts[0]).lower()
        else:
            self.repo = keys.clean(keys.repository(texts[0])).lower()

    @property
    def where(self) -> str:
        """The hosted repository that the call speaks of, as keys spell it, ``""`` if none: ``acme/site``."""
        if not self.repo:
            return ""
        return f"{self.owner}/{self.repo}" if self.owner and "/" not in self.repo else self.repo


def _current(value: Any) -> bool:
    """Return True if a state is one that things have which are worked on, so that what is new or changed may have it.

    Of a list, whether one of its states is.
    """
    if isinstance(value, (list, tuple)):
        return any(_current(item) for item in value[:16] if not isinstance(item, (list, tuple)))
    if type(value) is not str or len(value) > _LONGEST:
        return False
    return value.strip().lower().replace(" ", "_").replace("-", "_") in lex.CURRENT_STATES


def _number(value: str) -> bool:
    """Return True if a text looks like the number of something said (``msg-500``), not like what is said."""
    value = value.strip()
    return len(value) <= _LONGEST and " " not in value and any(item.isdigit() for item in value)


def _relative(role: Role, ids: Mapping[str, Any]) -> bool:
    """Return True if a param names something by a number or a name that another project may have as well."""
    name, holds, entity = role
    return (
        name.endswith(lists.PROJECT_NUMBER_PARAMS)
        if holds == _ID
        else holds in (_NONE, _HELD) and entity in ids and entity != "project"
    )


def short(value: Any) -> list[str]:
    """Return the texts of a value that are short enough for a key: several for a list."""
    if type(value) is str:
        value = value.strip()
        return [value] if value and len(value) <= MAX_TEXT else []
    if type(value) is list and len(value) <= _FEW and set(map(type, value)) == _TEXTS:
        texts = list(map(_strip, value))
        if "" not in texts and "unknown" not in texts and max(map(len, texts)) <= MAX_TEXT:
            return texts
    return [item for item in flatten(value) if len(item) <= MAX_TEXT]
