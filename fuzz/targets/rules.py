"""Files that a person writes: rules in JSON, settings in TOML. Accepted, or refused with the place of the error."""

from __future__ import annotations

import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from callosum.errors import ConfigError
from callosum.model import Kind, Verdict
from callosum.rules import RuleSet
from callosum.rules.fields import FIELDS
from callosum.settings import load
from fuzz import make
from fuzz.check import check, sound
from fuzz.source import Source

WORDS: Final = (
    *FIELDS, *Verdict, *Kind, '{"rules": [', "]}", "*", "{params.", "}", "contextKey", "\\ud800", "1e999", "NaN", "[[", "{" * 40,
    "state = ", "[lease]\n", "[journal]\n", "[server]\n", "[health]\n", "ttl = ", "'''", '"""', "1979-05-27", "inf", "0x",
)  # fmt: skip
_TEMPLATES: Final = (
    "order:{params.id}", "file:{params.path}", "email:{params.to}", "x:{params.a}/{params.b}", "x:y", "{tool}", "x:{params.",
    "x:{", "a|b", "x:{session}", "x:{params.a.b}", "x:{cwd}", "file:{params.path}/",
)  # fmt: skip
_PATTERNS: Final = ("rm .*", "(", "a{1000}", "(?=x)", "[", "\\bgit\\b", "(a|b)*c", "\\p{Greek}", "(?i)X", "\ud800")


def run(source: Source) -> None:
    """Read a file; if it is accepted, classify a call by it."""
    kind = source.number(3)
    if kind == 0:
        _read(source.rest(), source)
    elif kind == 1:
        _settings(source.rest())
    elif kind == 2:
        _settings(_toml(source).encode("utf-8", "surrogatepass"))
    else:
        made = {"rules": [_rule(source) for _ in source.times(5)]}
        if source.maybe(6):
            made[source.text(8)] = make.value(source, 1)
        try:
            data = json.dumps(made).encode()
        except (RecursionError, ValueError):  # with more levels or digits than Python writes
            return
        _read(data, source)


def _read(data: bytes, source: Source) -> None:
    try:
        found = RuleSet.parse(data, secret=b"s")
    except ConfigError as error:
        check(str(error), "a refusal says why", data)
        return
    asked = make.call(source)
    seen = found.classify(asked)
    sound(seen, data, asked)
    check(seen == found.classify(asked), "the same call is judged alike twice", data, asked)
    found.deciding(asked)
    check(all(0 <= one <= 4 for one in found.highest_tiers().values()), "a tier lies from 0 to 4", data)


def _rule(source: Source) -> dict[str, Any]:
    made: dict[str, Any] = {"tool": make.tool(source), "tier": source.number(4)}
    for _ in source.times(5):
        made[source.pick(tuple(FIELDS))] = _value(source)
    if source.maybe(8):
        made[source.text(10)] = make.value(source, 1)
    return made


def _value(source: Source) -> Any:
    """Return a value of a field, most often in the wrong place."""
    match source.number(6):
        case 0:
            return source.pick(_TEMPLATES)
        case 1:
            return source.pick(_PATTERNS)
        case 2:
            return source.pick(
                (0, 4, 5, -1, 3.0, 3.5, True, None, 10**30, "write", "read", "+attend", [], {}, "*", [["a"]])
            )
        case 3:
            return {source.pick(tuple(Kind)): source.pick(tuple(Verdict)) for _ in source.times(3)}
        case 4:
            return {make.name(source): make.scalar(source) for _ in source.times(3)}
        case 5:
            return [{"key": source.pick(_TEMPLATES), "mode": source.pick(("read", "write", "append", "x", 1))}]
        case _:
            return make.value(source, 2)


_TABLES: Final = ("", "lease", "journal", "server", "corpus", "regions", "brief", "health", "telemetry", "x")
_SET: Final = (
    "state", "namespace", "instance", "mode", "rules", "notify", "ttl", "params", "age", "size", "host", "port", "socket",
    "hosts", "origins", "log", "off", "budget", "memory", "disk", "free", "prometheus", "logging", "nothing",
)  # fmt: skip
_VALUES: Final = (
    '"x"', '""', "7700", "-1", "0.5", "nan", "inf", "true", "[]", '["a"]', "[1]", "{}", "{a=1}", '"5m"', '"64MB"', '"enforce"',
    "1979-05-27T07:32:00Z", "99999999999999999999999", '"\\u0000"', '"~/a"', '"~nobody/a"', '"/' + "a" * 300 + '"', "'''\n'''",
)  # fmt: skip


def _toml(source: Source) -> str:
    lines = []
    for _ in source.times(8):
        if source.maybe(3):
            lines.append(f"[{source.pick(_TABLES)}]")
        lines.append(f"{source.pick(_SET)} = {source.text(20) if source.maybe(4) else source.pick(_VALUES)}")
    return "\n".join(lines)


@cache
def _file() -> Path:
    """Return the path of a file that only this process uses."""
    return Path(tempfile.mkdtemp(prefix=f"callosum-fuzz-{os.getpid()}-")) / "callosum.toml"


def _settings(data: bytes) -> None:
    path = _file()
    path.write_bytes(data)
    try:
        found = load({"config": str(path)}, {}, path.parent)
    except ConfigError as error:
        check(str(error), "a refusal says why", data)
        return
    check(found.config is not None and 0 <= found.server_port <= 65535 and found.lease_ttl > 0, "settings fit", found)
