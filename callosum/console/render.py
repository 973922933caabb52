"""Render templates to HTML. What agents wrote is escaped, and its hidden characters are shown."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from callosum.characters import escaped
from callosum.model import SECOND
from callosum.pages.action_lines import in_the_way, without_spellings
from callosum.policy.sentence import ago

CSRF: Final = f"csrf-{secrets.token_hex(16)}"
"""Placeholder in shared HTML for the form token, which each session has its own of."""
BODY: Final = f"body-{secrets.token_hex(16)}"
"""Placeholder in a page for its body, which is read while the browser already has the head."""
LIVE: Final = f"live-{secrets.token_hex(16)}"
"""Placeholder in a page for the tag of the state that it shows."""
_TIERS: Final = ("no risk", "low risk", "medium risk", "high risk", "critical")
_VERDICTS: Final = {
    "allow": "ran",
    "warn": "ran, with a warning",
    "confirm": "paused",
    "ask": "asks",
    "block": "blocked",
}
_EVENTS: Final = {
    "intercept": "called",
    "complete": "ended",
    "lock": "locked",
    "release": "released",
    "renew": "lease renewed",
    "lapse": "lease ran out",
    "resolve": "resolved",
    "approve": "approved",
    "deny": "refused",
    "queue": "queued",
    "late": "journalled late",
}
_WOULD: Final = {
    "allow": "run",
    "warn": "run, with a warning",
    "confirm": "been paused",
    "ask": "been asked about",
    "block": "been blocked",
}
_ENDINGS: Final = {
    "confirmed": "repeated and ran",
    "waited": "ran after the conflict was over",
    "heeded": "given up",
    "approved": "approved",
    "denied": "refused",
    "unanswered": "nobody answered",
    "blocked": "stayed blocked",
    "regretted": "repeated, and regretted",
    "warned": "warned",
}


def _finalize(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return escaped(value)
    return "" if value is None else value


def _short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _time(unix: float) -> Markup:
    """Return a moment as a time that the page keeps current; without JavaScript it is the time of day."""
    moment = datetime.fromtimestamp(unix, UTC)
    local = moment.astimezone()
    today = local.date() == datetime.now(UTC).astimezone().date()
    shown = local.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M")
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(timespec="seconds"), shown)


def _words(text: str) -> str:
    """Return what an entry records, in the words of the pages: ``intercept confirm`` is ``paused``."""
    words = text.split(" ")
    return " ".join(_VERDICTS.get(word) or _EVENTS.get(word, word) for word in words[words[0] == "intercept" :])


def _long(seconds: float) -> str:
    """Return a duration in words."""
    for unit, name, most in ((0.001, "ms", 1), (1, "s", 120), (60, "min", 7200)):
        if seconds < most:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 3600:.1f} h"


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("callosum.console"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_finalize,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_ENVIRONMENT.filters |= {
    "short": _short,
    "lines": lambda text: Markup("\n").join(Markup.escape(escaped(line)) for line in text.splitlines()),
    "time": _time,
    "moment": lambda microseconds: _time(microseconds / SECOND),
    "mark": lambda text: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12],
    "ago": ago,
    "long": _long,
    "rules": lambda found: ",\n".join(
        msgspec.json.format(msgspec.json.encode(one), indent=2).decode() for one in found
    ),
    "would": lambda verdict: _WOULD.get(str(verdict), str(verdict)),
    "bare": without_spellings,
    "tier": lambda tier: _TIERS[tier],
    "verdict": lambda verdict: _VERDICTS.get(str(verdict), str(verdict)),
    "in_the_way": in_the_way,
    "event": lambda event: _EVENTS.get(str(event), str(event)),
    "words": _words,
    "ending": lambda how: _ENDINGS.get(how, how),
}
_ENVIRONMENT.globals |= {"csrf": CSRF, "body": BODY, "live": LIVE}


def render(template: str, shown: Mapping[str, Any]) -> str:
    """Render a template of ``templates/``."""
    return _ENVIRONMENT.get_template(template).render(shown)
