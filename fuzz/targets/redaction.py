"""Secrets: a planted secret is never kept, wherever it is, and the kept text is plain JSON."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import msgspec

from callosum.redact import MARKER, quote, redact_text, said, summarise
from callosum.redact.json_lines import suspects
from fuzz import make
from fuzz.check import check
from fuzz.source import Source

_BODY: Final = "aB3dE6gH1jK4mN7pQ0sT2vW5yZ8"
TOKENS: Final = (
    f"ghp_{_BODY}", f"github_pat_{_BODY}", f"glpat-{_BODY}", f"xoxb-{_BODY}", "AKIAIOSFODNN7EXAMPLE", f"sk-{_BODY}",
    f"AIza{_BODY}12345678", f"sk_live_{_BODY}", f"npm_{_BODY}12345", f"hf_{_BODY}", f"eyJhbGciOiJIUzI1NiJ9.{_BODY}.{_BODY}",
    f"whsec_{_BODY}", f"cal_mira_{_BODY}{_BODY[:16]}", f"SG.{_BODY}.{_BODY}", f"123456789:AA{_BODY}123456",
)  # fmt: skip
WORDS: Final = (
    *TOKENS[:6], "password=", "Authorization: ", "Bearer ", "Basic ", "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----",
    "://u:p@", "curl -u a:", "--token ", "API_KEY=", "\\n", '"', "'", "[redacted]", "$(", "${", "Cookie: ", "sshpass -p ", "token: ",
)  # fmt: skip
_BEFORE: Final = (" ", "\n", "\t", '"', "'", "=", "<", "(", ",", ":", "\\n", "/", "`", "|", ";")
_AFTER: Final = (" ", "\n", '"', "'", ">", ")", ",", ";", "\\n", "`", "|", "&", "")
_ASSIGNED: Final = (
    "password={}",
    "API_KEY='{}'",
    '"secret": "{}"',
    "--token {}",
    "Authorization: Bearer {}",
    "https://u:{}@x.org/",
)

_WITHIN = r"(?<=\w)(?<!\\[nrtbf])(?<!\\u[0-9a-f]{4})"
"""Behind a letter or digit of JSON's text that is not the end of an escape."""


def run(source: Source) -> None:
    """Plant a secret in a text and in params; redact texts and params with any content."""
    token = source.pick(TOKENS)
    planted = source.pick(_BEFORE) + token + source.pick(_AFTER)
    if source.maybe(3):
        planted = source.pick(_BEFORE) + source.pick(_ASSIGNED).format(token)
    kept = {make.name(source): make.value(source), make.name(source): _nested(source, planted)}
    mode: Literal["summary", "full"] = source.pick(("summary", "full"))
    loose: dict[str, Any] = {**kept, "more": make.strange(source)} if source.maybe(4) else kept
    shown = summarise(loose, mode=mode)
    written = msgspec.json.encode(shown).decode()
    # By chance one is in the middle of another word, where it is no secret.
    alone = re.sub(_WITHIN + re.escape(token), "", written)
    check(token not in alone, "a planted secret is not kept", token, loose, written)
    _lines(kept)
    before, after = (one.replace(token, "") for one in (source.text(60), source.remaining()))
    text = before + planted + after
    redacted = redact_text(text)
    check(token not in redacted, "a planted secret is not shown", token, text, redacted)
    for one in (text, before + after):
        once = redact_text(one)
        check(redact_text(once) == once, "what is redacted stays as it is", one, once, redact_text(once))
        for limit in (20, 80, 300):
            told = said(one, limit)
            check(len(told) <= limit and told.isprintable(), "what is said is one short line", one, told)
            alone = re.sub(_WITHIN + re.escape(token), "", told)  # also if the text between is not shown
            check(token not in alone, "a planted secret is not said", one, told)
            quoted = quote(one, limit)
            check(len(quoted) <= limit + 2 and '"' not in quoted[1:-1], "a quotation ends where it ends", one, quoted)


def _nested(source: Source, text: str) -> Any:
    made: Any = source.text(30) + text + source.text(30)
    for _ in source.times(4):
        made = (
            source.pick(([made], {make.name(source): made}, [1, made], {"x": 1, made: 2}, (made,)[:1]))
            if isinstance(made, str)
            else [made]
        )
    return made


def _lines(kept: dict[str, Any]) -> None:
    """Check that a line with redacted text is one that the quick search over many lines names."""
    try:
        line = msgspec.json.encode(kept)
        plain = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, ValueError, OverflowError, RecursionError, TypeError):
        return
    before, after = (
        line.count(MARKER.encode()),
        msgspec.json.encode(summarise(plain, mode="full")).count(MARKER.encode()),
    )
    if after > before:
        check(suspects(line + b"\n") == [0], "the quick look names every line with a secret", line)
