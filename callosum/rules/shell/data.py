"""Databases: SQL through their clients, key-value stores, document stores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from callosum.model import Mode
from callosum.rules import sql
from callosum.rules.shell import code, options, programs, wrap

if TYPE_CHECKING:
    from callosum.rules.shell.parser import Command
    from callosum.rules.shell.run import Run


_UNBOUND: Final = re.compile(r"\bupdate\s+[\w.\"`]{1,128}\s+set\b(?![^;]*\bwhere\b)", re.IGNORECASE)
_DATABASE: Final = re.compile(
    r"\b(?:drop|create|alter)\s+(?:database|schema|keyspace)\s+(?:if\s+(?:not\s+)?exists\s+)?[\"`]?([\w-]{1,128})",
    re.IGNORECASE,
)
_BARE: Final = re.compile(
    r"\s*+(?:select\s[^|;&]{0,2000}\bfrom\b|insert\s+into\s|update\s+[\w.\"`]+\s+set\s|delete\s+from\s"
    r"|drop\s+(?:table|database|schema|view|index|role|user|column|function|trigger|sequence|type)\b"
    r"|truncate\s+(?:table\s+)?[A-Za-z_][\w.\"`]*\s*;?\s*$|alter\s+(?:table|database|role|user|schema)\b|(?:grant|revoke)\s[^|&]{1,200}\bon\b"
    r"|create\s+(?:table|database|schema|index|view|role|user)\b|(?:show|explain|describe)\s+(?:tables|databases|select)\b)",
    re.IGNORECASE,
)
_EMPTIES: Final = re.compile(r"\s*+truncate\s+(?!-)[\"`\[]?([A-Za-z_][\w.]{0,127})", re.IGNORECASE)
_BARE_CALL: Final = re.compile(r"\s*+(?:flushall|flushdb|shutdown(?:\s+(?:no)?save)?)\s*$", re.IGNORECASE)


def statement(run: Run, text: str, database: str = "") -> bool:
    """Judge SQL; False where the text is none. ``database`` is the one its tables are in, as far as it is known."""
    found = sql.statement({"sql": text}, loosely=True)
    if found is None:
        match = _EMPTIES.match(text)
        if match is None:
            return False
        run.note(4, "SQL: truncate")
        run.keyed(4, "table", match.group(1).lower())
        return True
    tier, verb = found.tier, found.verb
    if tier < 4 and _UNBOUND.search(text[:8192]):
        tier, verb = 4, "update of every row"
    run.note(tier, f"SQL: {verb}")
    match = _DATABASE.search(text[:8192])
    if match:
        run.keyed(tier, "database", match.group(1).lower())
    for key in sql.within(found.keys, {"database": database}) if database else found.keys:
        run.key(tier, key.name, key.mode)
    return True


def bare(run: Run, text: str) -> bool:
    """Judge a whole line that is SQL, or a word of a store's own shell, and no command; False if it is not."""
    if _BARE.match(text):
        return statement(run, text)
    if _BARE_CALL.match(text) and text.strip().lower() != "shutdown":
        run.note(4, "empties or ends a store")
        return True
    return False


def sql_client(run: Run, argv: list[str], command: Command) -> None:
    """``psql -c``, ``mysql -e``, ``sqlite3 file "..."`` and what they are fed."""
    program = argv[0].rsplit("/", 1)[-1]
    found = options.read(argv[1:], programs.DATABASE_TAKES)
    texts = [
        value
        for name in ("-c", "-e", "--command", "--execute", "-q", "-Q", "--query")
        for value in found.values.get(name, [])
    ]
    if program in programs.DATABASES_IN_FILES:
        texts += found.args[1:]
    elif program in ("bq", "clickhouse-client", "snowsql", "cqlsh"):
        texts += found.args[-1:]
    if texts and texts[0].isalpha():
        texts[0] = " ".join([texts[0], *found.args])  # nobody quoted it
    text, _, plain = wrap.source(command)
    if text:
        texts.append(text)
    if (
        found.value("-f", "--file")
        or any(sign == "<" for sign, _ in command.redirects)
        or (command.piped and not plain)
    ):
        run.note(2, "runs SQL that the command does not show")
    if (
        program in programs.DATABASES_IN_FILES
        and found.args[:1] in ([], [":memory:"])
        and texts
        and not _REACHES.search("".join(texts))
    ):
        said = [sql.statement({"sql": one}, loosely=True) for one in texts[:32]]
        run.note(int(any(one is not None and one.tier for one in said)), "works on a database that ends with it")
        return
    here = run.place(found.args[0]).path if program in programs.DATABASES_IN_FILES and found.args else ""
    for one in texts[:32]:
        if not statement(run, one, here) and not _own(run, one.strip()):
            run.note(1, "speaks to a database")
    if program in programs.DATABASES_IN_FILES:
        for one in found.args[:1]:
            run.file(0, run.place(one), Mode.WRITE if run.writes else Mode.READ)
    if not texts:
        run.note(0 if found.has("-l", "--list", "-V", "--version") else 1, "opens a database")
    elif run.tier == 0:
        run.note(0, "only looks")


_REACHES: Final = re.compile(
    r"(?:^|;)\s*[.\\]|\b(?:attach|copy|load\w{0,16}|export|vacuum)\b|\b(?:writefile|edit)\s*\(", re.IGNORECASE
)
"""What in SQL reaches beyond a database that is in memory alone."""
_OWN: Final = re.compile(
    r"(?P<copy>\\copy)\s+(?P<what>\([^)]{0,1024}\)|[\w.\"]+)\s*(?:\([^)]{0,1024}\)\s*)?"
    r"(?P<way>from|to)\s+'?(?P<file>[^'\s]{1,512})"
    r"|(?P<shell>\\!|\.shell|\.system)\s*(?P<line>.{1,4096})"
    r"|(?P<runs>\\ir?|\\include|\.read)\s+'?(?P<script>[^'\s]{1,512})"
    r"|(?P<writes>\\o|\\out|\.output|\.once|\.backup|\.save)\s+'?(?P<target>[^'\s]{1,512})"
    r"|(?P<import>\.import)\s+(?:-\S+\s+)*(?P<rows>\S{1,512})\s+(?P<table>\S{1,128})",
    re.IGNORECASE | re.DOTALL,
)


def _own(run: Run, text: str) -> bool:
    """Judge a command of a client's own, which begins with a backslash or a dot; False if it is none."""
    if text[:1] not in ("\\", "."):
        return False
    match = _OWN.match(text)
    if match is None:
        run.note(0, "only looks")
    elif match["copy"] or match["import"]:
        file, table = (match["file"], match["what"]) if match["copy"] else (match["rows"], match["table"])
        if match["copy"] and match["way"].lower() == "to":
            run.makes("" if file.lower() == "stdout" else file, "writes rows into a file")
        else:
            run.note(2, "puts rows into a table")
            run.reads("" if file.lower() == "stdin" else file)
            run.keyed(2, "table", table.strip('"').lower(), Mode.APPEND)
    elif match["shell"]:
        run.within(match["line"])
    elif match["runs"]:
        run.note(2, "runs SQL that the command does not show")
        run.reads(match["script"])
    elif match["target"].lower() != "stdout":
        run.makes(match["target"], "writes a file")
    return True


def warehouse(run: Run, argv: list[str], command: Command) -> None:
    """``bq``: a query is judged by its SQL, anything else by its first word."""
    found = options.read(argv[1:], programs.DATABASE_WAREHOUSE_TAKES)
    verb, *rest = found.args or [""]
    if verb == "query":
        text, _, plain = wrap.source(command)
        for one in [" ".join(rest), text] if rest else [text]:
            if one and not statement(run, one):
                run.note(1, "speaks to a database")
        if found.has("--dry_run"):
            run.note(0, "only tells what it would do")
        elif found.has("--destination_table", "--replace"):
            run.note(2, "writes a table")
            run.keyed(2, "table", found.value("--destination_table").lower())
        if not rest and not (text and plain):
            run.note(2, "runs SQL that the command does not show")
    elif not verb or verb in programs.WAREHOUSE_READS or found.has("--help"):
        run.note(0, "only looks")
    else:
        tier = 4 if verb in ("rm", "remove", "cancel", "truncate") or found.has("--replace") else 2
        run.note(tier, "deletes or replaces tables" if tier == 4 else "changes tables")
        at = {"cp": 1, "load": 0, "insert": 0, "extract": 1}.get(verb, len(rest) - 1)
        for one in rest[at : at + 1]:
            run.keyed(tier, "database" if found.has("-d", "--dataset") else "table", one.lower())


def key_value(run: Run, argv: list[str], command: Command) -> None:
    """``redis-cli`` and its like."""
    found = options.read(argv[1:], programs.DATABASE_KEY_VALUE_TAKES, until=True)
    words = found.args or wrap.source(command)[0].split()[:16]
    verb = words[0].lower() if words else ""
    if verb in ("flushall", "flushdb", "shutdown", "replicaof", "slaveof", "failover", "debug") or (
        verb == "config" and words[1:2] and words[1].lower() in ("set", "rewrite")
    ):
        run.note(4, "empties, ends or reconfigures a store")
        run.keyed(4, "database", "store:" + (found.value("-h") or "localhost"))
    elif verb in ("del", "unlink", "expire", "hdel", "srem", "zrem", "rename", "script"):
        unnamed = any("$(" in one for one in words[1:])
        run.note(4 if unnamed else 2, "removes what a store holds" + (", whatever that is" if unnamed else ""))
        for one in words[1:9]:
            run.keyed(2, "entry", one)
    elif not verb or verb in programs.STORE_READS or verb == "config":
        run.note(0, "only looks")
    else:
        run.note(1, "changes what a store holds")
        for one in words[1:2]:
            run.keyed(1, "entry", one)


def document(run: Run, argv: list[str], command: Command) -> None:
    """``mongosh --eval``: program text in which every call counts."""
    found = options.read(argv[1:], programs.DATABASE_DOCUMENT_TAKES)
    text = found.value("--eval") or wrap.source(command)[0]
    if text:
        code.judge(run, text, database=True)
        for one in found.args[:1]:
            name = one.partition("?")[0].rstrip("/").rsplit("/", 1)[-1]
            if not one.endswith(".js") and ("://" not in one or one.count("/") > 2):
                run.keyed(run.tier, "database", name, Mode.WRITE if run.writes else Mode.READ)
    else:
        run.note(
            2 if found.has("-f", "--file") or any(one.endswith(".js") for one in found.args) else 1, "opens a database"
        )
