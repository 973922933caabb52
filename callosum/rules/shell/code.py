"""What a piece of program text does, by the calls in it: any language, by words alone."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from callosum.model import Mode
from callosum.rules import keys, sql
from callosum.rules import lexicon as lex
from callosum.rules.shell import programs
from callosum.rules.shell.programs import tiers

if TYPE_CHECKING:
    from callosum.rules.shell.run import Run

MAX_CODE: Final = 32_768
"""How many characters of a program text are read."""
_MAX_CALLS: Final = 256

_CALL: Final = re.compile(
    r"(?<![\w.$])([A-Za-z_]\w{0,63}(?:(?:\.|::|->)\w{1,64}){0,8})\s{0,4}(?:!?\(|(?=[\"'`]))"
    r"|(?<=[)\]])\.(\w{1,64})\s{0,4}\("
)
_STRING: Final = re.compile(
    r"\s{0,8}(?:(?:(?:os\.path\.)?(?:expanduser|abspath|realpath)|(?:pathlib\.)?Path|str)\(\s{0,8}){0,3}[rbfuRBFU]{0,2}(?:\"([^\"\n]{0,4096})\"|'([^'\n]{0,4096})'|`([^`]{0,4096})`)"
)
_LIST: Final = re.compile(r"\s{0,8}\[([^\]]{0,2048})\]")
_LISTED: Final = re.compile(r"\[([^\[\]]{1,2048})\]")
_REPLACES: Final = re.compile(r"os\.(?:exec|spawn|posix_spawn)")
"""Calls by which a program becomes another, or starts one."""
_STRINGS: Final = re.compile(r"\"([^\"\n]{0,4096})\"|'([^'\n]{0,4096})'|`([^`]{0,4096})`")
_MODE: Final = re.compile(r"\s{0,8},\s{0,8}(?:mode\s*=\s*)?[\"']([a-z+]{1,4})[\"']")
_SQL: Final = re.compile(
    r"[\"'`]{1,3}\s{0,8}(?=(?:select|insert|update|delete|drop|truncate|alter|create|grant)\s)", re.IGNORECASE
)

_QUERIES: Final = re.compile(
    r"\b(?:execute\w{0,24}|query\w{0,24}|\w{1,24}_query|prepare\w{0,16}|read_sql\w{0,16}|sql)\s{0,4}[(`]"
    r"|(?:\.|->|::)\$?(?:exec|run|do|all|each|raw|unsafe|command|mutate|statement|queryRaw\w{0,8}|executeRaw\w{0,8})\s{0,4}[(`]",
    re.IGNORECASE,
)
"""Calls that hand a statement to a database."""
_UNLINKS: Final = re.compile(r"\bunlink\s{1,4}(?:glob\b\s{0,4}\(?\s{0,4})?[\"'<]([^\"'<>\n]{1,1024})[\"'>]")
"""Perl's, without brackets."""
_OUTSIDE: Final = re.compile(
    r"\b(?:boto3|aws-sdk|client-s3|google[.-]cloud|pymongo|mongodb|mongoclient|mongoose|psycopg2?|sqlalchemy|asyncpg|"
    r"redis|ioredis|prisma|sequelize|kubernetes|client-node|firebase[.-]admin|elasticsearch)\b|@azure/|\bazure\.",
    re.IGNORECASE,
)
"""Libraries whose calls change what others use: databases, stores, clouds."""
_FETCHES: Final = re.compile(
    r"\b(?:fetch|urlopen|urlretrieve|https?\.get|(?:requests|httpx|axios|got|LWP::Simple)(?:\.|::)?get|URI\.open"
    r"|open-uri|get\s{0,4}\(?\s{0,4}[\"']https?|file_get_contents\s{0,4}\(\s{0,4}[\"']https?:)\b",
    re.IGNORECASE,
)
_EVALUATES: Final = re.compile(r"(?<![\w.])(?:(?:eval|instance_eval|runInThisContext)\b|(?:exec|Function)\s{0,4}\()")
_DECODES: Final = re.compile(
    r"\b(?:[ab]\d\dz?decode|atob|fromhex|unhexlify|decode_?base64|base64_decode|decode64|gzinflate|str_rot13|marshal\.loads"
    r"|codecs\.decode|zlib\.decompress|fromCharCode)\b|[\"'](?:base64|hex)[\"']"
)
"""Calls that turn another encoding into text."""
_CAMEL: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def judge(run: Run, text: str, *, database: bool = False) -> None:
    """Note what the calls in ``text`` do. ``database``: it is a database's own shell, so that every call counts."""
    if len(text) > MAX_CODE:
        run.note(3, "runs more code than is read")
        text = text[:MAX_CODE]
    if run.watch is not None:
        run.watch.code(run, text)
    before = run.tier
    harmless = True
    if any(sign in text for sign in ("smtp", "sendmail", "send_mail", "send_email")):
        run.note(3, "sends mail")
        run.repeats = True
        for one in islice(keys.addresses(text[:8192]), 32):
            run.key(3, f"email:{keys.clean(one)}")
    if _EVALUATES.search(text) and _FETCHES.search(text):
        run.note(4, "runs what it fetches from the net, unseen")
    if _EVALUATES.search(text) and _DECODES.search(text):
        run.note(4, "runs what is hidden in another encoding")
    outside = _OUTSIDE.search(text) is not None
    called = dict(_alias(match) for match in islice(_IMPORTED.finditer(text), 64)) if "import" in text else {}
    for match in islice(_CALL.finditer(text), _MAX_CALLS):
        name = match.group(1) or "." + match.group(2)
        name = name.replace("::", ".").replace("->", ".")
        low = name.lower()
        if called and (known := called.get(low.partition(".")[0])) is not None:
            low = ".".join([known, *low.split(".")[1:]])
        last = low.rsplit(".", 1)[-1]
        if low not in programs.CODE_HARMLESS and last not in programs.CODE_HARMLESS and last not in lex.COMMAND_READS:
            harmless = False
        _call(run, name, low, text, match.end(), database=database or (outside and name[0] == "."))
    for match in islice(_UNLINKS.finditer(text), 64):
        run.removes(match.group(1), deep=False)
    queries = (outside or _QUERIES.search(text)) and (
        len(_PASSING.findall(text)) != 1 or len(_CONNECTS.findall(text)) > 1
    )  # program text hands statements to a database that lasts: elsewhere one is a text like any other
    for match in islice(_SQL.finditer(text), 16) if queries else ():
        statement = sql.statement({"sql": text[match.end() : match.end() + 4096]}, loosely=True)
        if statement is not None:
            run.note(statement.tier, f"SQL: {statement.verb}")
            for key in statement.keys:
                run.key(statement.tier, key.name, key.mode)
    if run.tier == before:
        run.note(0 if harmless else 1, "runs code" if not harmless else "runs code that only looks")


_IMPORTED: Final = re.compile(
    r"\bimport\s{1,8}(os|subprocess|shutil)\s{1,8}as\s{1,8}(\w{1,64})"
    r"|\bfrom\s{1,8}(os|subprocess|shutil)\s{1,8}import\s{1,8}(\w{1,64})(?:\s{1,8}as\s{1,8}(\w{1,64}))?"
)


def _alias(match: re.Match[str]) -> tuple[str, str]:
    """Return the name that an import gives to a module or to a function of one, and what it stands for."""
    if match.group(1):
        return match.group(2).lower(), match.group(1)
    return (match.group(5) or match.group(4)).lower(), f"{match.group(3)}.{match.group(4)}"


_PASSING: Final = re.compile(r"[\"'`](?:file:)?:memory:[^\"'`]{0,64}[\"'`]")
"""The name of a database that ends with the program."""
_CONNECTS: Final = re.compile(r"\b(?:connect|open|Database(?:Sync)?|create_engine|createConnection)\s{0,4}\(")


def _call(run: Run, name: str, low: str, text: str, at: int, *, database: bool) -> None:
    last = low.rsplit(".", 1)[-1]
    if last in programs.CODE_REMOVES_TREES or low == "fileutils.rm":
        run.removes(_argument(text, at) or "$x", deep=True)
    elif low in programs.CODE_REMOVES_FILES or (last == "unlink" and "." in low):
        run.removes(_argument(text, at) or "$x", deep=False)
    elif (
        _REPLACES.match(low)
        or low in programs.CODE_RUNS
        or last in programs.CODE_RUNS_ANYWHERE
        or (low == ".exec" and "child_process" in text)
    ):
        inner = _command(low, text, at)
        if inner:
            run.within(inner)
        else:
            run.note(3, "runs a command that its text does not tell")
    elif low == "open" or low.endswith(".open"):
        target = _argument(text, at)
        match = _STRING.match(text, at)
        mode = _MODE.match(text, match.end()) if match else None
        if mode and mode.group(1)[:1] in ("w", "x"):
            run.makes(target or "$x", "writes a file")
        elif mode and mode.group(1)[:1] == "a":
            run.makes(target or "$x", "appends to a file", Mode.APPEND)
        elif target and mode is None:
            run.reads(target)
    elif last in programs.CODE_WRITES_FILES:
        run.makes((_argument(text, at) if last not in ("write_text", "write_bytes") else "") or "$x", "writes a file")
    elif last in programs.CODE_APPENDS:
        run.makes(_argument(text, at) or "$x", "appends to a file", Mode.APPEND)
    elif last in programs.CODE_SENDS_MAIL:
        run.note(3, "sends mail")
        run.repeats = True
    elif last in tiers.CODE_HTTP_TIERS and "." in low and low.split(".", maxsplit=1)[0] in programs.CODE_CLIENTS:
        run.note(tiers.CODE_HTTP_TIERS[last], f"HTTP {last.upper()}")
    else:
        _verb(run, name, low, database=database)


def _command(low: str, text: str, at: int) -> str:
    """Return the command line that a call runs, ``""`` where its text does not tell it."""
    if _REPLACES.match(low):  # the program first, then its words, a list or one by one
        words = _LISTED.search(text, at, at + 512)
        named = _STRINGS.findall(words.group(1) if words else text[at : text.find(")", at, at + 512) + 1])
        return " ".join(map(_quoted, named if words else named[1:]))
    words = _LIST.match(text, at)
    return " ".join(map(_quoted, _STRINGS.findall(words.group(1)))) if words else _argument(text, at)


def _verb(run: Run, name: str, low: str, *, database: bool) -> None:
    parts = [one.lower() for one in _CAMEL.findall(name.rsplit(".", 1)[-1])]
    if not parts:
        return
    receiver = (low.rsplit(".", 1)[0] or ("." if database else "")) if "." in low else ""
    stored = database or any(one in programs.CODE_DATABASES for one in receiver.split("."))
    first = parts[0]
    if (
        stored
        and len(parts) == 1
        and first.startswith(("drop", "delete", "destroy", "remove", "truncate", "flush"))
        and len(first) > 6
    ):
        run.note(4, f"{name}() destroys")
    elif first in lex.COMMAND_DESTROYS or first in lex.COMMAND_REMOVES or (first == "clear" and len(parts) > 1):
        if len(parts) > 1 or (stored and receiver):
            run.note(4, f"{name}() destroys")
        elif receiver and first != "drop":
            run.note(3, f"{name}() may destroy something that lasts")
        else:
            run.note(1, f"{name}() removes something")
    elif database and first in ("insert", "update", "replace", "save", "create", "set", "bulk"):
        run.note(2, f"{name}() changes data")


def _argument(text: str, at: int) -> str:
    match = _STRING.match(text, at)
    return next((one for one in match.groups() if one), "") if match else ""


def _quoted(found: tuple[str, str, str]) -> str:
    word = found[0] or found[1] or found[2]
    return "'" + word.replace("'", "'\\''") + "'"
