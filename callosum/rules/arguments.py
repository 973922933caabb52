"""What the arguments of a call hold, by their names and by what they look like.

An argument is an id of some thing (``order_id``), a path, an address, a name, the place where the
thing is (owner and repository, a tenant), a thread, or a condition that narrows a list.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.name import singular, words
from callosum.rules.template import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_PARAMS: Final = 256
"""How many params of a call are looked at for keys."""
MAX_TEXT: Final = 4096
"""How many characters an id, a path or an address can have."""
_WORDS: Final = 5
"""An argument of more words is a text, whatever it is called."""

_NONE, _ID, _PATH, _MAIL, _URL, _NAME, _SCOPE, _OWNER, _REPO, _THREAD, _PART, _SHAPE, _LOGIN, _USER, _STATE = range(15)

_ID_ENDS: Final = frozenset(
    "id ids iid iids gid gids sid uuid guid number numbers no num ref slug iban handle sku ts arn urn identifier key "
    "mac".split()
)
_NAME_ENDS: Final = frozenset(("name", "names"))
_PERSONAL: Final = frozenset("first last full display middle given family user sender nick sur".split())
"""``first_name`` is a part of a person, ``bucket_name`` is the bucket."""
_PATHS: Final = frozenset(
    "path paths file_path filepath filename file_name absolute_path relative_path target_file "
    "notebook_path directory folder dir dir_path directory_path folder_path dir_name destination_path "
    "source_path old_path new_path file_paths filepaths".split()
)
_MAILS: Final = frozenset(
    "to cc bcc recipient recipients email emails email_address email_addresses to_email to_emails addressee "
    "addressees address attendee attendees participant participants".split()
)
_THREADS: Final = frozenset(
    "thread_id threadid thread_ts threadts in_reply_to inreplyto reply_to replyto reply_to_id replytoid "
    "reply_to_message_id".split()
)
_NAMES: Final = frozenset("name slug username user_name login_name screen_name title_slug key".split())
_USERS: Final = frozenset("username user_name login_name screen_name".split())
"""Names that only users have."""
_NOT_IDS: Final = frozenset(
    "page line port version row column phone_country build max min api access secret public private sort idempotency "
    "partition primary foreign cache".split()
)
_NUMBERED: Final = frozenset("page line version row column".split())
_COUNTED: Final = ("iid", "number", "Iid", "Number")
"""Ids that each project counts for itself."""
_ADDRESSED: Final = frozenset("receiver recipient addressee".split())
_REAL_IDS: Final = frozenset("id ids iid iids gid gids uuid guid".split())
"""``page_number`` is where to read on, ``page_id`` is a page."""
_SECRETS: Final = frozenset("password passcode passphrase pin otp secret passwd pwd".split())
"""What nobody may read is in no key, even where it looks like an address."""
_VALUES: Final = frozenset(
    "password passcode passphrase pin otp secret token price amount cost quantity status".split()
)
"""What a thing has, or what nobody may read; which thing it is they do not say."""
_CURRENT: Final = frozenset(
    "open opened active pending todo to_do unread new all any in_progress current upcoming scheduled draft queued "
    "running started unresolved unassigned enabled planned waiting".split()
)
"""States of what is worked on: what is new or changed may have them."""
_STATES: Final = frozenset("state states status statuses".split())
_HAPPENED: Final = frozenset("created updated modified changed received added".split())
_FROM_THEN: Final = frozenset(("after", "since"))
"""Ends of params, ``updated_after``: what is changed later than this call is among what it asks for."""
_SAID: Final = frozenset("message comment note reply post tweet text body content caption answer status".split())
"""Things that are words themselves: a param of this name holds them, unless it is a number."""
_LONGEST: Final = 64
_TIMES: Final = frozenset("day date time week month year hour minute duration period start end".split())
_PARTS: Final = frozenset(
    "limit offset page per_page page_size pagesize cursor start_cursor page_token next_token max_results maxresults "
    "max_keys count top skip n first last after before page_number starting_after".split()
)
"""Params that ask for a part of a list."""
_LOGINS: Final = frozenset(
    "access_token auth_token token session_token user_token account_token api_key apikey api_token bearer_token "
    "credential credentials auth authorization".split()
)
"""Params that say as whom the call is made: of what an account has only one, each has its own."""


_PLAIN: Final = {
    **dict.fromkeys(_LOGINS, _LOGIN),
    **dict.fromkeys(_PARTS, _PART),
    **dict.fromkeys(_NAMES, _NAME),
    **dict.fromkeys(("repo", "repository", "repo_name", "repository_name"), _REPO),
    **dict.fromkeys(("owner", "org", "repo_owner"), _OWNER),
    **dict.fromkeys(("url", "uri", "link", "href"), _URL),
    **dict.fromkeys(_MAILS, _MAIL),
    **dict.fromkeys(_THREADS, _THREAD),
    **dict.fromkeys(_PATHS, _PATH),
}


@lru_cache(maxsize=4096)
def _role(name: str) -> tuple[int, str]:
    """Returns what a param of this name holds, and the thing it names."""
    if name in lex.TOOL_PARAMS:
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
    if low in _PATHS:
        return _PATH, low
    if plain in _PLAIN:
        return _PLAIN[plain], plain
    if plain.endswith(("_url", "_uri")):
        return _URL, plain
    if not found or plain in lex.IGNORED:
        return _SHAPE, ""
    if found[-1] in _ID_ENDS or (found[-1] == "account" and len(found) > 1):
        return _identified(found)
    if found[-1] in _SECRETS or (found[-1] in _FROM_THEN and found[-2:-1] and found[-2] in _HAPPENED):
        return _SHAPE, ""
    if found[-1] in _STATES:
        return _STATE, "state" if plain == "state" else ""
    rest = [singular(one) for one in found if one not in lex.QUALIFIERS]
    if len(rest) == 2 and found[-1] in _NAME_ENDS and rest[0] not in _PERSONAL:
        return _NONE, rest[0]
    return _NONE, rest[-1] if len(rest) == 1 else ""


def _identified(found: list[str]) -> tuple[int, str]:
    """Returns what a param holds whose last word says that it is an id, and the thing it names."""
    rest = [singular(one) for one in found[:-1] if one not in lex.QUALIFIERS]
    entity = "parent" if "parent" in found else rest[-1] if rest else ""
    if entity in _ADDRESSED:
        entity = "recipient"
    if entity == "file":
        entity = "file-id"  # a drive's number, no path
    named = entity in _NUMBERED and found[-1] in _REAL_IDS
    if (entity in _NOT_IDS and not named) or (found[-1] == "key" and not rest):
        return _NONE, ""
    if entity in lex.SCOPES or "_".join(rest) in lex.SCOPES:
        return _SCOPE, entity
    return _ID, entity


def role_of(name: str) -> str | None:
    """Returns the thing whose id a field of this name is, ``""`` for a bare ``id``, None for no id."""
    role, entity = _role(name)
    return entity if role == _ID else None


def part_of(name: str, value: Any) -> str:
    """Returns the text of a param that names one thing by an id, a name or a noun (``symbol``), else ``""``."""
    if type(name) is not str or len(name) > 64 or name[:1] == "_":
        return ""
    role, entity = _role(name)
    named = role in (_ID, _NAME, _USER) or (
        role == _NONE and entity and entity not in _TIMES and entity not in _VALUES and type(value) is str
    )
    text = keys.text(value) if named and type(value) is not bool else None
    return text if text and len(text) <= 128 and text.count(" ") <= _WORDS and "\n" not in text else ""


_T = TypeVar("_T")
_FEW: Final = 64
_TEXTS: Final = {str}
_strip: Final = str.strip
Role = tuple[str, int, str]
"""A param's name, what it holds, and the thing it names."""


def roles(names: tuple[Any, ...]) -> tuple[Role, ...]:
    """Returns what params hold by their names, without those that name nothing, whatever they hold."""
    found = []
    for name in names[:MAX_PARAMS]:
        if type(name) is not str or name[:1] == "_":
            continue
        role, entity = _role(name) if len(name) <= 64 else (_NONE, "")
        if role == _NONE and (entity in _TIMES or entity in _VALUES):
            entity = ""
        if role == _NAME and entity in _USERS:
            role, entity = _USER, "user"
        if role != _SHAPE:
            found.append((name, role, entity))
    return tuple(found)


class Arguments:
    """The arguments of one call, sorted by what they hold.

    ``ids`` and ``scopes`` by the thing they name; ``listed``: of which there is a list; ``paths`` with the
    param's name; ``narrowed``: an argument that names nothing narrows what is asked for; ``paged``: a part is
    asked for; ``login``: a short digest of as whom the call is made, ``""`` where it does not say.
    """

    # Most calls have a few of these: what is not there costs nothing.
    mails: Sequence[str] = ()
    paths: Sequence[tuple[str, str]] = ()
    urls: Sequence[str] = ()
    names: Sequence[str] = ()
    threads: Sequence[str] = ()
    scopes: Mapping[str, list[str]] = MappingProxyType({})
    listed: tuple[str, ...] = ()
    owner = repo = login = ""
    narrowed = paged = False

    def __init__(self, params: Mapping[str, Any], nouns: tuple[str, ...], which: tuple[Role, ...]) -> None:
        """Sorts the params that ``roles`` gave (``which``); ``nouns`` are those of the tool's name."""
        self.ids: dict[str, list[str]] = {}
        ids = self.ids
        for name, role, entity in which:
            value = params[name]
            if type(value) is str:
                if role == _ID:
                    value = value.strip()
                    if not value or len(value) > MAX_TEXT:
                        continue
                    if entity in ids:
                        ids[entity].append(value)
                    else:
                        ids[entity] = [value]
                elif role == _NONE and "@" not in value and entity not in nouns:
                    self.narrowed = self.narrowed or value != ""
                elif value:
                    self._take(role, entity, value, nouns)
            elif value is not None and value is not True and value is not False:
                self._take(role, entity, value, nouns)
        if "project" in ids and len(ids) > 1 and not self.repo and any(_relative(one, ids) for one in which):
            self.repo = keys.clean(ids["project"][0]).lower()  # its ``issue_iid`` 7 is not that of another

    def _take(self, role: int, entity: str, value: Any, nouns: tuple[str, ...]) -> None:
        """Takes an argument by what its name says that it holds."""
        if role == _NONE:
            self._unnamed(entity if entity in nouns else "", value)
        elif role == _STATE:
            if entity in nouns:
                self._unnamed(entity, value)
            elif not _current(value):
                self.narrowed = True
        elif role == _PART:
            self.paged = True
        elif texts := short(value):
            if role != _ID:
                self._named(role, entity, texts, nouns)
                return
            if type(value) is list:
                self.listed = (*self.listed, entity)
            self.ids[entity] = _more(self.ids.get(entity, ()), texts)

    def _unnamed(self, entity: str, value: Any) -> None:
        """Takes an argument whose name says little: an address as such, or a noun of the tool (``entity``)."""
        kind = type(value)
        if kind is str and len(value) <= 320 and "@" in value and " " not in value.strip() and keys.addresses(value):
            self.mails = _more(self.mails, [value])
        elif kind is str and (value.count(" ") > _WORDS or "\n" in value or (entity in _SAID and not _number(value))):
            self.narrowed = True  # what is said in a comment, not which one is meant
        elif entity and kind is not dict and (texts := short(value)):
            self.ids[entity] = _more(self.ids.get(entity, ()), texts)
        elif kind is list and value and all(type(one) is str and len(one) <= 320 and "@" in one for one in value[:256]):
            self.mails = _more(self.mails, value[:256])
        else:
            self.narrowed = True

    def _named(self, role: int, entity: str, texts: list[str], nouns: tuple[str, ...]) -> None:
        if role == _USER:
            if entity in nouns:
                self.ids[entity] = _more(self.ids.get(entity, ()), texts)
            else:
                self.names = _more(self.names, texts)
        elif role == _PATH:
            self.paths = _more(self.paths, [(entity, one) for one in texts])
        elif role == _MAIL:
            self.mails = _more(self.mails, texts)
        elif role == _SCOPE:
            self.scopes = {**self.scopes, entity: _more(self.scopes.get(entity, ()), texts)}
        elif role == _THREAD:
            self.threads = _more(self.threads, texts)
        elif role == _URL:
            self.urls = _more(self.urls, texts)
        elif role == _NAME:
            self.names = _more(self.names, texts)
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
    """Tells whether a state is one that things have which are worked on, so that what is new or changed may have it.

    Of a list, whether one of its states is.
    """
    if isinstance(value, (list, tuple)):
        return any(_current(one) for one in value[:16] if not isinstance(one, (list, tuple)))
    return type(value) is str and len(value) <= _LONGEST and _plainly(value) in _CURRENT


def _plainly(value: str) -> str:
    return value.strip().lower().replace(" ", "_").replace("-", "_")


def _number(value: str) -> bool:
    """Tells whether a text looks like the number of something said (``msg-500``), not like what is said."""
    value = value.strip()
    return len(value) <= _LONGEST and " " not in value and any(one.isdigit() for one in value)


def _relative(role: Role, ids: Mapping[str, Any]) -> bool:
    """Tells whether a param names something by a number or a name that another project may have as well."""
    name, holds, entity = role
    return name.endswith(_COUNTED) if holds == _ID else holds == _NONE and entity in ids and entity != "project"


def _more(known: Sequence[_T], texts: list[_T]) -> list[_T]:
    """Puts texts behind those that are known, in place: a list of one's own is what all but the first call get."""
    if isinstance(known, list):
        known.extend(texts)
        return known
    return texts


def short(value: Any) -> list[str]:
    """Returns the texts of a value that are short enough for a key: several for a list."""
    if type(value) is str:
        value = value.strip()
        return [value] if value and len(value) <= MAX_TEXT else []
    if type(value) is list and len(value) <= _FEW and set(map(type, value)) == _TEXTS:
        texts = list(map(_strip, value))
        if "" not in texts and "unknown" not in texts and max(map(len, texts)) <= MAX_TEXT:
            return texts
    return [one for one in flatten(value) if len(one) <= MAX_TEXT]


__all__ = ["Arguments", "Role", "part_of", "role_of", "roles", "short"]
