"""What the arguments of a call hold, by their names and by what they look like.

An argument is an id of some thing (``order_id``), a path, an address, a name, the place where the
thing is (owner and repository, a tenant), a thread, or a condition that narrows a list.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from callosum.rules import keys
from callosum.rules import lexicon as lex
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

_NONE, _ID, _PATH, _MAIL, _URL, _NAME, _SCOPE, _OWNER, _REPO, _THREAD, _PART, _SHAPE, _LOGIN = range(13)

_ID_ENDS: Final = frozenset(
    "id ids uuid guid number numbers no num ref slug iban handle sku ts arn urn identifier key".split()
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
_NAMES: Final = frozenset("name slug username title_slug key".split())
_NOT_IDS: Final = frozenset(
    "page line port version row column phone_country build max min api access secret public private sort idempotency "
    "partition primary foreign cache".split()
)
_NUMBERED: Final = frozenset("page line version row column".split())
_REAL_IDS: Final = frozenset("id ids uuid guid".split())
"""``page_number`` is where to read on, ``page_id`` is a page."""
_VALUES: Final = frozenset(
    "password passcode passphrase pin otp secret token price amount cost quantity status".split()
)
"""What a thing has, or what nobody may read; which thing it is they do not say."""
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
        rest = [singular(one) for one in found[:-1] if one not in lex.QUALIFIERS]
        entity = "parent" if "parent" in found else rest[-1] if rest else ""
        if entity == "file":
            entity = "file-id"  # a drive's number, no path
        named = entity in _NUMBERED and found[-1] in _REAL_IDS
        if (entity in _NOT_IDS and not named) or (found[-1] == "key" and not rest):
            return _NONE, ""
        if entity in lex.SCOPES or "_".join(rest) in lex.SCOPES:
            return _SCOPE, entity
        return _ID, entity
    rest = [singular(one) for one in found if one not in lex.QUALIFIERS]
    if len(rest) == 2 and found[-1] in _NAME_ENDS and rest[0] not in _PERSONAL:
        return _NONE, rest[0]
    return _NONE, rest[-1] if len(rest) == 1 else ""


def role_of(name: str) -> str | None:
    """Returns the thing whose id a field of this name is, ``""`` for a bare ``id``, None for no id."""
    role, entity = _role(name)
    return entity if role == _ID else None


def part_of(name: str, value: Any) -> str:
    """Returns the text of a param that names one thing by an id, a name or a noun (``symbol``), else ``""``."""
    if type(name) is not str or len(name) > 64 or name[:1] == "_":
        return ""
    role, entity = _role(name)
    named = role in (_ID, _NAME) or (
        role == _NONE and entity and entity not in _TIMES and entity not in _VALUES and type(value) is str
    )
    text = keys.text(value) if named and type(value) is not bool else None
    return text if text and len(text) <= 128 and text.count(" ") <= _WORDS and "\n" not in text else ""


class Arguments:
    """The arguments of one call, sorted by what they hold.

    ``ids`` and ``scopes`` by the thing they name; ``paths`` with the param's name; ``narrowed``: an
    argument that names nothing narrows what is asked for; ``paged``: a part is asked for; ``login``: a short
    digest of as whom the call is made, ``""`` where it does not say.
    """

    __slots__ = (
        "ids", "login", "mails", "names", "narrowed", "owner", "paged", "paths", "repo", "scopes", "threads", "urls"
    )  # fmt: skip

    def __init__(self, params: Mapping[str, Any], nouns: tuple[str, ...]) -> None:
        self.ids: dict[str, list[str]] = {}
        self.scopes: dict[str, list[str]] = {}
        self.mails: list[str] = []
        self.paths: list[tuple[str, str]] = []
        self.urls: list[str] = []
        self.names: list[str] = []
        self.threads: list[str] = []
        self.owner = self.repo = self.login = ""
        self.narrowed = self.paged = False
        for name, value in islice(params.items(), MAX_PARAMS):
            kind = type(value)
            if value is None or type(name) is not str or name[:1] == "_":
                continue
            if kind is bool or value == "":
                continue
            role, entity = _role(name) if len(name) <= 64 else (_NONE, "")
            if role == _NONE:
                self._unnamed(entity, value, nouns)
            elif role == _PART:
                self.paged = True
            elif role != _SHAPE and (texts := short(value)):
                self._named(role, entity, texts)

    def _unnamed(self, entity: str, value: Any, nouns: tuple[str, ...]) -> None:
        """Takes an argument whose name says little: an address as such, or a noun of the tool."""
        kind = type(value)
        if kind is str and len(value) <= 320 and "@" in value and " " not in value.strip() and keys.addresses(value):
            self.mails.append(value)
        elif kind is str and (value.count(" ") > _WORDS or "\n" in value):
            self.narrowed = True  # what is said in a comment, not which one is meant
        elif (
            entity
            and entity in nouns
            and entity not in _TIMES
            and entity not in _VALUES
            and kind is not dict
            and (texts := short(value))
        ):
            self.ids.setdefault(entity, []).extend(texts)
        elif kind is list and value and all(type(one) is str and len(one) <= 320 and "@" in one for one in value[:256]):
            self.mails.extend(value[:256])
        else:
            self.narrowed = True

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


def short(value: Any) -> list[str]:
    """Returns the texts of a value that are short enough for a key: several for a list."""
    if type(value) is str:
        value = value.strip()
        return [value] if value and len(value) <= MAX_TEXT else []
    return [one for one in flatten(value) if len(one) <= MAX_TEXT]


__all__ = ["Arguments", "part_of", "role_of", "short"]
