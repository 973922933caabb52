"""Texts with a form of their own inside a call: patches, SQL, here-documents."""

from __future__ import annotations

from typing import Any, Final

from callosum.model import Call, Classification, Mode
from fuzz.check import check, sound
from fuzz.source import Source
from fuzz.targets.classify import RULES

WORDS: Final = (
    "*** Begin Patch\n", "*** End Patch\n", "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ",
    "@@ ", "--- a/", "+++ b/", "diff --git a/x b/x\n", "rename from ", "/dev/null", "select ", "insert into ", "update ",
    "delete from ", "drop table ", "truncate ", "where ", "with x as (", "/*", "*/", "--", "$$", ";", "''", "E'\\''",
    "grant ", "alter table ", "explain analyze ", "copy x to ", "<<'E'\n", "<<-E\n", "\nE\n", '<<"E"\n', "merge into ",
)  # fmt: skip
_STATEMENTS: Final = (
    ("select * from users", 0), ("select a, b from orders where id = 1", 0), ("explain select 1 from t", 0),
    ("insert into users values (1)", 1), ("update users set a = 1 where id = 2", 1), ("delete from users where id = 3", 1),
    ("delete from users", 3), ("drop table users", 4), ("truncate table users", 3), ("drop database prod", 4),
    ("alter table users drop column a", 3), ("create table t2 (a int)", 1),
)  # fmt: skip
_GAPS: Final = (" ", "  ", "\n", "\t", " /* x */ ", "/**/", " -- x\n", "\r\n", "\f")
_LETTERS: Final = "abcdefgh"


def run(source: Source) -> None:
    """Test one of them: raw text for each, or a generated text."""
    (_raw, _patch, _sql, _document)[source.number(3)](source)


def _raw(source: Source) -> None:
    text = source.remaining()
    seen = [
        _judged("apply_patch", {"input": text}),
        _judged("Edit", {"file_path": "/a", "patch": text}),
        _judged("run_sql", {"sql": text}),
        _judged("Bash", {"command": f"psql <<'E'\n{text}\nE"}),
        _judged("Bash", {"command": f"cat > f <<E\n{text}"}),
    ]
    check(all(one.effect == "write" for one in (*seen[:2], seen[4])), "patches and redirections write", text, seen)
    before = _judged("run_sql", {"sql": f"drop table users; {text}"})
    check(before.tier == 4, "what is grave stays grave, whatever comes after it", before, text)
    after = _judged("run_sql", {"sql": f"{text}\n; drop table users"})
    check(after.tier >= seen[2].tier, "a statement more lowers no tier", seen[2], after, text)


def _path(source: Source) -> str:
    parts = ["".join(source.pick(_LETTERS) for _ in range(1 + source.number(3))) for _ in range(1 + source.number(2))]
    return "/".join(parts) + source.pick(("", ".py", ".md"))


def _patch(source: Source) -> None:
    paths: list[str] = []
    lines = ["*** Begin Patch"]
    for _ in range(1 + source.number(5)):
        path = _path(source)
        lines.append(f"*** {source.pick(('Add', 'Update', 'Delete'))} File: {path}")
        paths.append(path)
        if lines[-1].startswith("*** Update") and source.maybe(3):
            paths.append(_path(source))
            lines.append(f"*** Move to: {paths[-1]}")
        lines += [source.pick("+- @") + source.text(20).replace("\n", " ").replace("\r", " ") for _ in source.times(4)]
    lines.append("*** End Patch")
    body = "\n".join(lines)
    wanted = {f"file:/w/{path}" for path in paths}
    for tool, params in (
        ("apply_patch", {"input": body}),
        ("apply_patch", {"patch": body}),
        ("Bash", {"command": f"apply_patch <<'EOF'\n{body}\nEOF"}),
        ("shell", {"command": ["apply_patch", body]}),
    ):
        seen = _judged(tool, params)
        written = {one.name for one in seen.keys if one.mode is Mode.WRITE}
        check(wanted <= written, "a patch touches every file that it names", tool, wanted - written, body)


def _sql(source: Source) -> None:
    said, least = source.pick(_STATEMENTS)
    statement = "".join(source.pick(_GAPS) if one == " " else (one.upper() if source.maybe() else one) for one in said)
    statement = (
        source.pick(("", " ", "\n", "-- x\n", "/* select */ ", "(")[:5]) + statement + source.pick(("", ";", " ;\n"))
    )
    seen, plain = (_judged("run_sql", {"sql": one}) for one in (statement, said))
    check(plain.tier >= least, "a statement is as grave as it is", plain, said)
    check(seen.tier == plain.tier, "case, space and comments change no tier", seen, plain, statement)
    more = _judged("run_sql", {"sql": f"{statement.rstrip().rstrip(';')}; drop table users"})
    check(more.tier == 4, "every statement of several counts", more, statement)
    line = _judged("Bash", {"command": f"psql -d shop <<'E'\n{statement}\nE"})
    check(line.tier >= min(plain.tier, 3) or not plain.tier, "SQL that a shell sends counts", line, statement)


def _document(source: Source) -> None:
    path, end = _path(source), source.pick(("E", "EOF", "'E'", '"E"', "\\E"))
    word = end.strip("'\"\\")
    body = "\n".join(source.text(30).replace("\n", " ").replace("\r", " ") for _ in source.times(6))
    if word in body.split("\n") or (end == word and ("`" in body or "$" in body or "\\" in body)):
        body = "plain"
    command = source.pick(("cat > {p} <<{e}\n{b}\n{w}\n", "cat <<{e} > {p}\n{b}\n{w}\n", "tee {p} <<{e}\n{b}\n{w}\n"))
    line = command.format(p=path, e=end, b=body, w=word)
    seen = _judged("Bash", {"command": line})
    names = {one.name for one in seen.keys if one.mode is Mode.WRITE}
    check(f"file:/w/{path}" in names, "a here-document is written to its file", names, line)
    more = _judged("Bash", {"command": f"{line}rm -rf /srv/data\n"})
    check(more.tier == 4, "what stands after a here-document counts", more, line)
    less = _judged("Bash", {"command": line.replace(f"\n{word}\n", "\n")})
    check(less.effect == "write", "a here-document without end counts as a write", less, line)


def _judged(tool: str, params: dict[str, Any]) -> Classification:
    asked = Call("a", tool, params, cwd="/w")
    seen = RULES.classify(asked)
    sound(seen, asked)
    check(seen == RULES.classify(asked), "the same call is judged alike twice", asked)
    return seen
