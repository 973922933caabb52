"""What an SQL statement does: by its keywords, outside of strings and comments."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import re2

from callosum.model import Key
from callosum.rules import keys
from callosum.rules import lexicon as lex
from callosum.rules.keys import APPEND, READ, WRITE
from callosum.rules.lexicon import lists, tiers

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SQL: Final = 32_768
"""How many characters are read; a longer statement is no mere look."""
_PARAMS: Final = frozenset(lists.SQL_PARAMS)

_STARTS: Final = re.compile(
    # possessive: what was passed over as space is never looked at again
    r"(?:[\s(;]++|--[^\n]*+\n|#[^\n]*+\n|/\*(?!!)[^*]*+(?:\*(?!/)[^*]*+)*+\*/|/\*!\d*)*+"
    r"(?:select|insert|update|delete|with|create|drop|alter|truncate|merge|replace|grant|revoke|show|explain|describe|"
    r"pragma|call|exec|vacuum|copy|begin|set|do|execute|declare|values|table|load|lock|rename|kill|shutdown|reset|"
    r"refresh|reindex|optimize|attach|detach|use|commit|rollback|comment|analyze|unload|import|match|unwind)"
    r"\b(?=\s|\(|;|/\*|--|$)",
    re.IGNORECASE | re.DOTALL,
)
_SHAPE: Final = re.compile(
    r"\b(?:from|into|set|table|database|schema|index|view|values|where|tables|databases|on|as|user|role)\b|[*;()]|\d",
    re.IGNORECASE,
)
# RE2: an unclosed comment or quote must not make it scan to the end again and again. Names in double quotes stay;
# what MySQL runs in a comment (``/*! ... */``) stays too.
_NAMES: Final = r'("(?:[^"]|"")*"|`[^`]*`|\[[\w .]{1,128}\])'
_NOTES: Final = r"--[^\n]*|/\*\*/|/\*[^!](?s:.*?)\*/"
_BLANK: Final = re2.compile(rf"{_NAMES}|'(?:[^']|'')*'|{_NOTES}|(?s:\$\$.*?\$\$)")
_BODIES: Final = re2.compile(rf"{_NAMES}|{_NOTES}")
_SLASHED: Final = re2.compile(rf"{_NAMES}|'(?s:(?:[^'\\]|\\.|'')*)'|{_NOTES}")
"""The same where a backslash keeps a quote from ending a string, as in MySQL."""
_SELECT_INTO: Final = re2.compile(r"(?i)\bselect\b[^;]*\binto\b")
_VERB: Final = re.compile(
    r"\b(?:(insert|update|delete|merge|drop|alter|create|grant|revoke|call|exec|vacuum|copy|xp_cmdshell)\b"
    # functions of these names compute: replace(name, 'a', 'b')
    r"|(replace|truncate)\b(?!\s*\())"
    # at the beginning of a statement only: elsewhere they are names as a rule
    r"|(?:^|[;(])\s*+(do|execute|declare|load|lock|rename|kill|shutdown|refresh|reindex|optimize|attach|detach|unload|"
    r"import|comment|commit|rollback|reset|set)\b"
    r"|\b(pg_terminate_backend|pg_cancel_backend|dblink_exec|lo_unlink|lo_import|lo_export|pg_write_file|"
    r"pg_reload_conf|pg_rotate_logfile|setval|nextval|set_config|pg_notify|pg_advisory_lock|get_lock|sys_exec|"
    r"load_extension|query_to_xml)\s*\("
    r"|\bto\s+(program)\b|\bfrom\s+(program)\b",
    re.IGNORECASE,
)
_GRAPH: Final = re.compile(r"\b(set|remove|detach)\b", re.IGNORECASE)
"""What changes a graph besides, in Cypher."""
_GLOBALLY: Final = re.compile(r"\bset\s+(?:global|password|persist)\b|\balter\s+system\b", re.IGNORECASE)
_EVERYTHING: Final = re.compile(r"\b(?:(delete)\s+from|(update)\s+[^\s;]+\s+set)\b([^;]*)", re.IGNORECASE)
_WHERE: Final = re.compile(r"\b(?:where|limit|using|join)\b", re.IGNORECASE)
_TARGET: Final = re.compile(
    r"\b(into|update|from|join|table(?:\s+if(?:\s+not)?\s+exists)?|truncate)\s+"
    r"(?!select\b|table\b|into\b)([\w.\"`\[\]]{1,256})",
    re.IGNORECASE,
)


class Statement(NamedTuple):
    """The gravest verb of a statement, its tier, its tables as keys, and ``how`` it is done, in words."""

    verb: str
    tier: int
    keys: tuple[Key, ...]
    how: str = ""


def statement(params: Mapping[str, Any], *, loosely: bool) -> Statement | None:
    """Return what the SQL among a call's params does, None where there is none.

    ``loosely``: a param named ``query`` counts too, which elsewhere holds words to search for.
    """
    if _PARAMS.isdisjoint(params):
        return None
    worst: Statement | None = None
    for name in lists.SQL_PARAMS:
        if name not in params:
            continue
        if not loosely and name in ("query", "queries"):
            continue
        value = params.get(name)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            value = ";\n".join(value)
        if type(value) is str and (match := _STARTS.match(value)):
            if name in lex.SQL_SENTENCE_PARAMS and not _SHAPE.search(value, match.end()):
                continue
            seen = _read(value[:MAX_SQL].encode("utf-8", "replace").decode())
            if len(value) > MAX_SQL:
                seen = seen._replace(tier=max(seen.tier, 2), how=seen.how if seen.tier else ", and too long to be read")
            if worst is None or seen.tier > worst.tier:
                worst = seen
    return worst


def within(found: tuple[Key, ...], params: Mapping[str, Any]) -> tuple[Key, ...]:
    """Return the tables' keys with the database that the params name, if they name one."""
    for name in lists.SQL_DATABASE_PARAMS:
        database = keys.text(params.get(name))
        if database:
            where = keys.clean(database).lower().replace("/", "%2F")
            return tuple(Key(keys.fit(f"table:{where}/{key.name[6:]}"), key.mode) for key in found)
    return found


@lru_cache(maxsize=256)
def _read(text: str) -> Statement:
    bare = _BLANK.sub(r"\1 ", text)
    verbs = _verbs(bare)
    run = bare
    if "$" in text and {"do", "create"}.intersection(verbs):
        run = _BODIES.sub(r"\1 ", text)  # what stands between $$ and $$ is run, or will be
        verbs = _verbs(run)
    if "\\" in text and "'" in text:
        verbs += _verbs(_SLASHED.sub(r"\1 ", text))
    if _EXPLAINED.match(bare):
        verbs = []
    elif not verbs and _SELECT_INTO.search(bare):
        verbs.append("create")
    worst = max(verbs, key=lambda item: tiers.SQL_TIERS.get(item, 1), default="select")
    tier = tiers.SQL_TIERS.get(worst, 1) if verbs else 0
    how = ""
    for match in _EVERYTHING.finditer(run) if verbs else ():
        all_of_it = 4 if match.group(1) else 3
        if all_of_it > tier and not _WHERE.search(match.group(3)):
            tier, worst, how = all_of_it, "delete" if match.group(1) else "update", " of every row"
    if tier < 4 and _GLOBALLY.search(bare):
        tier, how = 4, " for everybody"
    elif not verbs:
        how = ": it only looks"
    found: list[Key] = []
    for match in islice(_TARGET.finditer(bare), 64):
        word, table = match.group(1).split()[0].lower(), match.group(2)
        table = keys.clean(table.translate(_QUOTES)).lower().strip(".")
        before = bare[max(0, match.start() - 12) : match.start()].lower().rstrip()
        if not table or table in ("select", "set", "only"):
            continue
        if not tier:
            mode = READ
        elif word == "into":
            mode = APPEND if "insert" in verbs else WRITE
        elif word in ("update", "table", "truncate") or (word == "from" and before.endswith("delete")):
            mode = WRITE
        else:
            mode = READ
        if mode is not READ or not tier:
            found.append(Key(keys.fit(f"table:{table}"), mode))
    merged, _ = keys.merge(found)
    return Statement(worst, tier, merged, how)


_EXPLAINED: Final = re.compile(
    r"\s*+(?:explain|describe|desc)\b(?![^;]{0,200}\banaly[sz]e\b)[^;]*+;?\s*+\Z", re.IGNORECASE
)
"""What is explained alone is not run, unless the explanation measures it."""


def _verbs(bare: str) -> list[str]:
    """Return the words of a statement, outside of strings and comments, that change something."""
    found = [match.group(match.lastindex or 0).lower() for match in _VERB.finditer(bare)]
    if _CYPHER.match(bare):
        found += ["delete" if item.lower() == "detach" else "update" for item in _GRAPH.findall(bare)]
    elif "set" in found and _SESSION.search(bare):
        found.remove("set")
    return found


_CYPHER: Final = re.compile(r"\s*+(?:optional\s+)?(?:match|unwind)\b", re.IGNORECASE)
_SESSION: Final = re.compile(
    r"\bset\s+(?:local\s+|session\s+)?(?:search_path|statement_timeout|transaction|role|names|time|timezone|session|@)",
    re.IGNORECASE,
)
"""What is set for the session alone and changes nothing."""
_QUOTES: Final = str.maketrans("", "", '"`[]')
