"""Keys: one thing has one spelling; different things have different keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from callosum.model import Call, Key, overlap
from callosum.rules import keys
from fuzz import make
from fuzz.check import check, sound, well_formed
from fuzz.source import Source
from fuzz.targets.classify import RULES

WORDS: Final = (
    "@", "<a@x.org>", "mailto:", "..", "/./", "//", "~", "\\", "C:\\", "file://", "http://", "HTTPS://X.ORG:443", "#", "?a=b",
    "%2F", "+tag", "xn--", "|", "\u200b", "\u0430", "é", "e\u0301", "2026-05-19T10:00", "+02:00", "Z", "\uff45", "İ", "ß",
)  # fmt: skip
_ENTITIES: Final = ("file:", "email:", "url:", "order:", "channel:", "repo:", "thread:", "slot:", "db:")
_LETTERS: Final = "abcdefgh0123"
_EVENT: Final = "create_calendar_event"


def run(source: Source) -> None:
    """Test one kind of key."""
    (_raw, _address, _path, _url, _slot)[source.number(4)](source)


def _raw(source: Source) -> None:
    """Any text in any kind of key: normalising it twice changes nothing more."""
    entity, cwd = source.pick(_ENTITIES), source.pick((None, "/w", "C:\\w", "rel"))
    text = source.remaining()
    for found in (keys.spell(entity, text, cwd), keys.canonical(text, cwd), keys.canonical(entity + text, cwd)):
        well_formed(tuple(Key(one) for one in dict.fromkeys(found)))
        for one in found:
            again = keys.canonical(one, None)
            check(again == (one,), "a key has one spelling", one, again, text, cwd)
            check(overlap(one, one), "a key meets itself", one)
            for other in ("order:1", "file:/w/", "file:/", "order:/", "email:a@x.org"):
                check(overlap(one, other) == overlap(other, one), "what meets meets both ways", one, other)


def _word(source: Source) -> str:
    return "".join(source.pick(_LETTERS) for _ in range(1 + source.number(5)))


def _names(tool: str, params: dict[str, Any], cwd: str | None = "/w") -> set[str]:
    asked = Call("a", tool, params, cwd=cwd)
    seen = RULES.classify(asked)
    sound(seen, asked)
    return {one.name for one in seen.keys}


def _address(source: Source) -> None:
    address = f"{_word(source)}.{_word(source)}@{_word(source)}.org"
    shouted = "".join(one.upper() if source.maybe() else one for one in address)
    shown = source.pick(
        (
            "{}",
            " {} ",
            "<{}>",
            "Bob <{}>",
            '"Bob, B." <{}>',
            "mailto:{}",
            "{};",
            "\t{}\n",
            "{},",
            "Jörg <{}>",
        )
    ).format(shouted)
    given: Any = [shown] if source.maybe() else shown
    wanted = f"email:{address}"
    for tool, param in (("send_email", "to"), ("reply_to_email", "recipients"), ("send_mail", "cc")):
        found = _names(tool, {param: given, "body": "x"})
        check(wanted in found, "an address has one spelling", tool, param, given, found)
    other = f"z{address}"
    found = _names("send_email", {"to": [shown, other], "body": "x"})
    check({wanted, f"email:{other}"} <= found, "all recipients count", shown, other, found)


def _path(source: Source) -> None:
    parts = [_word(source) for _ in range(1 + source.number(3))]
    plain = "/w/" + "/".join(parts)
    noisy = ""
    for part in parts:
        noisy += source.pick(("", "./", "/", ".//", f"{_word(source)}/../", "./././")) + part + "/"
    noisy = source.pick(("", "./", "/w/", "file:///w/", "/w/../w/", f"../{'w'}/")) + noisy.lstrip("/")[:-1]
    for tool, params in (
        ("write_file", {"path": noisy, "content": "x"}),
        ("delete_file", {"file_path": noisy}),
        ("Bash", {"command": f"touch {noisy}"}),
    ):
        if "command" in params and noisy.startswith("file:"):
            continue
        found = _names(tool, params)
        check(f"file:{plain}" in found, "a path has one spelling", tool, noisy, plain, found)
    tree = f"file:{plain.rsplit('/', 1)[0]}/"
    check(overlap(tree, f"file:{plain}"), "a folder covers what is in it", tree, plain)


def _url(source: Source) -> None:
    host, path = f"{_word(source)}.org", "/".join(_word(source) for _ in source.times(3))
    scheme, port = source.pick((("http", ":80"), ("https", ":443"), ("https", ""), ("http", "")))
    plain = f"url:{scheme}://{host}/{path}".rstrip("/")
    said = "".join(one.upper() if source.maybe() else one for one in f"{scheme}://{host}") + port
    said += f"/{path}" + source.pick(("", "/", "#part")) if path else source.pick(("", "/"))
    found = _names("fetch_page", {"url": said})
    check(plain in found, "an address has one spelling", said, plain, found)
    for tool in ("update_page", "delete_link"):
        other, found = _names(tool, {"url": plain[4:]}), _names(tool, {"url": said})
        check(found == other, "an address has one spelling", tool, said, plain, found, other)


def _slot(source: Source) -> None:
    """Two appointments of one calendar conflict if and only if their quarter hours overlap, in any time zone."""
    day = datetime(2026, 1 + source.number(11), 1 + source.number(27), tzinfo=UTC)
    first, second = ((day + timedelta(minutes=15 * source.number(95)), 15 * (1 + source.number(8))) for _ in range(2))
    found = []
    for start, minutes in (first, second):
        zone = timezone(timedelta(minutes=15 * (source.number(96) - 48)))
        there = start.astimezone(zone)
        end = (start + timedelta(minutes=minutes)).astimezone(zone)
        params: dict[str, Any] = {"title": "x", "start_time": there.isoformat()}
        if source.maybe():
            params["end_time"] = end.isoformat()
        else:
            params["duration_minutes"] = minutes
        found.append({one for one in _names(_EVENT, params) if one.startswith("slot:")})
        check(len(found[-1]) == minutes // 15, "an appointment takes its quarters of an hour", params, found[-1])
    meet = first[0] < second[0] + timedelta(minutes=second[1]) and second[0] < first[0] + timedelta(minutes=first[1])
    check(bool(found[0] & found[1]) == meet, "what overlaps meets, and nothing else", first, second, found)
    well_formed(tuple(Key(one) for one in sorted(found[0] | found[1])))
    _names(_EVENT, {name: make.value(source, 1) for name in ("start", "end", "duration", "calendar_id")})
